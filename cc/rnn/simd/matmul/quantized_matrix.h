// Matrices of integers.
//
// A real matrix is the integers times a scale: one scale for each row of a left
// operand, one for each column of a right operand. An integer has 8 bits, or it
// is 128 h + l in two digits of 8 bits, |h| <= 127 and -64 <= l < 64. The
// products of two digits are exact except for l l', which is left out:
//
//   (128 h + l) (128 h' + l') ~ 128² h h' + 128 (l h' + h l')
//
// Its magnitude is at most 4096. Rounding to integers, of up to 16319, changes
// a product by up to four times as much.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_

#include <cassert>
#include <cmath>
#include <cstdint>

#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

using Sums = Vector<std::int32_t>;

// Number of neighbors whose products are added at once.
constexpr std::int64_t kQuantizedTerms = 4;
// The largest magnitudes of integers. -128 is not used.
constexpr float kMostOfOneDigit = 127;
constexpr float kMostOfTwoDigits = 127 * 128 + 63;

// The depth with padding.
constexpr std::int64_t QuantizedDepth(std::int64_t depth) {
  return CeilDiv(depth, kQuantizedTerms) * kQuantizedTerms;
}

// What is added to the elements of left operands when they are stored, because
// the instruction reads them as unsigned.
#if defined(__AVX512VNNI__)
constexpr int kLeftOffset = 128;
#else
constexpr int kLeftOffset = 0;
#endif

// Rows of 8-bit numbers, [rows, depth].
struct QuantizedLeft {
  std::int8_t* data;
  float* scales;  // [rows]
  std::int64_t rows;
  std::int64_t depth;
  std::int64_t stride = Stride(depth);  // between rows

  std::int8_t* Row(std::int64_t row) const { return data + row * stride; }
  QuantizedLeft Rows(std::int64_t row, std::int64_t num_rows) const {
    return {Row(row), scales + row, num_rows, depth, stride};
  }
  // As many bytes as there are floats in whole vectors.
  static std::int64_t Stride(std::int64_t depth) {
    return CeilDiv(depth, kVectorElements<float>) * kVectorElements<float>;
  }
};

// Rows of numbers of two digits, [rows, depth], as the left operands of both
// products. In memory, a row is [h, l, h].
struct TwoDigitLeft {
  TwoDigitLeft(std::int8_t* data, float* scales, std::int64_t rows,
               std::int64_t depth)
      : high{data, scales, rows, depth, Stride(depth)},
        cross{data + QuantizedDepth(depth), scales, rows,
              2 * QuantizedDepth(depth), Stride(depth)} {}

  static std::int64_t Stride(std::int64_t depth) {
    return 2 * QuantizedDepth(depth) + QuantizedLeft::Stride(depth);
  }

  QuantizedLeft high;   // h
  QuantizedLeft cross;  // [l, h]
};

// Columns of 8-bit numbers, [depth, cols], in blocks of kCols columns:
// [blocks, depth / kQuantizedTerms, kCols, kQuantizedTerms].
struct QuantizedRight {
  static constexpr std::int64_t kCols = kTileCols<float>;
  static constexpr std::int64_t kProducts = 1;

  std::int8_t* data;
  float* scales;       // [cols]
  std::int32_t* sums;  // -kLeftOffset times the sum of each column
  std::int64_t depth;
  std::int64_t cols;                             // a multiple of kCols
  std::int64_t stride = kCols * ColSize(depth);  // between blocks

  std::int8_t* At(std::int64_t row, std::int64_t col) const {
    return data + col / kCols * stride +
           (row / kQuantizedTerms * kCols + col % kCols) * kQuantizedTerms +
           row % kQuantizedTerms;
  }
  QuantizedRight Cols(std::int64_t col, std::int64_t num_cols) const {
    return {At(0, col), scales + col, sums + col, depth, num_cols, stride};
  }
  // The bytes of a column.
  static std::int64_t ColSize(std::int64_t depth) {
    return QuantizedDepth(depth);
  }
};

// Columns of numbers of two digits, [depth, cols], as the right operands of
// both products. In memory, a column is [h, l]. Row k is what is packed,
// divided by factors[k] unless that is 0; column k of the left operand is
// multiplied by it.
struct TwoDigitRight {
  static constexpr std::int64_t kProducts = 2;

  // scales, sums: [kProducts, cols]
  TwoDigitRight(std::int8_t* data, float* scales, std::int32_t* sums,
                std::int64_t depth, std::int64_t cols)
      : high{data,  scales, sums,
             depth, cols,   QuantizedRight::kCols * ColSize(depth)},
        cross{data, scales + cols, sums + cols, ColSize(depth), cols} {}

