// Products of large matrices, on many threads.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_PARALLEL_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_PARALLEL_PRODUCT_H_

#include <cstdint>
#include <cstring>

#include "cc/rnn/executor.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/panel_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A matrix [depth, cols], packed for use as a right factor.
template <typename T>
struct PackedMatrix {
  T* data;  // [NumPanels(cols), depth, kPanelCols]
  std::int64_t depth;
  std::int64_t cols;

  std::int64_t panel_size() const { return depth * kPanelCols<T>; }
  T* Panel(std::int64_t panel) const { return data + panel * panel_size(); }
};

// How many elements PackedMatrix::data points to.
template <typename T>
std::int64_t PackedSize(std::int64_t depth, std::int64_t cols) {
  return NumPanels<T>(cols) * depth * kPanelCols<T>;
}

// Packs the rows of `matrix`, [rows, packed.cols], into the packed matrix's
// rows from `first_row` on.
template <typename T>
void ParallelPack(const MatrixView<const T>& matrix, std::int64_t first_row,
                  const PackedMatrix<T>& packed, Executor& executor) {
  executor.ParallelFor(NumPanels<T>(packed.cols), [&](std::int64_t panel) {
    const std::int64_t col = panel * kPanelCols<T>;
    PackPanel(matrix.Cols(col, Min(kPanelCols<T>, packed.cols - col)),
              packed.Panel(panel) + first_row * kPanelCols<T>);
  });
}

// Packs the transpose of `matrix`, [packed.cols, packed.depth].
template <typename T>
void ParallelPackTransposed(const MatrixView<const T>& matrix,
                            const PackedMatrix<T>& packed, Executor& executor) {
  executor.ParallelFor(NumPanels<T>(packed.cols), [&](std::int64_t panel) {
    const std::int64_t col = panel * kPanelCols<T>;
    PackTransposedPanel(matrix.Rows(col, Min(kPanelCols<T>, packed.cols - col)),
                        packed.Panel(panel));
  });
}

// Cuts a matrix into blocks, each the work of one task. The bits of a product
// do not depend on the cut, so it may follow the number of threads.
class Blocks {
 public:
  static constexpr std::int64_t kMaxPanels = 16;

  // Blocks of up to max_tiles tiles of rows and kMaxPanels panels of columns;
  // down to min_tiles where more would leave threads idle.
  template <typename T>
  static Blocks Of(const MatrixView<T>& matrix, std::int64_t min_tiles,
                   std::int64_t max_tiles, int num_threads) {
    constexpr std::int64_t kBlocksPerThread = 2;
    std::int64_t tiles = max_tiles;
    for (;;) {
      const Blocks blocks(matrix.rows, matrix.cols, tiles * kMaxTileRows,
                          kMaxPanels * kPanelCols<T>);
      if (tiles <= min_tiles ||
          blocks.size() >= kBlocksPerThread * num_threads) {
        return blocks;
      }
      tiles /= 2;
    }
  }

  std::int64_t size() const {
    return CeilDiv(rows_, block_rows_) * blocks_across();
  }
  std::int64_t row(std::int64_t block) const {
    return block / blocks_across() * block_rows_;
  }
  std::int64_t col(std::int64_t block) const {
    return block % blocks_across() * block_cols_;
  }
  std::int64_t rows(std::int64_t block) const {
    return Min(block_rows_, rows_ - row(block));
  }
  std::int64_t cols(std::int64_t block) const {
    return Min(block_cols_, cols_ - col(block));
  }

 private:
  Blocks(std::int64_t rows, std::int64_t cols, std::int64_t block_rows,
         std::int64_t block_cols)
      : rows_(rows),
        cols_(cols),
        block_rows_(block_rows),
        block_cols_(block_cols) {}

  std::int64_t blocks_across() const { return CeilDiv(cols_, block_cols_); }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t block_rows_;
  std::int64_t block_cols_;
};

