// The micro-kernels: products of one tile, whose sums stay in registers.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_PRODUCT_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/vector/vector.h"

#define TF_RNN_OPS_LAMBDA_INLINE __attribute__((always_inline))

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of vectors in a row of a tile, and the maximum number of rows. The
// sums fill most of the vector registers.
#if defined(__AVX512F__)
constexpr std::int64_t kTileVectors = 2;
constexpr std::int64_t kMaxTileRows = 12;
constexpr std::int64_t kMaxTransposedTileRows = 8;
#elif defined(__AVX__)
constexpr std::int64_t kTileVectors = 2;
constexpr std::int64_t kMaxTileRows = 6;
constexpr std::int64_t kMaxTransposedTileRows = 4;
#elif defined(__aarch64__)
constexpr std::int64_t kTileVectors = 4;
constexpr std::int64_t kMaxTileRows = 6;
constexpr std::int64_t kMaxTransposedTileRows = 4;
#else
constexpr std::int64_t kTileVectors = 4;
constexpr std::int64_t kMaxTileRows = 2;
constexpr std::int64_t kMaxTransposedTileRows = 2;
#endif
template <typename T>
constexpr std::int64_t kTileCols =
    kTileVectors * kVectorElements<ComputeType<T>>;

// Whether operands have fewer bits than the values they are rounded from.
template <typename T>
constexpr bool kRoundsOperands = !std::is_same_v<T, ComputeType<T>>;

// The operands of products. A row of a block of the left one is a cache line.
template <typename T>
constexpr std::int64_t kLeftCols = 64 / sizeof(T);
template <typename T>
using LeftMatrix = BlockMatrix<const T, kLeftCols<T>>;
template <typename T>
using MutableLeftMatrix = BlockMatrix<T, kLeftCols<T>>;

// See pair_matrix.h for bfloat16.
template <typename T>
struct RightMatrixOf {
  static_assert(!kRoundsOperands<T>, "product.h has the products of this type");
  using Type = BlockMatrix<const T, kTileCols<T>>;
  using Mutable = BlockMatrix<T, kTileCols<T>>;
};
template <typename T>
using RightMatrix = typename RightMatrixOf<T>::Type;
template <typename T>
using MutableRightMatrix = typename RightMatrixOf<T>::Mutable;

// One term of a sum, in each lane: the product of an element in a row of the
// left operand and one in a column of the right operand, or of several
// neighbors.
template <typename T>
struct Term {
  static constexpr std::int64_t kElements = 1;  // per operand

