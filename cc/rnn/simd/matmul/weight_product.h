// Products with row-major weights that are used once, on one thread.
//
// Packing all weights first would cost as much as reading them. Instead, chunks
// of weights are packed into memory that stays in the first-level cache. Each
// chunk is multiplied by all rows of the left operand while the next one is
// prefetched. If all rows fit in one tile, the weights are read in place.
//
// An element is the sum over chunks of kWeightDepth terms of each product,
// added in ascending order. Its bits therefore depend neither on its position
// nor on how the work is split.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_WEIGHT_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_WEIGHT_PRODUCT_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of rows of weights multiplied at once.
constexpr std::int64_t kWeightDepth = 128;

// Number of columns of weights packed at once. A row of them has as many cache
// lines as a block of the left operand has terms.
template <typename T>
constexpr std::int64_t kWeightCols = kLeftCols<T> * kLeftCols<T>;

// Number of elements of scratch memory that a worker needs to pack a chunk for
// this many rows. If they fit in one tile, at most one panel is packed.
template <typename T>
std::int64_t PackedChunkSize(std::int64_t rows) {
  return kWeightDepth * (rows <= kMaxTileRows ? kTileCols<T> : kWeightCols<T>);
}

// A sum of products of left operands with weights, [depth, cols] or, if
// transposed, [cols, depth].
template <typename T, bool kTransposed>
class WeightProduct {
 public:
  // left: [rows, depth]
  void Add(const LeftMatrix<T>& left, const MatrixView<const T>& weights) {
    assert(left.cols == (kTransposed ? weights.cols : weights.rows));
    if (left.cols == 0) return;
    assert(size_ < kMost);
    terms_[size_++] = {left, weights};
  }

  // out = a block of the sum of products.
  // cols: at most kWeightCols.
  // packed: [PackedChunkSize(rows)]
  // out: [rows, cols rounded up to whole kTileCols]
  void Multiply(std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols, T* packed, const MatrixView<T>& out) const {
    if (size_ == 0) return CopyInitial(NoMatrix<T>(), out);
    for (std::int64_t i = 0; i < cols; i += kColsAtOnce) {
      MultiplyColumns(row, rows, col + i, Min(kColsAtOnce, cols - i), packed,
                      out.Cols(i, Min(kColsAtOnce, out.cols - i)));
    }
  }

 private:
  static constexpr int kMost = 3;
  // The packed part of a transposed matrix stays in the first-level cache; that
  // of other matrices stays in the second-level cache, to read longer pieces of
  // rows.
  static constexpr std::int64_t kColsAtOnce =
      kTransposed ? kTileCols<T> : kWeightCols<T>;

  struct Term {
    LeftMatrix<T> left;
    MatrixView<const T> weights{nullptr, 0, 0};
  };

  // The terms [first, first + depth) of a product.
  struct Chunk {
    int term;
    std::int64_t first;
    std::int64_t depth;
  };
  Chunk ChunkAt(int term, std::int64_t first) const {
    return {
        term, first,
        term < size_ ? Min(kWeightDepth, terms_[term].left.cols - first) : 0};
  }
  Chunk FirstChunk() const { return ChunkAt(0, 0); }
  // The next chunk; its depth is 0 if there is none.
  Chunk Next(const Chunk& chunk) const {
    const std::int64_t end = chunk.first + chunk.depth;
    return end < terms_[chunk.term].left.cols ? ChunkAt(chunk.term, end)
                                              : ChunkAt(chunk.term + 1, 0);
  }

  LeftMatrix<T> Left(const Chunk& chunk, std::int64_t row,
                     std::int64_t rows) const {
    return terms_[chunk.term].left.Rows(row, rows).Cols(chunk.first,
                                                        chunk.depth);
  }
  MatrixView<const T> Weights(const Chunk& chunk, std::int64_t col,
                              std::int64_t cols) const {
    const MatrixView<const T>& weights = terms_[chunk.term].weights;
    return kTransposed ? weights.Block(col, chunk.first, cols, chunk.depth)
                       : weights.Block(chunk.first, col, chunk.depth, cols);
  }
  std::int64_t num_cols() const {
    return kTransposed ? terms_[0].weights.rows : terms_[0].weights.cols;
  }

  // A chunk of weights, in place or packed: panels of kTileCols columns.
  struct Panels {
    const T* data;
    std::int64_t stride;      // between panels
    std::int64_t row_stride;  // between rows
  };