// out = initial + left * right. initial: as in MultiplyPanels.
template <typename T>
void ParallelMultiply(const MatrixView<const T>& left,
                      const PackedMatrix<T>& right,
                      const MatrixView<const T>& initial,
                      const MatrixView<T>& out, Executor& executor) {
  if (out.rows == 0 || out.cols == 0) return;
  const Blocks blocks = Blocks::Of(out, 2, 16, executor.num_threads());
  executor.ParallelFor(blocks.size(), [&](std::int64_t i) {
    const std::int64_t row = blocks.row(i), col = blocks.col(i);
    const std::int64_t rows = blocks.rows(i), cols = blocks.cols(i);
    MultiplyPanels(
        left.Rows(row, rows), right.Panel(col / kPanelCols<T>),
        right.panel_size(),
        initial.data == nullptr ? initial : initial.Block(row, col, rows, cols),
        out.Block(row, col, rows, cols));
  });
}

// The tiles whose left operands are packed together: they and the panels stay
// in the second-level cache.
constexpr std::int64_t kMaxPackedTiles = 64;

// From tile to tile and from panel to panel of packed operands. One cache line
// more than they take: at multiples of a page, all would want the same places
// of the cache.
template <typename T>
constexpr std::int64_t kPackedTileSize =
    kDepthChunk * kMaxTileRows + 64 / sizeof(T);
template <typename T>
constexpr std::int64_t kPackedPanelSize =
    kDepthChunk * kPanelCols<T> + 64 / sizeof(T);

// How many elements of scratch memory ParallelMultiplyTransposed needs for each
// thread.
template <typename T>
constexpr std::int64_t kTransposedScratch =
    kMaxPackedTiles * kPackedTileSize<T> +
    Blocks::kMaxPanels * kPackedPanelSize<T>;

// Has the CPU fetch the row that is to be read a few rows after `row`: the next
// ones may lie pages apart, which it does not foresee.
template <typename T>
void PrefetchRowAfter(const MatrixView<const T>& matrix, std::int64_t row) {
  constexpr std::int64_t kRowsAhead = 16;
  if (row + kRowsAhead >= matrix.rows) return;
  const T* from = matrix.At(row + kRowsAhead, 0);
  for (std::int64_t i = 0; i < matrix.cols; i += 64 / sizeof(T)) {
    __builtin_prefetch(from + i);
  }
}

// Packs the transpose of `matrix`, [depth, rows], tile by tile: [depth,
// tiles.rows(tile)] each. Reads row by row, as rows may lie pages apart.
template <typename T>
void PackTiles(const MatrixView<const T>& matrix, const RowTiles& tiles,
               T* packed) {
  for (std::int64_t k = 0; k < matrix.rows; ++k) {
    PrefetchRowAfter(matrix, k);
    const T* from = matrix.At(k, 0);
    for (std::int64_t tile = 0; tile < tiles.size(); ++tile) {
      const std::int64_t rows = tiles.rows(tile);
      T* to = packed + tile * kPackedTileSize<T> + k * rows;
      if (rows == kMaxTileRows) {
        std::memcpy(to, from, kMaxTileRows * sizeof(T));
      } else {
        for (std::int64_t i = 0; i < rows; ++i) to[i] = from[i];
      }
      from += rows;
    }
  }
}

// Packs a matrix [depth, cols] panel by panel, reading row by row.
template <typename T>
void PackPanels(const MatrixView<const T>& matrix, T* panels) {
  for (std::int64_t k = 0; k < matrix.rows; ++k) {
    PrefetchRowAfter(matrix, k);
    for (std::int64_t col = 0; col < matrix.cols; col += kPanelCols<T>) {
      PackPanel(matrix.Block(k, col, 1, Min(kPanelCols<T>, matrix.cols - col)),
                panels + col / kPanelCols<T> * kPackedPanelSize<T> +
                    k * kPanelCols<T>);
    }
  }
}

