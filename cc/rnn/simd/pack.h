// Brings row-major matrices into the form that products take.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_PACK_H_
#define TF_RNN_OPS_CC_RNN_SIMD_PACK_H_

#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/rnn/simd/block_matrix.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Has the CPU fetch the row that is to be read a few rows after `row`: rows may
// lie pages apart, which it does not foresee.
template <typename T>
void PrefetchRowAfter(const MatrixView<const T>& matrix, std::int64_t row) {
  constexpr std::int64_t kRowsAhead = 4;
  if (row + kRowsAhead >= matrix.rows) return;
  const T* from = matrix.At(row + kRowsAhead, 0);
  for (std::int64_t i = 0; i < matrix.cols; i += 64 / sizeof(T)) {
    __builtin_prefetch(from + i);
  }
}

// to = from, of the same size.
template <typename T, std::int64_t kCols>
void Pack(const MatrixView<const T>& from, const BlockMatrix<T, kCols>& to) {
  const std::int64_t whole = from.cols / kCols * kCols;
  for (std::int64_t row = 0; row < from.rows; ++row) {
    PrefetchRowAfter(from, row);
    for (std::int64_t col = 0; col < whole; col += kCols) {
      std::memcpy(to.At(row, col), from.At(row, col), kCols * sizeof(T));
    }
    for (std::int64_t col = whole; col < to.num_blocks() * kCols; ++col) {
      *to.At(row, col) = col < from.cols ? *from.At(row, col) : T(0);
    }
  }
}

// to = from, the other way round.
template <typename T, std::int64_t kCols>
void Unpack(const BlockMatrix<const T, kCols>& from, const MatrixView<T>& to) {
  for (std::int64_t row = 0; row < to.rows; ++row) {
    for (std::int64_t col = 0; col < to.cols; col += kCols) {
      std::memcpy(to.At(row, col), from.At(row, col),
                  Min(kCols, to.cols - col) * sizeof(T));
    }
  }
}

// One exchange of Transpose: of blocks of `kWidth` lanes.
template <typename T, int kWidth, std::size_t... lane>
TF_RNN_OPS_VECTOR_INLINE void Exchange(Vector<T>& a, Vector<T>& b,
                                       std::index_sequence<lane...>) {
  constexpr int kLanes = sizeof...(lane);
  const Vector<T> first = __builtin_shufflevector(
      a, b, ((lane & kWidth) == 0 ? lane : kLanes + lane - kWidth)...);
  b = __builtin_shufflevector(
      a, b, ((lane & kWidth) == 0 ? lane + kWidth : kLanes + lane)...);
  a = first;
}

// Transposes as many vectors as each has lanes, by exchanging blocks of half as
// many lanes, then of a quarter, and so on.
template <typename T, int kWidth = kVectorElements<T> / 2>
TF_RNN_OPS_VECTOR_INLINE void Transpose(Vector<T>* rows) {
  if constexpr (kWidth > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectorElements<T>; ++i) {
      if ((i & kWidth) == 0) {
        Exchange<T, kWidth>(rows[i], rows[i + kWidth],
                            std::make_index_sequence<kVectorElements<T>>());
      }
    }
    Transpose<T, kWidth / 2>(rows);
  }
}

// to = from^T, for one block: from has at most kCols rows, and to as many rows
// as from has columns.
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

#endif  // TF_RNN_OPS_CC_RNN_SIMD_PACK_H_
