// Products of matrices by tiles of vectors, on one thread. product.h uses these
// if the CPU has no tile unit for the type.
//
// An element of a product is always the sum over chunks of kDepthChunk terms,
// each added in ascending order from zero. Its bits therefore depend neither on
// its position in the matrix nor on how the work is split.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_PRODUCT_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of terms added at once. The corresponding rows of kTileCols columns of
// a right operand stay in the first-level cache.
constexpr std::int64_t kDepthChunk = 256;

// Splits rows into tiles of nearly equal height, at most kMost.
template <std::int64_t kMost>
class RowTiles {
 public:
  explicit RowTiles(std::int64_t rows)
      : size_(CeilDiv(rows, kMost)),
        least_(size_ == 0 ? 0 : rows / size_),
        num_higher_(rows - size_ * least_) {}

  std::int64_t size() const { return size_; }
  std::int64_t begin(std::int64_t tile) const {
    return tile * least_ + Min(tile, num_higher_);
  }
  std::int64_t rows(std::int64_t tile) const {
    return least_ + (tile < num_higher_ ? 1 : 0);
  }

 private:
  std::int64_t size_;
  std::int64_t least_;       // minimum rows of a tile
  std::int64_t num_higher_;  // the number of leading tiles with one more row
};

// Calls multiply(a) for a tile of kTileCols columns, although `out` and
// `initial` have only `cols` columns.
template <typename T>
void MultiplyPartialTile(MultiplyTileFunction<T> multiply, TileArguments<T> a,
                         std::int64_t rows, std::int64_t cols) {
  using Sum = ComputeType<T>;
  Sum tile[kMaxTileRows * kTileCols<T>];
  Sum* const out = a.out;
  const std::int64_t out_stride = a.out_stride;
  const Sum* const initial = a.initial;
  a.out = tile;
  a.out_stride = kTileCols<T>;
  a.initial = nullptr;
  multiply(a);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const Sum sum = tile[i * kTileCols<T> + j];
      out[i * out_stride + j] =
          initial == nullptr ? sum : initial[i * a.initial_stride + j] + sum;
    }
  }
}

template <typename T>
TileArguments<T> MakeTileArguments(
    const LeftMatrix<T>& left, const RightMatrix<T>& right, std::int64_t depth,
    const MatrixView<const ComputeType<T>>& initial,
    const MatrixView<ComputeType<T>>& out, std::int64_t row, std::int64_t col) {
  return {left.data,
          left.stride,
          right.At(0, col),
          right.stride,
          kTileCols<T> * Term<T>::kElements,
          CeilDiv(depth, Term<T>::kElements),
          out.At(row, col),
          out.stride,
          initial.data == nullptr ? nullptr : initial.At(row, col),
          initial.stride,
          left.data,
          0,
          0};
}

// One depth chunk of Multiply. then: the data that is read next in the same way
// as `right`, or null.
template <typename T>
void MultiplyChunk(const LeftMatrix<T>& left, const RightMatrix<T>& right,
                   const MatrixView<const ComputeType<T>>& initial,
                   const MatrixView<ComputeType<T>>& out, const T* then) {
  const RowTiles<kMaxTileRows> tiles(out.rows);
  const std::int64_t most_width = MostWidth(out.rows);
  for (std::int64_t col = 0; col < out.cols;) {
    const std::int64_t width =
        Max(1, Min(most_width, (out.cols - col) / kTileCols<T>));
    const std::int64_t cols = Min(width * kTileCols<T>, out.cols - col);
    const T* const next =
        col + cols < out.cols ? right.At(0, col + cols) : then;
    for (std::int64_t tile = 0; tile < tiles.size(); ++tile) {
      const std::int64_t row = tiles.begin(tile);
      const std::int64_t rows = tiles.rows(tile);
      TileArguments<T> a = MakeTileArguments<T>(
          left.Rows(row, rows), right, left.cols, initial, out, row, col);
      if (width == 1 && next != nullptr) {
        // The tiles of a block share the work of prefetching the next block.
        a.next_stride = CeilDiv(a.right_term_stride, tiles.size());
        a.next = next + tile * a.depth * a.next_stride;
      }
      const auto multiply = GetMultiplyTile<T>(rows, width);
      if (cols == width * kTileCols<T>) {
        multiply(a);
      } else {
        MultiplyPartialTile(multiply, a, rows, cols);
      }
    }
    col += cols;
  }
}

// A sum of products left * right.
template <typename T>
struct ProductSum {
  static constexpr int kMost = 4;

  struct Factors {
    LeftMatrix<T> left;
    RightMatrix<T> right;
  };

  ProductSum() = default;
  ProductSum(const LeftMatrix<T>& left, const RightMatrix<T>& right) {
    Add(left, right);
  }
  void Add(const LeftMatrix<T>& left, const RightMatrix<T>& right) {
    assert(size < kMost && left.cols == right.rows);
    terms[size++] = {left, right};
  }
  // Number of terms of each element.
  std::int64_t depth() const {
    std::int64_t depth = 0;
    for (int i = 0; i < size; ++i) depth += terms[i].left.cols;
    return depth;
  }
  // The factors of a block of the sum. col: the first column of a block of
  // kTileCols.
  ProductSum Block(std::int64_t row, std::int64_t col, std::int64_t rows,
                   std::int64_t cols) const {
    ProductSum block;
    for (int i = 0; i < size; ++i) {
      block.Add(terms[i].left.Rows(row, rows), terms[i].right.Cols(col, cols));
    }
    return block;
  }

