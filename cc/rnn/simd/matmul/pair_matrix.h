// Layout of bfloat16 matrices for products that add pairs of terms, accumulated
// in float.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PAIR_MATRIX_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PAIR_MATRIX_H_

#if defined(__AVX512BF16__)

#include <immintrin.h>

#include <cassert>
#include <cstdint>
#include <cstring>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A right operand, in blocks of 32 columns with pairs of rows interleaved:
// [blocks, pairs of rows, 32, 2]. The rows of a block are padded to a multiple
// of 32; padding is zero. S: BFloat16 or const BFloat16.
template <typename S>
struct PairMatrix {
  static constexpr std::int64_t kCols = 32;
  static constexpr std::int64_t kRowsMultiple = 32;

  S* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;  // between blocks

  PairMatrix() : PairMatrix(nullptr, 0, 0) {}
  PairMatrix(S* data, std::int64_t rows, std::int64_t cols)
      : PairMatrix(data, rows, cols,
                   CeilDiv(rows, kRowsMultiple) * kRowsMultiple * kCols) {}
  PairMatrix(S* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  operator PairMatrix<const S>() const { return {data, rows, cols, stride}; }

  static CheckedInt Size(CheckedInt rows, std::int64_t cols) {
    const std::int64_t rest = rows.value() % kRowsMultiple;
    return (rows + (rest == 0 ? 0 : kRowsMultiple - rest)) *
           CeilDiv(cols, kCols) * kCols;
  }

  std::int64_t num_blocks() const { return CeilDiv(cols, kCols); }
  S* At(std::int64_t row, std::int64_t col) const {
    return data + col / kCols * stride + row / 2 * 2 * kCols + col % kCols * 2 +
           row % 2;
  }
  // row: even.
  PairMatrix Rows(std::int64_t row, std::int64_t num_rows) const {
    assert(row >= 0 && row % 2 == 0);
    assert(num_rows >= 0 && row + num_rows <= rows);
    return {At(row, 0), num_rows, cols, stride};
  }
  // col: the first column of a block.
  PairMatrix Cols(std::int64_t col, std::int64_t num_cols) const {
    assert(col >= 0 && col % kCols == 0);
    assert(num_cols >= 0 && CeilDiv(col + num_cols, kCols) <= num_blocks());
    return {At(0, col), rows, num_cols, stride};
  }
};
template <>
struct RightMatrixOf<BFloat16> {
  using Type = PairMatrix<const BFloat16>;
  using Mutable = PairMatrix<BFloat16>;
};

// Loads 16 pairs of elements, each in place of a float.
inline Vector<float> LoadPairs(const BFloat16* from) {
  return (Vector<float>)_mm512_loadu_si512(from);
}

// A pair of neighbors in a row of the left operand and a pair of rows of the
// right operand. Both products are added, and the sum is rounded after each.
// Subnormal numbers count as zero.
template <>
struct Term<BFloat16> {
  static constexpr std::int64_t kElements = 2;

