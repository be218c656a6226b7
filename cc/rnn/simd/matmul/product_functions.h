// Gives tests access to the products. product_functions.cc defines these
// functions once for each instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_FUNCTIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_FUNCTIONS_H_

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"

namespace tf_rnn_ops::rnn {

struct ProductSize {
  std::int64_t rows, depth, cols;
};

// All matrices are row-major. P: the type of the factors.
template <typename P>
struct ProductArguments {
  ProductSize size;
  const P* left;   // [rows, depth], or, transposed, [depth, rows]
  const P* right;  // [depth, cols], or, transposed, [cols, depth]
  const ComputeType<P>* initial;  // [rows, cols], or null for zero
  ComputeType<P>* out;            // [rows, cols]
  P* left_scratch;
  P* right_scratch;
};

template <typename P>
struct ProductFunctions {
  // The scratch sizes of multiply, multiply_sum and multiply_right_transposed.
  std::int64_t (*left_scratch)(const ProductSize& size);
  std::int64_t (*right_scratch)(const ProductSize& size);
  // out = initial + left * right
  void (*multiply)(const ProductArguments<P>& a);
  // The same, as a sum of two products that split the depth.
  void (*multiply_sum)(const ProductArguments<P>& a);
  void (*multiply_right_transposed)(const ProductArguments<P>& a);
  // Its left scratch is that of multiply with rows and depth exchanged plus,
  // for bfloat16, the left scratch of multiply.
  void (*multiply_left_transposed)(const ProductArguments<P>& a);
};

// out = initial + left * right, all row-major, with quantized factors of 1 or 2
// digits.
using QuantizedProductFunction = void (*)(const ProductSize& size,
                                          const float* left, const float* right,
                                          const float* initial, float* out);

// GetProductFunctions: of float and double up to AVX-512, of bfloat16 above
// AVX-512 VNNI. GetQuantizedProduct: for 1 or 2 digits.
#define TF_RNN_OPS_DECLARE(instruction_set)                 \
  namespace instruction_set {                               \
  template <typename P>                                     \
  ProductFunctions<P> GetProductFunctions();                \
  QuantizedProductFunction GetQuantizedProduct(int digits); \
  }

TF_RNN_OPS_FOR_EACH_SET(TF_RNN_OPS_DECLARE)

#undef TF_RNN_OPS_DECLARE

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_FUNCTIONS_H_