  TwoDigitRight Cols(std::int64_t col, std::int64_t num_cols) const {
    TwoDigitRight cols = *this;
    cols.high = high.Cols(col, num_cols);
    cols.cross = cross.Cols(col, num_cols);
    return cols;
  }
  static std::int64_t ColSize(std::int64_t depth) {
    return 2 * QuantizedDepth(depth);
  }

  QuantizedRight high;       // h
  QuantizedRight cross;      // [h, l]
  float* factors = nullptr;  // [depth]
};

// The digits h and l of an integer, or of the integers of a vector.
template <typename Integers>
TF_RNN_OPS_VECTOR_INLINE Integers HighDigit(Integers x) {
  return (x + 64) >> 7;
}
template <typename Integers>
TF_RNN_OPS_VECTOR_INLINE Integers LowDigit(Integers x) {
  return ((x + 64) & 127) - 64;
}

// How to quantize numbers of magnitudes up to `most` to integers of magnitudes
// up to most_integer. If `most` is not finite, the scale is NaN, and so are all
// results.
struct Quantization {
  Quantization(float most, float most_integer)
      : scale(most / most_integer + (most - most)),
        reciprocal(most < kLeast ? 0 : most_integer / most) {}

  // Smaller numbers become 0, so that the reciprocal is finite.
  static constexpr float kLeast = 1e-30f;

  float scale;
  float reciprocal;
};

// The nearest integers, ties to even, of numbers up to kMostOfTwoDigits.
TF_RNN_OPS_VECTOR_INLINE Sums RoundToIntegers(Vector<float> x) {
  // The last bit of such a sum has the value 1.
  constexpr float kShift = 3 << 22;
  const Sums bits = (Sums)(x + kShift);
  return bits << 16 >> 16;
}

// Quantizes a row. Elements beyond +-1e30, such as infinities, count as that:
// gates saturate, and no difference of infinities arises. Returns the scale,
// NaN if an element is NaN.
// load(k): the elements from k on, then zeros. store(k, integers): is called in
// descending order.
template <typename LoadElements, typename StoreIntegers>
float QuantizeRow(std::int64_t depth, float most_integer,
                  const LoadElements& load, const StoreIntegers& store) {
  constexpr std::int64_t kLanes = kVectorElements<float>;
  const auto magnitude = [](Vector<float> x) TF_RNN_OPS_LAMBDA_INLINE {
    return AtMost<float>(Abs<float>(x), 1e30f);
  };
  Vector<float> most{};
  Vector<float> nan{};  // NaN if an element is NaN
  for (std::int64_t k = 0; k < depth; k += kLanes) {
    const Vector<float> x = magnitude(load(k));
    most = Select<float>(most < x, x, most);
    nan += x - x;
  }
  float largest = 0;
  float sum = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    largest = largest < most[lane] ? most[lane] : largest;
    sum += nan[lane];
  }
  const Quantization quantization(largest + sum, most_integer);
  for (std::int64_t k = (CeilDiv(depth, kLanes) - 1) * kLanes; k >= 0;
       k -= kLanes) {
    const Vector<float> x = load(k);
    store(k, RoundToIntegers(WithSign<float>(magnitude(x), x) *
                             Broadcast(quantization.reciprocal)));
  }
  return quantization.scale;
}

// Loads a vector, or `count` elements and zeros if they are fewer.
TF_RNN_OPS_VECTOR_INLINE Vector<float> LoadUpTo(const float* from,
                                                std::int64_t count) {
  return count >= kVectorElements<float> ? Load<float>(from)
                                         : LoadPartial<float>(from, count);
}

// Stores elements of a left operand.
TF_RNN_OPS_VECTOR_INLINE void StoreLeft(Sums integers, std::int8_t* to) {
  typedef std::int8_t Bytes
      __attribute__((vector_size(kVectorElements<float>), aligned(1)));
  *reinterpret_cast<Bytes*>(to) =
      __builtin_convertvector(integers + kLeftOffset, Bytes);
}

// Quantizes each row of a left operand.
inline void QuantizeRows(const LeftMatrix<float>& from,
                         const QuantizedLeft& to) {
  assert(from.rows == to.rows && from.cols == to.depth);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    to.scales[row] = QuantizeRow(
        from.cols, kMostOfOneDigit,
        [&](std::int64_t k) TF_RNN_OPS_LAMBDA_INLINE {
          return LoadUpTo(from.At(row, k), from.cols - k);
        },
        [&](std::int64_t k, Sums integers)
            TF_RNN_OPS_LAMBDA_INLINE { StoreLeft(integers, to.Row(row) + k); });
  }
}

