// Products of packed operands, on one thread, using the best method of the
// instruction set for their type. Include this header for products.

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

enum class Multiplier {
  kVectors,  // tiles of vectors: block_product.h
  kAmx,      // the tile unit: amx_product.h
};

// The multiplication method for operands of a type.
#if defined(__AMX_BF16__)
template <typename T>
constexpr Multiplier kMultiplier =
    std::is_same_v<T, BFloat16> ? Multiplier::kAmx : Multiplier::kVectors;
#else
template <typename T>
constexpr Multiplier kMultiplier = Multiplier::kVectors;
#endif

// out = initial + sum. initial: like `out`, or with a stride of 0 for one row
// that represents all rows, or null for zero. then: the product computed next,
// if known; the first block of its right operands is prefetched.
template <typename T>
void Multiply(const ProductSum<T>& sum,
              const MatrixView<const ComputeType<T>>& initial,
              const MatrixView<ComputeType<T>>& out,
              const ProductSum<T>& then = ProductSum<T>()) {
  if constexpr (kMultiplier<T> == Multiplier::kVectors) {
    VectorMultiply(sum, initial, out, then);
  } else {
#if defined(__AMX_BF16__)
    AmxMultiply(sum, initial, out, then);
#endif
  }
}

// The maximum rows of a tile in a product of T. The rows of a product's blocks
// are a multiple of it.
#if defined(__AMX_BF16__)
template <typename T>
constexpr std::int64_t kWholeTileRows =
    kMultiplier<T> == Multiplier::kAmx ? TileShapes::kMostRows : kMaxTileRows;
#else
template <typename T>
constexpr std::int64_t kWholeTileRows = kMaxTileRows;
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PRODUCT_H_
