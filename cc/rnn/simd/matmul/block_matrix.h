// Views of matrices whose columns are grouped in blocks of one cache line.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_MATRIX_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_MATRIX_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A matrix stored as [blocks, rows, kCols]: each block of kCols columns is
// contiguous, row by row. The operands of products have this layout, so both
// rows and columns are read from neighboring cache lines. Padding columns of
// the last block are zero. S: T or const T.
template <typename S, std::int64_t kBlockCols>
struct BlockMatrix {
  static constexpr std::int64_t kCols = kBlockCols;

  S* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;  // between blocks

  BlockMatrix() : BlockMatrix(nullptr, 0, 0) {}
  BlockMatrix(S* data, std::int64_t rows, std::int64_t cols)
      : BlockMatrix(data, rows, cols, rows * kCols) {}
  BlockMatrix(S* data, std::int64_t rows, std::int64_t cols,
              std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  operator BlockMatrix<const S, kCols>() const {
    return {data, rows, cols, stride};
  }

  // Number of elements that a matrix needs.
  static CheckedInt Size(CheckedInt rows, std::int64_t cols) {
    return rows * CeilDiv(cols, kCols) * kCols;
  }

  std::int64_t num_blocks() const { return CeilDiv(cols, kCols); }
  S* At(std::int64_t row, std::int64_t col) const {
    return data + col / kCols * stride + row * kCols + col % kCols;
  }
  ColumnView<S> Column(std::int64_t col) const { return {At(0, col), kCols}; }
  BlockMatrix Rows(std::int64_t row, std::int64_t num_rows) const {
    assert(row >= 0 && num_rows >= 0 && row + num_rows <= rows);
    return {At(row, 0), num_rows, cols, stride};
  }
  // `col` is the first column of a block, or the range lies within one block.
  BlockMatrix Cols(std::int64_t col, std::int64_t num_cols) const {
    assert(col >= 0 && num_cols >= 0);
    assert(col % kCols == 0 || col % kCols + num_cols <= kCols);
    assert(CeilDiv(col + num_cols, kCols) <= num_blocks());
    return {At(0, col), rows, num_cols, stride};
  }
};

// Number of elements of a matrix that is known to fit into memory.
template <typename Matrix>
std::int64_t SizeOf(std::int64_t rows, std::int64_t cols) {
  return Matrix::Size(rows, cols).value();
}

// A read-only view of the same matrix.
template <typename T, std::int64_t kCols>
BlockMatrix<const T, kCols> Constant(const BlockMatrix<T, kCols>& matrix) {
  return matrix;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_MATRIX_H_