// The same in two digits, with column k times factors[k].
inline void QuantizeRows(const MatrixView<const float>& from,
                         const float* factors, const TwoDigitLeft& to) {
  assert(from.rows == to.high.rows && from.cols == to.high.depth);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    std::int8_t* const high = to.high.Row(row);
    std::int8_t* const cross = to.cross.Row(row);
    to.high.scales[row] = QuantizeRow(
        from.cols, kMostOfTwoDigits,
        [&](std::int64_t k) TF_RNN_OPS_LAMBDA_INLINE {
          const std::int64_t count = from.cols - k;
          return LoadUpTo(from.At(row, k), count) *
                 LoadUpTo(factors + k, count);
        },
        [&](std::int64_t k, Sums integers) TF_RNN_OPS_LAMBDA_INLINE {
          // The last vector of a part exceeds it. Later stores to the next part
          // overwrite the excess.
          StoreLeft(HighDigit(integers), high + k);
          StoreLeft(LowDigit(integers), cross + k);
          StoreLeft(HighDigit(integers), cross + QuantizedDepth(from.cols) + k);
        });
  }
}

// Quantizes a column. Returns the scale, NaN if a weight is not finite.
// weight(k): element k of `depth`. store(k, integer): also for the padding.
template <typename Weight, typename StoreInteger>
float QuantizeColumn(std::int64_t depth, float most_integer,
                     const Weight& weight, const StoreInteger& store) {
  float most = 0;
  float not_finite = 0;  // NaN if a weight is not finite
  for (std::int64_t k = 0; k < depth; ++k) {
    most = std::fmax(most, std::fabs(weight(k)));
    not_finite += weight(k) - weight(k);
  }
  const Quantization quantization(most + not_finite, most_integer);
  for (std::int64_t k = 0; k < QuantizedDepth(depth); ++k) {
    const float x = k < depth ? weight(k) * quantization.reciprocal : 0;
    store(k, x == x ? static_cast<std::int32_t>(std::nearbyint(x)) : 0);
  }
  return quantization.scale;
}

// Quantizes a column of a right operand.
template <typename Weight>
void QuantizeColumn(const Weight& weight, const QuantizedRight& to,
                    std::int64_t col) {
  std::int32_t sum = 0;
  to.scales[col] = QuantizeColumn(to.depth, kMostOfOneDigit, weight,
                                  [&](std::int64_t k, std::int32_t integer) {
                                    *to.At(k, col) =
                                        static_cast<std::int8_t>(integer);
                                    sum += integer;
                                  });
  to.sums[col] = -kLeftOffset * sum;
}

// The same in two digits.
template <typename Weight>
void QuantizeColumn(const Weight& weight, const TwoDigitRight& to,
                    std::int64_t col) {
  std::int32_t high_sum = 0;
  std::int32_t low_sum = 0;
  const float scale = QuantizeColumn(
      to.high.depth, kMostOfTwoDigits,
      [&](std::int64_t k) {
        const float factor = to.factors[k];
        return factor == 0 ? weight(k) : weight(k) / factor;
      },
      [&](std::int64_t k, std::int32_t integer) {
        const std::int32_t high = HighDigit(integer);
        const std::int32_t low = LowDigit(integer);
        *to.high.At(k, col) = static_cast<std::int8_t>(high);
        *to.cross.At(QuantizedDepth(to.high.depth) + k, col) =
            static_cast<std::int8_t>(low);
        high_sum += high;
        low_sum += low;
      });
  to.high.scales[col] = 128 * 128 * scale;
  to.cross.scales[col] = 128 * scale;
  to.high.sums[col] = -kLeftOffset * high_sum;
  to.cross.sums[col] = -kLeftOffset * (high_sum + low_sum);
}

// out = initial + sums * right_scales * left_scale, for a vector. initial: or
// null for zero.
TF_RNN_OPS_VECTOR_INLINE void StoreScaled(Sums sums, const float* right_scales,
                                          float left_scale,
                                          const float* initial, float* out) {
  const Vector<float> scale = Load<float>(right_scales) * Broadcast(left_scale);
  Store<float>(MultiplyAdd<float>(
                   __builtin_convertvector(sums, Vector<float>), scale,
                   initial == nullptr ? Vector<float>{} : Load<float>(initial)),
               out);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_
