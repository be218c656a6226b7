// Matrices of 8-bit integers.
//
// A real matrix is the integers times a scale: one scale for each row of a left
// operand, one for each column of a right operand.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_

#include <cassert>
#include <cmath>
#include <cstdint>

#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

using Sums = Vector<std::int32_t>;

// Number of neighbors whose products are added at once.
constexpr std::int64_t kQuantizedTerms = 4;
// The largest magnitude of a quantized element. -128 is not used.
constexpr float kQuantizedMost = 127;

// What is added to the elements of left operands when they are stored, because
// the instruction reads them as unsigned.
#if defined(__AVX512VNNI__)
constexpr int kLeftOffset = 128;
#else
constexpr int kLeftOffset = 0;
#endif

// Rows of quantized numbers, [rows, depth], each padded to whole vectors of
// floats.
struct QuantizedLeft {
  std::int8_t* data;
  float* scales;  // [rows]
  std::int64_t rows;
  std::int64_t depth;

  std::int64_t stride() const { return Stride(depth); }
  std::int8_t* Row(std::int64_t row) const { return data + row * stride(); }
  QuantizedLeft Rows(std::int64_t row, std::int64_t num_rows) const {
    return {Row(row), scales + row, num_rows, depth};
  }
  static std::int64_t Stride(std::int64_t depth) {
    return CeilDiv(depth, kVectorElements<float>) * kVectorElements<float>;
  }
};

// Columns of quantized numbers, [depth, cols], in blocks of kTileCols columns:
// [blocks, depth / kQuantizedTerms, kTileCols, kQuantizedTerms].
struct QuantizedRight {
  static constexpr std::int64_t kCols = kTileCols<float>;

  std::int8_t* data;
  float* scales;       // [blocks * kCols]
  std::int32_t* sums;  // -kLeftOffset times the sum of each column
  std::int64_t depth;
  std::int64_t cols;  // a multiple of kCols

  // The elements of a block.
  static std::int64_t BlockSize(std::int64_t depth) {
    return CeilDiv(depth, kQuantizedTerms) * kQuantizedTerms * kCols;
  }
  QuantizedRight Cols(std::int64_t col, std::int64_t num_cols) const {
    return {data + col / kCols * BlockSize(depth), scales + col, sums + col,
            depth, num_cols};
  }
};

// How to quantize numbers with this largest magnitude. If it is not finite, the
// scale is NaN, and so are all results.
struct Quantization {
  explicit Quantization(float most)
      : scale(most / kQuantizedMost + (most - most)),
        reciprocal(most < kLeast ? 0 : kQuantizedMost / most) {}

  // Smaller numbers become 0, so that the reciprocal is finite.
  static constexpr float kLeast = 1e-30f;

  float scale;
  float reciprocal;
};

// The nearest integers, ties to even, of numbers up to kQuantizedMost.
TF_RNN_OPS_VECTOR_INLINE Sums RoundToIntegers(Vector<float> x) {
  // The last bit of such a sum has the value 1.
  constexpr float kShift = 3 << 22;
  const Sums bits = (Sums)(x + kShift);
  return bits << 23 >> 23;
}

// Quantizes each row of a left operand.
inline void QuantizeRows(const LeftMatrix<float>& from,
                         const QuantizedLeft& to) {
  constexpr std::int64_t kLanes = kVectorElements<float>;
  typedef std::int8_t Bytes __attribute__((vector_size(kLanes), aligned(1)));
  assert(from.rows == to.rows && from.cols == to.depth);
  for (std::int64_t row = 0; row < from.rows; ++row) {
    const auto load = [&](std::int64_t k) TF_RNN_OPS_LAMBDA_INLINE {
      const std::int64_t count = from.cols - k;
      return count >= kLanes ? Load<float>(from.At(row, k))
                             : LoadPartial<float>(from.At(row, k), count);
    };
    Vector<float> most{};
    Vector<float> not_finite{};  // NaN if an element is not finite
    for (std::int64_t k = 0; k < from.cols; k += kLanes) {
      const Vector<float> x = Abs<float>(load(k));
      most = Select<float>(most < x, x, most);
      not_finite += x - x;
    }
    float largest = 0;
    float sum = 0;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      largest = largest < most[lane] ? most[lane] : largest;
      sum += not_finite[lane];
    }
    const Quantization quantization(largest + sum);
    to.scales[row] = quantization.scale;
    for (std::int64_t k = 0; k < from.cols; k += kLanes) {
      const Sums integers =
          RoundToIntegers(load(k) * Broadcast(quantization.reciprocal)) +
          kLeftOffset;
      *reinterpret_cast<Bytes*>(to.Row(row) + k) =
          __builtin_convertvector(integers, Bytes);
    }
  }
}

// Quantizes a column.
// weight(k): element k of `depth`.
template <typename Weight>
void QuantizeColumn(const Weight& weight, const QuantizedRight& to,
                    std::int64_t col) {
  float most = 0;
  float not_finite = 0;  // NaN if a weight is not finite
  for (std::int64_t k = 0; k < to.depth; ++k) {
    most = std::fmax(most, std::fabs(weight(k)));
    not_finite += weight(k) - weight(k);
  }
  const Quantization quantization(most + not_finite);
  std::int8_t* const block = to.data + col / QuantizedRight::kCols *
                                           QuantizedRight::BlockSize(to.depth);
  std::int32_t sum = 0;
  for (std::int64_t k = 0;
       k < CeilDiv(to.depth, kQuantizedTerms) * kQuantizedTerms; ++k) {
    const float x = k < to.depth ? weight(k) * quantization.reciprocal : 0;
    const auto integer =
        x == x ? static_cast<std::int8_t>(std::nearbyint(x)) : std::int8_t{0};
    block[(k / kQuantizedTerms * QuantizedRight::kCols +
           col % QuantizedRight::kCols) *
              kQuantizedTerms +
          k % kQuantizedTerms] = integer;
    sum += integer;
  }
  to.scales[col] = quantization.scale;
  to.sums[col] = -kLeftOffset * sum;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_MATRIX_H_
