#include "cc/rnn/simd/matmul/product_functions.h"

#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

template <typename P>
std::int64_t LeftScratch(const ProductSize& size) {
  return SizeOf<MutableLeftMatrix<P>>(size.rows, size.depth);
}

template <typename P>
std::int64_t RightScratch(const ProductSize& size) {
  return SizeOf<MutableRightMatrix<P>>(size.depth, size.cols);
}

template <typename P>
MutableLeftMatrix<P> PackLeft(const ProductArguments<P>& a) {
  const MutableLeftMatrix<P> left(a.left_scratch, a.size.rows, a.size.depth);
  Pack(MatrixView<const P>(a.left, a.size.rows, a.size.depth), left);
  return left;
}

template <typename P>
MutableRightMatrix<P> PackRight(const ProductArguments<P>& a) {
  const MutableRightMatrix<P> right(a.right_scratch, a.size.depth, a.size.cols);
  Pack(MatrixView<const P>(a.right, a.size.depth, a.size.cols), right);
  return right;
}

template <typename P>
MutableRightMatrix<P> PackTransposedRight(const ProductArguments<P>& a) {
  const MutableRightMatrix<P> right(a.right_scratch, a.size.depth, a.size.cols);
  const PackTransposedWork work(
      MatrixView<const P>(a.right, a.size.cols, a.size.depth), right);
  for (std::int64_t i = 0; i < work.size(); ++i) work(i);
  return right;
}

template <typename P>
MatrixView<ComputeType<P>> Out(const ProductArguments<P>& a) {
  return {a.out, a.size.rows, a.size.cols};
}

template <typename P>
MatrixView<const ComputeType<P>> Initial(const ProductArguments<P>& a) {
  return {a.initial, a.size.rows, a.size.cols};
}

template <typename P>
void MultiplyPlain(const ProductArguments<P>& a) {
  Multiply(ProductSum<P>(PackLeft(a), PackRight(a)), Initial(a), Out(a));
}

template <typename P>
void MultiplySum(const ProductArguments<P>& a) {
  const LeftMatrix<P> left = PackLeft(a);
  const RightMatrix<P> right = PackRight(a);
  const std::int64_t first = a.size.depth / 2 / kLeftCols<P> * kLeftCols<P>;
  const std::int64_t second = a.size.depth - first;
  ProductSum<P> sum(left.Cols(0, first), right.Rows(0, first));
  sum.Add(left.Cols(first, second), right.Rows(first, second));
  Multiply(sum, Initial(a), Out(a), /*then=*/sum);
}

template <typename P>
void MultiplyRightTransposed(const ProductArguments<P>& a) {
  Multiply(ProductSum<P>(PackLeft(a), PackTransposedRight(a)), Initial(a),
           Out(a));
}

template <typename P>
void MultiplyLeftTransposed(const ProductArguments<P>& a) {
  using Left = MutableLeftMatrix<P>;
  const auto [rows, depth, cols] = a.size;
  const Left left(a.left_scratch, depth, rows);
  Pack(MatrixView<const P>(a.left, depth, rows), left);
#if defined(__AVX512BF16__)
  const Left transposed(a.left_scratch + SizeOf<Left>(depth, rows), rows,
                        depth);
  for (std::int64_t row = 0; row < rows; row += Left::kCols) {
    const std::int64_t count = Min(Left::kCols, rows - row);
    PackTransposed(Constant(left.Cols(row, count)),
                   transposed.Rows(row, count));
  }
  Multiply(ProductSum<P>(transposed, PackRight(a)), Initial(a), Out(a));
#else
  MultiplyTransposed<P>(left, PackRight(a), Initial(a), Out(a));
#endif
}

}  // namespace

template <typename P>
ProductFunctions<P> GetProductFunctions() {
  return {&LeftScratch<P>,
          &RightScratch<P>,
          &MultiplyPlain<P>,
          &MultiplySum<P>,
          &MultiplyRightTransposed<P>,
          &MultiplyLeftTransposed<P>};
}

#if defined(__AVX512BF16__)
template ProductFunctions<BFloat16> GetProductFunctions();
#else
template ProductFunctions<float> GetProductFunctions();
template ProductFunctions<double> GetProductFunctions();
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
