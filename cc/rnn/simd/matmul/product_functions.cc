#include "cc/rnn/simd/matmul/product_functions.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/product.h"
#include "cc/rnn/simd/matmul/quantized_product.h"
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

template <typename T>
std::unique_ptr<T[]> Array(std::int64_t size) {
  return std::make_unique<T[]>(size + 1);
}

void Quantize(const MatrixView<const float>& from, const float*,
              const QuantizedLeft& to) {
  const auto packed =
      Array<float>(SizeOf<MutableLeftMatrix<float>>(from.rows, from.cols));
  const MutableLeftMatrix<float> blocks(packed.get(), from.rows, from.cols);
  Pack(from, blocks);
  QuantizeRows(blocks, to);
}
void Quantize(const MatrixView<const float>& from, const float* factors,
              const TwoDigitLeft& to) {
  QuantizeRows(from, factors, to);
}
void SetFactors(float*, QuantizedRight*) {}
void SetFactors(float* factors, TwoDigitRight* right) {
  right->factors = factors;
}

template <typename Left, typename Right>
void MultiplyQuantizedMatrices(const ProductSize& size, const float* left,
                               const float* right, const float* initial,
                               float* out) {
  constexpr std::int64_t kCols = QuantizedRight::kCols;
  const std::int64_t cols = CeilDiv(size.cols, kCols) * kCols;
  const auto right_data = Array<std::int8_t>(cols * Right::ColSize(size.depth));
  const auto right_scales = Array<float>(cols * Right::kProducts);
  const auto right_sums = Array<std::int32_t>(cols * Right::kProducts);
  const auto factors = Array<float>(size.depth);
  std::fill_n(factors.get(), size.depth, 1.0f);
  Right quantized_right{right_data.get(), right_scales.get(), right_sums.get(),
                        size.depth, cols};
  SetFactors(factors.get(), &quantized_right);
  for (std::int64_t col = 0; col < cols; ++col) {
    QuantizeColumn(
        [&](std::int64_t k) {
          return col < size.cols ? right[k * size.cols + col] : 0.0f;
        },
        quantized_right, col);
  }

  const auto left_data =
      Array<std::int8_t>(size.rows * Left::Stride(size.depth));
  const auto left_scales = Array<float>(size.rows);
  const Left quantized_left{left_data.get(), left_scales.get(), size.rows,
                            size.depth};
  Quantize({left, size.rows, size.depth}, factors.get(), quantized_left);

  const auto sum = Array<float>(size.rows * cols);
  for (std::int64_t i = 0; i < size.rows * size.cols; ++i) {
    sum[i / size.cols * cols + i % size.cols] = initial[i];
  }
  const MatrixView<float> product(sum.get(), size.rows, cols);
  MultiplyQuantized(quantized_left, quantized_right, Constant(product),
                    product);
  for (std::int64_t i = 0; i < size.rows * size.cols; ++i) {
    out[i] = sum[i / size.cols * cols + i % size.cols];
  }
}

}  // namespace

QuantizedProductFunction GetQuantizedProduct(int digits) {
  return digits == 1 ? &MultiplyQuantizedMatrices<QuantizedLeft, QuantizedRight>
                     : &MultiplyQuantizedMatrices<TwoDigitLeft, TwoDigitRight>;
}

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
#elif !defined(__AVX512VNNI__)
template ProductFunctions<float> GetProductFunctions();
template ProductFunctions<double> GetProductFunctions();
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
