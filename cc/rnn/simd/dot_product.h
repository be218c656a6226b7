// Products of few rows with the transposes of row-major matrices, on one
// thread: all operands are read where they are.
//
// An element is the sum over the lanes of a vector, where the terms of a lane
// are added up in ascending order: its bits depend neither on the place of the
// element in the matrix nor on how the work is cut.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_DOT_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_DOT_PRODUCT_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/rnn/simd/block_matrix.h"
#include "cc/rnn/simd/block_product.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/pack.h"
#include "cc/rnn/simd/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The sums of a tile, each one register, and the rows of the highest tile.
#if defined(__AVX512F__)
constexpr int kDotSums = 16;
#else
constexpr int kDotSums = 8;
#endif
constexpr int kMaxDotRows = 4;

// Adds up the lanes of each of as many vectors as a vector has lanes: lane i of
// the result is the sum of vectors[i].
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
// [cols, depth].
template <typename T>
class DotProduct {
 public:
  void Add(const MatrixView<const T>& left, const MatrixView<const T>& right) {
    terms_[size_++] = {left, right};
  }

  // out = a block of the sum.
  void Multiply(std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols, const MatrixView<T>& out) const {
    const RowTiles<kMaxDotRows> tiles(rows);
    const std::int64_t most_rows = rows <= 2 ? rows : kMaxDotRows;
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

  struct Term {
    MatrixView<const T> left{nullptr, 0, 0};
    MatrixView<const T> right{nullptr, 0, 0};
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
  //     0      |  v  |     |        sum   sum  ..    one register each, of
  //     which 1      |  v  |     |        sum   sum  ..    the lanes are added
  //     up at :      |  :  |     |         :     :         the end
  //
  // A tile that has fewer rows or columns takes the last one several times.
  template <int kRows>
  static __attribute__((noinline)) void MultiplyTile(const DotProduct& product,
                                                     const Tile& tile,
                                                     const MatrixView<T>& out) {
    constexpr std::int64_t kElements = kVectorElements<T>;
    constexpr int kCols = kDotSums / kRows;
    Vector<T> sums[kDotSums];
#pragma GCC unroll 16
    for (int i = 0; i < kDotSums; ++i) sums[i] = Vector<T>{};
    for (int term = 0; term < product.size_; ++term) {
      const auto& [left, right] = product.terms_[term];
      const T* rows[kRows];
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        rows[i] = left.At(tile.row + Min(i, tile.rows - 1), 0);
      }
      const T* cols[kCols];
#pragma GCC unroll 16
      for (int j = 0; j < kCols; ++j) {
        cols[j] = right.At(tile.col + Min(j, tile.cols - 1), 0);
      }
      const auto add_terms = [&](const auto& load) TF_RNN_OPS_LAMBDA_INLINE {
        Vector<T> row[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) row[i] = load(rows[i]);
#pragma GCC unroll 16
        for (int j = 0; j < kCols; ++j) {
          const Vector<T> col = load(cols[j]);
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            sums[i * kCols + j] =
                rnn::TF_RNN_OPS_INSTRUCTION_SET::MultiplyAdd<T>(
                    row[i], col, sums[i * kCols + j]);
          }
        }
      };
      std::int64_t k = 0;
      for (; k + kElements <= left.cols; k += kElements) {
        add_terms([k](const T* from)
                      TF_RNN_OPS_LAMBDA_INLINE { return Load<T>(from + k); });
      }
      if (k < left.cols) {
        const std::int64_t rest = left.cols - k;
        add_terms([k, rest](const T* from) TF_RNN_OPS_LAMBDA_INLINE {
          return LoadPartial<T>(from + k, rest);
        });
      }
    }
    T totals[kDotSums];
#pragma GCC unroll 16
    for (int i = 0; i < kDotSums; i += kElements) {
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

  Term terms_[kMost];
  int size_ = 0;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_DOT_PRODUCT_H_
