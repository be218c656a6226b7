// Views of row-major matrices.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_

#include <cassert>
#include <cstdint>

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

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_MATRIX_VIEW_H_