  // cols: at most kColsAtOnce.
  void MultiplyColumns(std::int64_t row, std::int64_t rows, std::int64_t col,
                       std::int64_t cols, T* packed,
                       const MatrixView<T>& out) const {
    // The last columns are packed if they do not fill a panel.
    const std::int64_t in_place =
        TakesInPlace(rows) ? cols / kTileCols<T> * kTileCols<T> : 0;
    const MatrixView<T> in_place_out = out.Cols(0, in_place);
    const MatrixView<T> packed_out = out.Cols(in_place, out.cols - in_place);
    for (Chunk chunk = FirstChunk(); chunk.depth > 0; chunk = Next(chunk)) {
      const bool add = chunk.term > 0 || chunk.first > 0;
      const LeftMatrix<T> left = Left(chunk, row, rows);
      const MatrixView<const T> weights = Weights(chunk, col, cols);
      const MatrixView<const T> next = WeightsAfter(chunk, col, cols);
      if (in_place > 0) {
        MultiplyChunk(left, {weights.data, kTileCols<T>, weights.stride}, add,
                      next, in_place_out);
      }
      if (in_place < cols) {
        PackChunk(Weights(chunk, col + in_place, cols - in_place),
                  MutableRightMatrix<T>(packed, chunk.depth, cols - in_place));
        MultiplyChunk(left, {packed, chunk.depth * kTileCols<T>, kTileCols<T>},
                      add, in_place > 0 ? NoMatrix<T>() : next, packed_out);
      }
    }
  }

  // Whether `rows` rows read the weights in place. Rows of weights that are far
  // apart evict each other from the cache, and are read only once only by a
  // single tile of rows.
  bool TakesInPlace(std::int64_t rows) const {
    constexpr std::int64_t kMostStride = 2048 / sizeof(T);
    return !kTransposed &&
           (rows <= kMaxTileRows || terms_[0].weights.stride <= kMostStride);
  }

  // The weights that MultiplyColumns reads after those of a chunk.
  MatrixView<const T> WeightsAfter(const Chunk& chunk, std::int64_t col,
                                   std::int64_t cols) const {
    const Chunk next = Next(chunk);
    if (next.depth > 0) return Weights(next, col, cols);
    const std::int64_t next_col = col + cols;
    return Weights(FirstChunk(), next_col, Min(cols, num_cols() - next_col));
  }

  // out = left * right, or out += left * right, while prefetching `next`.
  static void MultiplyChunk(const LeftMatrix<T>& left, const Panels& right,
                            bool add, const MatrixView<const T>& next,
                            const MatrixView<T>& out) {
    const MatrixView<const T> initial = add ? Constant(out) : NoMatrix<T>();
    const RowTiles<kMaxTileRows> tiles(out.rows);
    const std::int64_t panels = out.cols / kTileCols<T>;
    const std::int64_t most_width = MostWidth(out.rows);
    const std::int64_t num_tiles = CeilDiv(panels, most_width) * tiles.size();
    std::int64_t num_done = 0;
    for (std::int64_t panel = 0; panel < panels; panel += most_width) {
      const std::int64_t width = Min(most_width, panels - panel);
      for (std::int64_t i = 0; i < tiles.size(); ++i) {
        const std::int64_t row = tiles.begin(i);
        TileArguments<T> a = MakeTileArguments(
            left.Rows(row, tiles.rows(i)),
            RightMatrix<T>(right.data, left.cols, out.cols, right.stride),
            left.cols, initial, out, row, panel * kTileCols<T>);
        a.right_term_stride = right.row_stride;
        Fetch(next, num_done++, num_tiles, &a);
        GetMultiplyTile<T>(tiles.rows(i), width)(a);
      }
    }
  }

  static void PackChunk(const MatrixView<const T>& weights,
                        const MutableRightMatrix<T>& right) {
    if constexpr (kTransposed) {
      PackTransposed(weights, right);
    } else {
      Pack(weights, right);
    }
  }

  // Makes a tile prefetch its share of `next`: for each block of its left
  // operand, a piece of one row. Pieces are as short as possible, so that the
  // CPU never waits for many cache lines at once.
  static void Fetch(const MatrixView<const T>& next, std::int64_t tile,
                    std::int64_t num_tiles, TileArguments<T>* a) {
    const std::int64_t rows = a->depth / kLeftCols<T>;
    if (rows == 0 || next.cols <= 0) return;
    const auto num_pieces = [&](std::int64_t stride) {
      return CeilDiv(next.cols, kLeftCols<T> * stride);
    };
    std::int64_t stride = 64 / sizeof(T);
    while (stride > 1 &&
           num_pieces(stride / 2) * CeilDiv(next.rows, rows) <= num_tiles) {
      stride /= 2;
    }
    const std::int64_t row = tile / num_pieces(stride) * rows;
    if (row >= next.rows) return;
    a->next = next.At(row, tile % num_pieces(stride) * kLeftCols<T> * stride);
    a->next_stride = stride;
    a->next_block_stride = next.stride - kLeftCols<T> * stride;
  }

  Term terms_[kMost];
  int size_ = 0;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_WEIGHT_PRODUCT_H_
