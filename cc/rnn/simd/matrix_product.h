// Products of the tiles of row-major matrices.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATRIX_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATRIX_PRODUCT_H_

#include "cc/rnn/simd/eigen.h"
#include "cc/rnn/simd/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

template <typename T>
using RowMajorMatrix =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// Eigen's view of a matrix, for products.
template <typename T>
auto AsMatrix(const MatrixView<const T>& view) {
  return Eigen::Map<const RowMajorMatrix<T>, 0, Eigen::OuterStride<>>(
      view.data, view.rows, view.cols, Eigen::OuterStride<>(view.stride));
}
template <typename T>
auto AsMatrix(const MatrixView<T>& view) {
  return Eigen::Map<RowMajorMatrix<T>, 0, Eigen::OuterStride<>>(
      view.data, view.rows, view.cols, Eigen::OuterStride<>(view.stride));
}

// out = a * b
template <typename T>
void Multiply(const MatrixView<const T>& a, const MatrixView<const T>& b,
              const MatrixView<T>& out) {
  AsMatrix(out).noalias() = AsMatrix(a) * AsMatrix(b);
}

// out += a * b
template <typename T>
void MultiplyAdd(const MatrixView<const T>& a, const MatrixView<const T>& b,
                 const MatrixView<T>& out) {
  AsMatrix(out).noalias() += AsMatrix(a) * AsMatrix(b);
}

// out = a * b^T
template <typename T>
void MultiplyTransposed(const MatrixView<const T>& a,
                        const MatrixView<const T>& b,
                        const MatrixView<T>& out) {
  AsMatrix(out).noalias() = AsMatrix(a) * AsMatrix(b).transpose();
}

// out += a * b^T
template <typename T>
void MultiplyTransposedAdd(const MatrixView<const T>& a,
                           const MatrixView<const T>& b,
                           const MatrixView<T>& out) {
  AsMatrix(out).noalias() += AsMatrix(a) * AsMatrix(b).transpose();
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATRIX_PRODUCT_H_