// One chunk of the depth of a block of ParallelMultiplyTransposed.
template <typename T>
void MultiplyTransposedChunk(const MatrixView<const T>& left,
                             const MatrixView<const T>& right, bool add,
                             T* scratch, const MatrixView<T>& out) {
  T* const packed_left = scratch;
  T* const panels = scratch + kMaxPackedTiles * kPackedTileSize<T>;
  const std::int64_t depth = left.rows;
  const RowTiles tiles(out.rows);
  PackTiles(left, tiles, packed_left);
  PackPanels(right, panels);
  for (std::int64_t col = 0; col < out.cols; col += kPanelCols<T>) {
    const std::int64_t cols = Min(kPanelCols<T>, out.cols - col);
    for (std::int64_t tile = 0; tile < tiles.size(); ++tile) {
      const std::int64_t row = tiles.begin(tile);
      const std::int64_t rows = tiles.rows(tile);
      T* const to = out.At(row, col);
      const TileArguments<T> a{
          packed_left + tile * kPackedTileSize<T>,
          0,
          panels + col / kPanelCols<T> * kPackedPanelSize<T>,
          0,
          depth,
          to,
          out.stride,
          add ? to : nullptr,
          out.stride,
          packed_left,
          0};
      const auto multiply = GetMultiplyTile<T, true, false>(rows);
      if (cols == kPanelCols<T>) {
        multiply(a);
      } else {
        MultiplyPartialTile(multiply, a, rows, cols);
      }
    }
  }
}

// out = left^T * right, or out += that. scratch: [executor.num_threads(),
// kTransposedScratch].
template <typename T>
void ParallelMultiplyTransposed(const MatrixView<const T>& left,
                                const MatrixView<const T>& right, bool add,
                                T* scratch, const MatrixView<T>& out,
                                Executor& executor) {
  if (out.rows == 0 || out.cols == 0) return;
  // Each block packs its operands: with few rows, that is most of its work.
  const Blocks blocks =
      Blocks::Of(out, 8, kMaxPackedTiles, executor.num_threads());
  executor.ParallelFor(blocks.size(), [&](std::int64_t i, int worker) {
    const std::int64_t row = blocks.row(i), col = blocks.col(i);
    const std::int64_t rows = blocks.rows(i), cols = blocks.cols(i);
    std::int64_t k = 0;
    do {  // once for a depth of zero too
      const std::int64_t depth = Min(kDepthChunk, left.rows - k);
      MultiplyTransposedChunk(left.Block(k, row, depth, rows),
                              right.Block(k, col, depth, cols), add || k > 0,
                              scratch + worker * kTransposedScratch<T>,
                              out.Block(row, col, rows, cols));
      k += depth;
    } while (k < left.rows);
  });
}

// sums[j] = the sum of column j.
template <typename T>
void ParallelColumnSums(const MatrixView<const T>& matrix, T* sums,
                        Executor& executor) {
  // Whole cache lines; and enough rows to leave little to the running total's
  // rounding.
  constexpr std::int64_t kCols = 256 / sizeof(T);
  executor.ParallelFor(CeilDiv(matrix.cols, kCols), [&](std::int64_t block) {
    const std::int64_t col = block * kCols;
    const std::int64_t cols = Min(kCols, matrix.cols - col);
    T total[kCols] = {};
    for (std::int64_t row = 0; row < matrix.rows;) {
      const std::int64_t end = Min(row + kDepthChunk, matrix.rows);
      T chunk[kCols] = {};
      for (; row < end; ++row) {
        const T* from = matrix.At(row, col);
        for (std::int64_t j = 0; j < cols; ++j) chunk[j] += from[j];
      }
      for (std::int64_t j = 0; j < cols; ++j) total[j] += chunk[j];
    }
    for (std::int64_t j = 0; j < cols; ++j) sums[col + j] = total[j];
  });
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_PARALLEL_PRODUCT_H_
