// Products with row-major weights that are used once, on one thread.
//
// To pack all of the weights first would cost as much as to read them. Instead
// they are packed chunk by chunk, into memory that stays in the first-level
// cache, and each chunk is multiplied by all rows of the left operand while the
// next one is fetched. One tile's rows take the weights where they are.
//
// An element is the sum over the chunks of each product as in block_product.h.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_WEIGHT_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_WEIGHT_PRODUCT_H_

#include <cstdint>

#include "cc/rnn/simd/block_matrix.h"
#include "cc/rnn/simd/block_product.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/pack.h"
#include "cc/rnn/simd/tile_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The columns of weights that are packed at once: of so many, a row is as many
// cache lines as a block of the left operand has terms.
template <typename T>
constexpr std::int64_t kWeightCols = kLeftCols<T> * kLeftCols<T>;

// The elements of scratch memory that a worker needs to pack a chunk.
template <typename T>
constexpr std::int64_t kPackedChunkSize = kDepthChunk * kWeightCols<T>;

// A sum of products of left operands with weights [depth, cols] or, if
// transposed, [cols, depth].
template <typename T, bool kTransposed>
class WeightProduct {
 public:
  // left: [rows, depth]
  void Add(const LeftMatrix<T>& left, const MatrixView<const T>& weights) {
    if (left.cols > 0) terms_[size_++] = {left, weights};
  }

  // out = a block of the sum, of which there is at least one product.
  // cols: at most kWeightCols.
  // packed: [kPackedChunkSize]
  // out: [rows, cols rounded up to whole kTileCols]
  void Multiply(std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols, T* packed, const MatrixView<T>& out) const {
    if (!kTransposed && rows <= kMaxTileRows) {
      const std::int64_t whole = cols / kTileCols<T> * kTileCols<T>;
      if (whole > 0) {
        MultiplyInPlace(row, rows, col, whole, out.Cols(0, whole));
      }
      if (whole < cols) {
        MultiplyPacked(row, rows, col + whole, cols - whole, packed,
                       out.Cols(whole, kTileCols<T>));
      }
      return;
    }
    for (std::int64_t i = 0; i < cols; i += kColsAtOnce) {
      const std::int64_t part = Min(kColsAtOnce, cols - i);
      MultiplyPacked(row, rows, col + i, part, packed,
                     out.Cols(i, Min(kColsAtOnce, out.cols - i)));
    }
  }

 private:
  static constexpr int kMost = 3;
  // What is packed of a transposed matrix stays in the first-level cache, of
  // another one in the second-level cache: for longer pieces of its rows.
  static constexpr std::int64_t kColsAtOnce =
      kTransposed ? kTileCols<T> : kWeightCols<T>;

  struct Term {
    LeftMatrix<T> left;
    MatrixView<const T> weights{nullptr, 0, 0};
  };

  // Terms [first, first + depth) of a product.
  struct Chunk {
    int term;
    std::int64_t first;
    std::int64_t depth;
  };
  Chunk ChunkAt(int term, std::int64_t first) const {
    return {
        term, first,
        term < size_ ? Min(kDepthChunk, terms_[term].left.cols - first) : 0};
  }
  Chunk FirstChunk() const { return ChunkAt(0, 0); }
  // The chunk after, or one of no depth.
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

  // Whole panels, for the rows of one tile.
  void MultiplyInPlace(std::int64_t row, std::int64_t rows, std::int64_t col,
                       std::int64_t cols, const MatrixView<T>& out) const {
    const std::int64_t panels = cols / kTileCols<T>;
    for (std::int64_t panel = 0; panel < panels;) {
      const std::int64_t width = Min(MostWidth(rows), panels - panel);
      const std::int64_t first = panel * kTileCols<T>;
      MatrixView<const T> initial = NoMatrix<T>();
      for (Chunk chunk = FirstChunk(); chunk.depth > 0; chunk = Next(chunk)) {
        const MatrixView<const T> weights =
            Weights(chunk, col + first, width * kTileCols<T>);
        TileArguments<T> a =
            MakeTileArguments(Left(chunk, row, rows),
                              RightMatrix<T>(weights.data, chunk.depth,
                                             weights.cols, kTileCols<T>),
                              chunk.depth, initial, out, 0, first);
        a.right = weights.data;
        a.right_row_stride = weights.stride;
        GetMultiplyTile<T>(rows, width)(a);
        initial = Constant(out);
      }
      panel += width;
    }
  }

  // At most kColsAtOnce columns.
  void MultiplyPacked(std::int64_t row, std::int64_t rows, std::int64_t col,
                      std::int64_t cols, T* packed,
                      const MatrixView<T>& out) const {
    MatrixView<const T> initial = NoMatrix<T>();
    for (Chunk chunk = FirstChunk(); chunk.depth > 0; chunk = Next(chunk)) {
      const MutableRightMatrix<T> right(packed, chunk.depth, cols);
      PackChunk(Weights(chunk, col, cols), right);
      MultiplyChunk(Left(chunk, row, rows), right, initial,
                    WeightsAfter(chunk, col, cols), out);
      initial = Constant(out);
    }
  }

  // The weights that MultiplyPacked packs after those of a chunk.
  MatrixView<const T> WeightsAfter(const Chunk& chunk, std::int64_t col,
                                   std::int64_t cols) const {
    const Chunk next = Next(chunk);
    if (next.depth > 0) return Weights(next, col, cols);
    const std::int64_t next_col = col + cols;
    return Weights(FirstChunk(), next_col, Min(cols, num_cols() - next_col));
  }

  // One chunk of the depth, while `next` is fetched.
  static void MultiplyChunk(const LeftMatrix<T>& left,
                            const RightMatrix<T>& right,
                            const MatrixView<const T>& initial,
                            const MatrixView<const T>& next,
                            const MatrixView<T>& out) {
    const RowTiles<kMaxTileRows> tiles(out.rows);
    const std::int64_t num_tiles =
        CeilDiv(out.cols, kTileCols<T>) * tiles.size();
    for (std::int64_t col = 0; col < out.cols; col += kTileCols<T>) {
      for (std::int64_t i = 0; i < tiles.size(); ++i) {
        const std::int64_t row = tiles.begin(i);
        TileArguments<T> a =
            MakeTileArguments(left.Rows(row, tiles.rows(i)), right, left.cols,
                              initial, out, row, col);
        Fetch(next, col / kTileCols<T> * tiles.size() + i, num_tiles, &a);
        GetMultiplyTile<T>(tiles.rows(i), 1)(a);
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

  // Has the so manieth of some tiles fetch its share of `next`: for each block
  // of its left operand, a piece of one row. The pieces are as short as they
  // may be, so that the CPU never waits for many cache lines at once.
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

#endif  // TF_RNN_OPS_CC_RNN_SIMD_WEIGHT_PRODUCT_H_