  static TF_RNN_OPS_VECTOR_INLINE Vector<T> LoadLeft(const T* left) {
    return Broadcast<T>(*left);
  }
  // Loads kLanes terms: neighbors in a block of the right operand, or in rows
  // of both operands.
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> LoadRight(const T* right) {
    return Load<T>(right);
  }
  // Loads the first `count` elements, and zeros.
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> LoadPartialRight(
      const T* right, std::int64_t count) {
    return LoadPartial<T>(right, count);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Add(Vector<T> sum, Vector<T> left,
                                                Vector<T> right) {
    return MultiplyAdd<T>(left, right, sum);
  }
};

// The arguments of a tile product.
template <typename T>
struct TileArguments {
  const T* left;             // in blocks of kLeftCols
  std::int64_t left_stride;  // between blocks
  const T* right;            // in blocks of kTileCols
  std::int64_t right_stride;
  std::int64_t right_term_stride;  // between terms
  std::int64_t depth;              // number of terms
  ComputeType<T>* out;
  std::int64_t out_stride;  // between rows
  // The value to which the product is added, or null for zero.
  const ComputeType<T>* initial;
  std::int64_t initial_stride;
  // The data to prefetch for the next tile: one cache line per term,
  // next_stride elements apart, plus next_block_stride after each block of the
  // left operand.
  const T* next;
  std::int64_t next_stride;
  std::int64_t next_block_stride;
};

// A tile of out = initial + left * right:
//
//                      right   [terms, kVectors vectors]
//                      k -> +-----+-----+
//                           | v 0 | v 1 |    loaded once for all rows
//                           +-----+-----+
//   left [kRows, terms]
//        k                  out [kRows, kVectors vectors]
//      +---+                +-----+-----+
//    0 | x |  broadcast     | sum | sum |    one register each
//    1 | x |       to all   | sum | sum |
//      | : |      lanes     |  :  |  :  |
//      +---+                +-----+-----+
//
// With kTransposed, left is [terms, kRows], in one block. Each sum adds its
// terms in ascending order of k, starting from zero.
template <typename T, int kRows, int kVectors, bool kTransposed>
__attribute__((noinline)) void MultiplyTile(const TileArguments<T>& a) {
  static_assert(!kTransposed || Term<T>::kElements == 1);
  using Sum = ComputeType<T>;
  constexpr std::int64_t kLanes = kVectorElements<Sum>;
  constexpr std::int64_t kTermElements = Term<T>::kElements;
  Vector<Sum> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector<Sum>{};
  }
  // Prefetch the output, which may be far away. It is usually also the initial
  // value.
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    for (std::int64_t col = 0; col < kVectors * kLanes; col += kLeftCols<Sum>) {
      __builtin_prefetch(a.out + i * a.out_stride + col, 1);
    }
  }
  const T* left = a.left;
  const T* right = a.right;
  const T* next = a.next;
  const auto add_term = [&](const T* column) TF_RNN_OPS_LAMBDA_INLINE {
    __builtin_prefetch(next, 0, 2);  // into the second-level cache
    next += a.next_stride;
    Vector<Sum> row[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      row[v] = Term<T>::LoadRight(right + v / kTileVectors * a.right_stride +
                                  v % kTileVectors * kLanes * kTermElements);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector<Sum> element =
          Term<T>::LoadLeft(column + (kTransposed ? i : i * kLeftCols<T>));
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = Term<T>::Add(sums[i][v], element, row[v]);
      }
    }
    right += a.right_term_stride;
  };
  constexpr std::int64_t kLineTerms = kLeftCols<T> / kTermElements;
  constexpr std::int64_t kTermStride =
      kTransposed ? kLeftCols<T> : kTermElements;
  std::int64_t k = 0;
  for (; k + kLineTerms <= a.depth; k += kLineTerms) {
#pragma GCC unroll 4
    for (std::int64_t j = 0; j < kLineTerms; ++j) {
      add_term(left + j * kTermStride);
    }
    left += kTransposed ? kLineTerms * kTermStride : a.left_stride;
    next += a.next_block_stride;
  }
  for (; k < a.depth; ++k) {
    add_term(left);
    left += kTermStride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t col = v * kLanes;
      if (a.initial != nullptr) {
        sums[i][v] += Load<Sum>(a.initial + i * a.initial_stride + col);
      }
      Store<Sum>(sums[i][v], a.out + i * a.out_stride + col);
    }
  }
}

// The maximum width of a tile with `rows` rows, in units of kTileVectors. A few
// rows alone do not keep the multipliers busy.
constexpr int kWidest = 4;
constexpr int MostWidth(std::int64_t rows) {
  return rows == 1 ? kWidest : rows <= 3 && kMaxTileRows >= 6 ? 2 : 1;
}

template <typename T>
using MultiplyTileFunction = void (*)(const TileArguments<T>&);

// The functions for kRows rows and each supported width.
template <typename T, int kRows, bool kTransposed, std::size_t... i>
constexpr std::array<MultiplyTileFunction<T>, kWidest> MultiplyTileWidths(
    std::index_sequence<i...>) {
  return {
      &MultiplyTile<T, kRows, int{i + 1} * int{kTileVectors}, kTransposed>...};
}
template <typename T, std::size_t... i>
constexpr std::array<std::array<MultiplyTileFunction<T>, kWidest>, sizeof...(i)>
MultiplyTileTable(std::index_sequence<i...>) {
  return {MultiplyTileWidths<T, int{i + 1}, false>(
      std::make_index_sequence<MostWidth(i + 1)>())...};
}
template <typename T, std::size_t... i>
constexpr std::array<MultiplyTileFunction<T>, sizeof...(i)>
MultiplyTransposedTileTable(std::index_sequence<i...>) {
  return {&MultiplyTile<T, int{i + 1}, kTileVectors, true>...};
}

// The function for `rows` rows and a width of `width` * kTileVectors.
template <typename T>
MultiplyTileFunction<T> GetMultiplyTile(std::int64_t rows, std::int64_t width) {
  static constexpr auto kTable =
      MultiplyTileTable<T>(std::make_index_sequence<kMaxTileRows>());
  assert(rows >= 1 && rows <= kMaxTileRows);
  assert(width >= 1 && width <= MostWidth(rows));
  return kTable[rows - 1][width - 1];
}

template <typename T>
MultiplyTileFunction<T> GetMultiplyTransposedTile(std::int64_t rows) {
  static constexpr auto kTable = MultiplyTransposedTileTable<T>(
      std::make_index_sequence<kMaxTransposedTileRows>());
  assert(rows >= 1 && rows <= kMaxTransposedTileRows);
  return kTable[rows - 1];
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_TILE_PRODUCT_H_
