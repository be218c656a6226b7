// Views of matrices: row-major, and in blocks of columns.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Column j of a matrix: element i is data[i * stride]. S: T or const T.
template <typename S>
struct ColumnView {
  S* data;
  std::int64_t stride;

  S* At(std::int64_t row) const { return data + row * stride; }
};

// A dense row-major matrix, or a block of one. S: T or const T.
template <typename S>
struct MatrixView {
  // [rows, cols], with consecutive rows `stride` apart. With a stride of 0, one
  // row represents all rows.
  S* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;

  MatrixView(S* data, std::int64_t rows, std::int64_t cols)
      : MatrixView(data, rows, cols, cols) {}
  MatrixView(S* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}

  S* At(std::int64_t row, std::int64_t col) const {
    return data + row * stride + col;
  }
  S* Row(std::int64_t row) const { return At(row, 0); }
  ColumnView<S> Column(std::int64_t col) const { return {At(0, col), stride}; }
  MatrixView Block(std::int64_t row, std::int64_t col, std::int64_t num_rows,
                   std::int64_t num_cols) const {
    assert(row >= 0 && num_rows >= 0);
    assert(row + num_rows <= rows || stride == 0);
    assert(col >= 0 && num_cols >= 0 && col + num_cols <= cols);
    return MatrixView(At(row, col), num_rows, num_cols, stride);
  }
  MatrixView Rows(std::int64_t row, std::int64_t num_rows) const {
    return Block(row, 0, num_rows, cols);
  }
  MatrixView Cols(std::int64_t col, std::int64_t num_cols) const {
    return Block(0, col, rows, num_cols);
  }
};

// A read-only view of the same matrix.
template <typename T>
MatrixView<const T> Constant(const MatrixView<T>& view) {
  return MatrixView<const T>(view.data, view.rows, view.cols, view.stride);
}

// A null matrix, for an optional argument.
template <typename T>
MatrixView<const T> NoMatrix() {
  return MatrixView<const T>(nullptr, 0, 0);
}

// A block of an optional matrix.
template <typename T>
MatrixView<const T> BlockIfAny(const MatrixView<const T>& matrix,
                               std::int64_t row, std::int64_t col,
                               std::int64_t num_rows, std::int64_t num_cols) {
  return matrix.data == nullptr ? matrix
                                : matrix.Block(row, col, num_rows, num_cols);
}

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

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_
