// Products of matrices, on one thread. Read this header first.
//
// A product has one of four forms, depending on its right operand, which are
// usually weights:
//
//   right operand                       form
//   packed, of float, double, bfloat16  Multiply, below
//   packed, of integers                 MultiplyQuantized (quantized_product.h)
//   in place, [cols, depth], few rows   DotProduct (dot_product.h)
//   in place, [depth, cols], used once  WeightProduct (weight_product.h)
//
// Gradients of weights are MultiplyTransposed (block_product.h).
//
// The operands, and what packs them:
//
//   MatrixView (matrix_view.h)   row-major, as callers have them
//   LeftMatrix (tile_product.h)  blocks of columns as wide as a cache line;
//                                pack.h
//   RightMatrix                  blocks as wide as a tile, pack.h; of bfloat16,
//                                pairs of rows, pair_matrix.h
//   QuantizedLeft, QuantizedRight, TwoDigitLeft, TwoDigitRight
//                                integers and scales, quantized_matrix.h
//
// Products are computed tile by tile: with vectors (tile_product.h), or on the
// tile unit (amx_product.h). parallel_product.h splits them among threads.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_H_

#include <cstdint>
#include <type_traits>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/amx_product.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pair_matrix.h"
#include "cc/rnn/simd/matmul/tile_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether the tile unit multiplies operands of a type, and the maximum rows of
// a tile. The rows of a product's blocks are a multiple of them.
#if defined(__AMX_TILE__)
template <typename T>
constexpr bool kUsesAmx = std::is_same_v<T, BFloat16>;
template <typename T>
constexpr std::int64_t kWholeTileRows =
    kUsesAmx<T> ? TileShapes::kMostRows : kMaxTileRows;
#else
template <typename T>
constexpr bool kUsesAmx = false;
template <typename T>
constexpr std::int64_t kWholeTileRows = kMaxTileRows;
#endif

// out = initial + sum. initial: like `out`, or with a stride of 0 for one row
// that represents all rows, or null for zero. then: the product computed next,
// if known; the first block of its right operands is prefetched.
template <typename T>
void Multiply(const ProductSum<T>& sum,
              const MatrixView<const ComputeType<T>>& initial,
              const MatrixView<ComputeType<T>>& out,
              const ProductSum<T>& then = ProductSum<T>()) {
  if constexpr (kUsesAmx<T>) {
#if defined(__AMX_TILE__)
    AmxMultiply(sum, initial, out, then);
#endif
  } else {
    VectorMultiply(sum, initial, out, then);
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_H_