  Factors terms[kMost];
  int size = 0;
};

// out = initial, or zero.
template <typename T>
void CopyInitial(const MatrixView<const T>& initial, const MatrixView<T>& out) {
  for (std::int64_t i = 0; i < out.rows; ++i) {
    for (std::int64_t j = 0; j < out.cols; ++j) {
      *out.At(i, j) = initial.data == nullptr ? T(0) : *initial.At(i, j);
    }
  }
}

// The data read after the first `depth` rows of the right operand of term i of
// `sum`, where `then` follows `sum`; null if nothing follows.
template <typename T>
const T* NextRight(const ProductSum<T>& sum, int i, std::int64_t depth,
                   const ProductSum<T>& then) {
  const auto& [left, right] = sum.terms[i];
  if (depth < left.cols) return right.At(depth, 0);
  if (i + 1 < sum.size) return sum.terms[i + 1].right.data;
  return then.size > 0 ? then.terms[0].right.data : nullptr;
}

// Prefetches a left operand that is about to be read, if it is so small that
// this costs nothing. Other threads may have written it, and a product would
// wait for one cache line after another.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE void FetchIfSmall(const LeftMatrix<T>& left) {
  constexpr std::int64_t kMostLines = 256;
  if (left.rows * left.num_blocks() > kMostLines) return;
  for (std::int64_t col = 0; col < left.cols; col += kLeftCols<T>) {
    for (std::int64_t row = 0; row < left.rows; ++row) {
      __builtin_prefetch(left.At(row, col));
    }
  }
}

// out = initial + sum, in chunks of at most `most_depth` columns of a left
// operand. Calls multiply_chunk(left, right, add_to, next) for each chunk,
// which sets out = add_to + left * right. next: like `then` of MultiplyChunk.
// T: the type of the factors.
template <typename T, typename ChunkMultiply>
void MultiplyInChunks(const ProductSum<T>& sum, const ProductSum<T>& then,
                      std::int64_t most_depth,
                      const MatrixView<const ComputeType<T>>& initial,
                      const MatrixView<ComputeType<T>>& out,
                      const ChunkMultiply& multiply_chunk) {
  for (int i = 0; i < sum.size; ++i) FetchIfSmall(sum.terms[i].left);
  MatrixView<const ComputeType<T>> add_to = initial;
  for (int i = 0; i < sum.size; ++i) {
    const auto& [left, right] = sum.terms[i];
    for (std::int64_t k = 0; k < left.cols; k += most_depth) {
      const std::int64_t depth = Min(most_depth, left.cols - k);
      multiply_chunk(left.Cols(k, depth), right.Rows(k, depth), add_to,
                     NextRight(sum, i, k + depth, then));
      add_to = Constant(out);
    }
  }
  // Without any term, the result is `initial`.
  if (add_to.data != out.data) CopyInitial(initial, out);
}

// Multiply with vectors.
template <typename T>
void VectorMultiply(const ProductSum<T>& sum,
                    const MatrixView<const ComputeType<T>>& initial,
                    const MatrixView<ComputeType<T>>& out,
                    const ProductSum<T>& then) {
  MultiplyInChunks(
      sum, then, kDepthChunk * Term<T>::kElements, initial, out,
      [&](const auto& left, const auto& right, const auto& add_to,
          const T* next) { MultiplyChunk<T>(left, right, add_to, out, next); });
}

// Number of rows of MultiplyTransposed's left operand for which its columns
// stay in the second-level cache.
constexpr std::int64_t kMostTransposedRows = 256;

// One depth chunk of MultiplyTransposed.
template <typename T>
void MultiplyTransposedChunk(const LeftMatrix<T>& left,
                             const RightMatrix<T>& right,
                             const MatrixView<const T>& initial,
                             const MatrixView<T>& out) {
  constexpr std::int64_t kRows = kMaxTransposedTileRows;
  for (std::int64_t col = 0; col < out.cols; col += kTileCols<T>) {
    const std::int64_t cols = Min(kTileCols<T>, out.cols - col);
    for (std::int64_t row = 0; row < out.rows; row += kRows) {
      const std::int64_t rows = Min(kRows, out.rows - row);
      TileArguments<T> a = MakeTileArguments(left.Cols(row, rows), right,
                                             left.rows, initial, out, row, col);
      if (col == 0 && row + kLeftCols<T> < out.rows) {
        // The tiles of a block share the work of prefetching the next block.
        a.next_stride = kRows;
        a.next = left.At(0, row - row % kLeftCols<T> + kLeftCols<T>) +
                 row % kLeftCols<T> * left.rows;
      }
      const auto multiply = GetMultiplyTransposedTile<T>(rows);
      if (cols == kTileCols<T>) {
        multiply(a);
      } else {
        MultiplyPartialTile(multiply, a, rows, cols);
      }
    }
  }
}

// out = initial + left^T * right. initial: as in Multiply.
template <typename T>
void MultiplyTransposed(const LeftMatrix<T>& left, const RightMatrix<T>& right,
                        const MatrixView<const T>& initial,
                        const MatrixView<T>& out) {
  MatrixView<const T> add_to = initial;
  std::int64_t k = 0;
  do {  // also once for a depth of zero, where the result is `initial`
    const std::int64_t depth = Min(kDepthChunk, left.rows - k);
    MultiplyTransposedChunk(left.Rows(k, depth), right.Rows(k, depth), add_to,
                            out);
    add_to = Constant(out);
    k += depth;
  } while (k < left.rows);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_BLOCK_PRODUCT_H_