  static TF_RNN_OPS_VECTOR_INLINE Vector<float> LoadLeft(const BFloat16* left) {
    std::int32_t pair;
    std::memcpy(&pair, left, sizeof(pair));
    return (Vector<float>)_mm512_set1_epi32(pair);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<float> LoadRight(
      const BFloat16* right) {
    return LoadPairs(right);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<float> LoadPartialRight(
      const BFloat16* right, std::int64_t count) {
    const __mmask32 mask = (__mmask32{1} << count) - 1;
    return (Vector<float>)_mm512_maskz_loadu_epi16(mask, right);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<float> Add(Vector<float> sum,
                                                    Vector<float> left,
                                                    Vector<float> right) {
    return _mm512_dpbf16_ps(sum, (__m512bh)left, (__m512bh)right);
  }
};
static_assert(kTileCols<BFloat16> == PairMatrix<BFloat16>::kCols);

// Interleaves two vectors of 16-bit elements.
inline void Interleave(__m512i a, __m512i b, BFloat16* to) {
  alignas(64) static constexpr struct Indices {
    constexpr Indices() {
      for (int i = 0; i < 64; ++i) element[i] = i / 2 + i % 2 * 32;
    }
    std::uint16_t element[64] = {};
  } kIndices;
  const __m512i low = _mm512_load_si512(kIndices.element);
  const __m512i high = _mm512_load_si512(kIndices.element + 32);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
  _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi16(a, high, b));
}

// The elements of a row that are in the block starting at `col`, padded with
// zeros; only zeros after the last row.
template <typename Rows>
__m512i LoadRow(const Rows& from, std::int64_t row, std::int64_t col) {
  BFloat16 elements[PairMatrix<BFloat16>::kCols] = {};
  if (row < from.rows) {
    Convert(from.Row(row) + col, elements,
            Min(PairMatrix<BFloat16>::kCols, from.cols - col));
  }
  return _mm512_loadu_si512(elements);
}

// Packs `count` rows starting at the first row of a block: to = from, of the
// same size, rounded to nearest.
template <typename Rows>
void PackRows(const Rows& from, std::int64_t first, std::int64_t count,
              const PairMatrix<BFloat16>& to) {
  constexpr std::int64_t kMultiple = PairMatrix<BFloat16>::kRowsMultiple;
  const std::int64_t end = first + CeilDiv(count, kMultiple) * kMultiple;
  for (std::int64_t row = first; row < end; row += 2) {
    PrefetchRowAfter(from, row);
    PrefetchRowAfter(from, row + 1);
    for (std::int64_t col = 0; col < from.cols; col += to.kCols) {
      Interleave(LoadRow(from, row, col), LoadRow(from, row + 1, col),
                 to.At(row, col));
    }
  }
}

// to = from^T, for one block: `from` has at most 32 rows. Pairs of rows of `to`
// are pairs of neighbors in rows of `from`.
inline void PackTransposed(const MatrixView<const BFloat16>& from,
                           const PairMatrix<BFloat16>& to) {
  constexpr std::int64_t kMultiple = PairMatrix<BFloat16>::kRowsMultiple;
  constexpr std::int64_t kLanes = kVectorElements<float>;
  const std::int64_t rows = CeilDiv(from.cols, kMultiple) * kMultiple;
  std::int64_t k = 0;
  if (from.rows == to.kCols) {
    for (; k + 2 * kLanes <= from.cols; k += 2 * kLanes) {
      for (std::int64_t j = 0; j < to.kCols; j += kLanes) {
        Vector<float> pairs[kLanes];
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          pairs[i] = LoadPairs(from.At(j + i, k));
        }
        Transpose<float>(pairs);
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          _mm512_storeu_si512(to.At(k + 2 * i, j), (__m512i)pairs[i]);
        }
      }
    }
  }
  for (; k < rows; ++k) {
    for (std::int64_t j = 0; j < to.kCols; ++j) {
      *to.At(k, j) =
          j < from.rows && k < from.cols ? *from.At(j, k) : BFloat16{0};
    }
  }
}

// to = from^T, for one block of `from`, which has at most kLeftCols columns.
inline void PackTransposed(const LeftMatrix<BFloat16>& from,
                           const MutableLeftMatrix<BFloat16>& to) {
  constexpr std::int64_t kLanes = kVectorElements<float>;
  alignas(64) static constexpr struct Indices {
    constexpr Indices() {
      for (int i = 0; i < 64; ++i) element[i] = i % 32 * 2 + i / 32;
    }
    std::uint16_t element[64] = {};
  } kIndices;
  const __m512i even = _mm512_load_si512(kIndices.element);
  const __m512i odd = _mm512_load_si512(kIndices.element + 32);
  for (std::int64_t row = 0; row < from.rows; row += 2 * kLanes) {
    // [16 pairs of columns, 32 rows]
    Vector<float> pairs[2][kLanes];
    for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i) {
        const std::int64_t from_row = row + half * kLanes + i;
        pairs[half][i] = from_row < from.rows ? LoadPairs(from.At(from_row, 0))
                                              : Vector<float>{};
      }
      Transpose<float>(pairs[half]);
    }
    for (std::int64_t j = 0; j < from.cols; ++j) {
      const __m512i a = (__m512i)pairs[0][j / 2];
      const __m512i b = (__m512i)pairs[1][j / 2];
      _mm512_storeu_si512(to.At(j, row), _mm512_permutex2var_epi16(
                                             a, j % 2 == 0 ? even : odd, b));
    }
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // __AVX512BF16__

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PAIR_MATRIX_H_
