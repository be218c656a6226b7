// Packs row-major matrices into the layout of product operands.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PACK_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PACK_H_

#include <cstdint>
#include <cstring>

#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/transpose.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The source of packing is any type with rows, cols and Row(i), which returns
// the elements of a row: a MatrixView, or rows from several places.

// Prefetches the row a few rows after `row`. Rows may be pages apart, which
// defeats the hardware prefetcher.
template <typename Rows>
TF_RNN_OPS_VECTOR_INLINE void PrefetchRowAfter(const Rows& from,
                                               std::int64_t row) {
  constexpr std::int64_t kRowsAhead = 4;
  if (row + kRowsAhead >= from.rows) return;
  const auto* elements = from.Row(row + kRowsAhead);
  for (std::int64_t i = 0; i < from.cols; i += 64 / sizeof(*elements)) {
    __builtin_prefetch(elements + i);
  }
}

// Packs `count` rows starting at `first`: to = from, of the same size, rounded
// to nearest if T has fewer bits.
template <typename Rows, typename T, std::int64_t kCols>
void PackRows(const Rows& from, std::int64_t first, std::int64_t count,
              const BlockMatrix<T, kCols>& to) {
  const std::int64_t whole = from.cols / kCols * kCols;
  for (std::int64_t row = first; row < first + count; ++row) {
    PrefetchRowAfter(from, row);
    const auto* elements = from.Row(row);
    for (std::int64_t col = 0; col < whole; col += kCols) {
      Convert(elements + col, to.At(row, col), kCols);
    }
    if (whole == from.cols) continue;
    T* const last = to.At(row, whole);
    Convert(elements + whole, last, from.cols - whole);
    std::memset(static_cast<void*>(last + from.cols - whole), 0,
                (whole + kCols - from.cols) * sizeof(T));
  }
}

// The same for all rows.
template <typename Rows, typename Matrix>
void Pack(const Rows& from, const Matrix& to) {
  PackRows(from, 0, from.rows, to);
}

// Copies a packed matrix to a row-major matrix: the inverse of Pack.
template <typename T, std::int64_t kCols>
void Unpack(const BlockMatrix<const T, kCols>& from, const MatrixView<T>& to) {
  for (std::int64_t row = 0; row < to.rows; ++row) {
    for (std::int64_t col = 0; col < to.cols; col += kCols) {
      std::memcpy(to.At(row, col), from.At(row, col),
                  Min(kCols, to.cols - col) * sizeof(T));
    }
  }
}

// to = from^T, for one block: `from` has at most kCols rows.
template <typename T, std::int64_t kCols>
void PackTransposed(const MatrixView<const T>& from,
                    const BlockMatrix<T, kCols>& to) {
  constexpr std::int64_t kLanes = kVectorElements<T>;
  std::int64_t k = 0;
  if (from.rows == kCols) {
    for (; k + kLanes <= from.cols; k += kLanes) {
      for (std::int64_t j = 0; j < kCols; j += kLanes) {
        Vector<T> rows[kLanes];
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          rows[i] = Load<T>(from.At(j + i, k));
        }
        Transpose<T>(rows);
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          Store<T>(rows[i], to.At(k + i, j));
        }
      }
    }
  }
  for (; k < from.cols; ++k) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      *to.At(k, j) = j < from.rows ? *from.At(j, k) : T(0);
    }
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PACK_H_
