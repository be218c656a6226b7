// Products of few rows with the transposes of row-major matrices, on one
// thread, without packing the matrices.
//
// An element is the sum over the lanes of a vector, where the terms of each
// lane are added in ascending order. Its bits therefore depend neither on its
// position in the matrix nor on how the work is split.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_DOT_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_DOT_PRODUCT_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/transpose.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of sums of a tile, each in one register, and its maximum rows.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kDotSums = 16;
#else
constexpr int kDotSums = 8;
#endif
constexpr int kMaxDotRows = 4;

// Adds the lanes of each of kVectorElements<T> vectors: lane i of the result is
// the sum of vectors[i].
template <typename T, int kWidth = kVectorElements<T> / 2>
TF_RNN_OPS_VECTOR_INLINE Vector<T> SumsOfLanes(Vector<T>* vectors) {
  if constexpr (kWidth == 0) {
    return vectors[0];
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) {
      Exchange<T, kWidth>(vectors[i], vectors[i + kWidth],
                          std::make_index_sequence<kVectorElements<T>>());
      vectors[i] += vectors[i + kWidth];
    }
    return SumsOfLanes<T, kWidth / 2>(vectors);
  }
}

// A sum of products of matrices [rows, depth] with the transposes of matrices
// [cols, depth]. P: the type of the factors.
template <typename P>
class DotProduct {
 public:
  using T = ComputeType<P>;

  void Add(const MatrixView<const P>& left, const MatrixView<const P>& right) {
    assert(size_ < kMost && left.cols == right.cols);
    factors_[size_++] = {left.data, left.stride, kLine, right};
  }
  void Add(const LeftMatrix<P>& left, const MatrixView<const P>& right) {
    assert(size_ < kMost && left.cols == right.cols);
    factors_[size_++] = {left.data, kLine, left.stride, right};
  }

  // out = a block of the sum of products.
  void Multiply(std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols, const MatrixView<T>& out) const {
    const RowTiles<kMaxDotRows> tiles(rows);
    const std::int64_t most_rows = rows <= 2 ? Max(rows, 1) : kMaxDotRows;
    const std::int64_t most_cols = kDotSums / most_rows;
    for (std::int64_t j = 0; j < cols; j += most_cols) {
      for (std::int64_t i = 0; i < tiles.size(); ++i) {
        const std::int64_t first = tiles.begin(i);
        const Tile tile{row + first, tiles.rows(i), col + j,
                        Min(most_cols, cols - j)};
        GetMultiplyTile(most_rows)(*this, tile,
                                   out.Block(first, j, tile.rows, tile.cols));
      }
    }
  }

 private:
  static constexpr int kMost = 3;
  // Number of elements of a cache line, and of a vector.
  static constexpr std::int64_t kLine = kLeftCols<P>;
  static constexpr std::int64_t kElements =
      kVectorElements<T> * Term<P>::kElements;

  struct Factors {
    const P* left = nullptr;
    std::int64_t left_stride = 0;       // between rows
    std::int64_t left_line_stride = 0;  // between cache lines of a row
    MatrixView<const P> right{nullptr, 0, 0};
  };

  struct Tile {
    std::int64_t row;
    std::int64_t rows;
    std::int64_t col;
    std::int64_t cols;
  };

  // The sums of the products of kRows rows with kCols rows:
  //
  //                              right [kCols, depth]
  //                              k ->   +-----+-----+--
  //                              0      |  v  |     |
  //                              1      |  v  |     |     all loaded once
  //     left [kRows, depth]      :      |  :  |     |
  //     k ->   +-----+-----+--
  //     0      |  v  |     |            sum   sum  ..     one register each,
  //     1      |  v  |     |            sum   sum  ..     whose lanes are added
  //     :      |  :  |     |             :     :          at the end
  //
  // A tile with fewer rows or columns repeats the last one.
  template <int kRows>
  static __attribute__((noinline)) void MultiplyTile(const DotProduct& product,
                                                     const Tile& tile,
                                                     const MatrixView<T>& out) {
    constexpr int kCols = kDotSums / kRows;
    Vector<T> sums[kDotSums];
#pragma GCC unroll 16
    for (int i = 0; i < kDotSums; ++i) sums[i] = Vector<T>{};
    for (int term = 0; term < product.size_; ++term) {
      const Factors& factors = product.factors_[term];
      const P* rows[kRows];
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        rows[i] = factors.left +
                  (tile.row + Min(i, tile.rows - 1)) * factors.left_stride;
      }
      const P* cols[kCols];
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        cols[j] = factors.right.At(tile.col + Min(j, tile.cols - 1), 0);
      }
      std::int64_t line = 0;  // offset of the left operand's current line
      std::int64_t k = 0;
      // Adds the terms of one vector, `offset` elements from the start of the
      // line.
      const auto add_terms = [&](std::int64_t offset,
                                 const auto& load) TF_RNN_OPS_LAMBDA_INLINE {
        Vector<T> row[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) row[i] = load(rows[i] + line + offset);
#pragma GCC unroll 16
        for (int j = 0; j < kCols; ++j) {
          const Vector<T> col = load(cols[j] + k + offset);
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            sums[i * kCols + j] =
                Term<P>::Add(sums[i * kCols + j], row[i], col);
          }
        }
      };
      const auto load = [](const P* from) TF_RNN_OPS_LAMBDA_INLINE {
        return Term<P>::LoadRight(from);
      };
      const std::int64_t depth = factors.right.cols;
      for (; k + kLine <= depth; k += kLine) {
#pragma GCC unroll 4
        for (std::int64_t i = 0; i < kLine; i += kElements) add_terms(i, load);
        line += factors.left_line_stride;
      }
      std::int64_t i = 0;
      for (; k + i + kElements <= depth; i += kElements) add_terms(i, load);
      const std::int64_t rest = depth - k - i;
      if (rest > 0) {
        add_terms(i, [rest](const P* from) TF_RNN_OPS_LAMBDA_INLINE {
          return Term<P>::LoadPartialRight(from, rest);
        });
      }
    }
    T totals[kDotSums];
#pragma GCC unroll 16
    for (int i = 0; i < kDotSums; i += kVectorElements<T>) {
      Store<T>(SumsOfLanes<T>(sums + i), totals + i);
    }
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      std::memcpy(out.At(i, 0), totals + i * kCols, tile.cols * sizeof(T));
    }
  }

  using MultiplyTileFunction = void (*)(const DotProduct&, const Tile&,
                                        const MatrixView<T>&);

  static MultiplyTileFunction GetMultiplyTile(std::int64_t rows) {
    return rows == 1   ? &MultiplyTile<1>
           : rows == 2 ? &MultiplyTile<2>
                       : &MultiplyTile<kMaxDotRows>;
  }

  Factors factors_[kMost];
  int size_ = 0;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_DOT_PRODUCT_H_
