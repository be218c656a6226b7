// How a matrix is cut into tiles, each the work of one task.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_TILE_GRID_H_
#define TF_RNN_OPS_CC_RNN_SIMD_TILE_GRID_H_

#include <cstdint>

#include "cc/rnn/simd/lanes.h"
#include "cc/rnn/simd/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

struct Tile {
  std::int64_t row;
  std::int64_t col;
  std::int64_t rows;
  std::int64_t cols;

  // This tile of a matrix.
  template <typename S>
  MatrixView<S> Of(const MatrixView<S>& matrix) const {
    return matrix.Block(row, col, rows, cols);
  }

  // Calls body(row, col, count) for runs of count <= kLanes<T> columns that
  // cover this tile. Rows and columns are those of the whole matrix.
  template <typename T, typename Body>
  void ForEachRun(const Body& body) const {
    for (std::int64_t i = row; i < row + rows; ++i) {
      for (std::int64_t j = col; j < col + cols; j += kLanes<T>) {
        const std::int64_t left = col + cols - j;
        body(i, j, left < kLanes<T> ? left : kLanes<T>);
      }
    }
  }
};

// Cuts a [rows, cols] matrix, each element of which costs `depth`
// multiply-adds. The cut depends on these three numbers alone, not on the
// number of threads, so that the same sums are formed in the same order
// everywhere.
class TileGrid {
 public:
  TileGrid(std::int64_t rows, std::int64_t cols, std::int64_t depth)
      : rows_(rows),
        cols_(cols),
        tile_rows_(rows < kMaxTileRows ? rows : kMaxTileRows),
        tile_cols_(TileCols(tile_rows_, cols, depth)),
        tiles_across_(cols == 0 ? 0 : (cols - 1) / tile_cols_ + 1),
        tiles_down_(rows == 0 ? 0 : (rows - 1) / tile_rows_ + 1) {}

  std::int64_t size() const { return tiles_across_ * tiles_down_; }

  Tile operator[](std::int64_t index) const {
    const std::int64_t row = index / tiles_across_ * tile_rows_;
    const std::int64_t col = index % tiles_across_ * tile_cols_;
    return Tile{row, col, Smaller(tile_rows_, rows_ - row),
                Smaller(tile_cols_, cols_ - col)};
  }

 private:
  static constexpr std::int64_t kMaxTileRows = 128;
  static constexpr std::int64_t kColsMultiple = 64;  // whole cache lines
  static constexpr std::int64_t kTilesAcross = 16;   // enough for many threads
  // What makes a task worth a hand-over to another thread.
  static constexpr std::int64_t kMultiplyAddsPerTile = 1 << 18;

  static std::int64_t Smaller(std::int64_t a, std::int64_t b) {
    return a < b ? a : b;
  }

  static std::int64_t TileCols(std::int64_t tile_rows, std::int64_t cols,
                               std::int64_t depth) {
    const std::int64_t for_balance = cols / kTilesAcross;
    const double multiply_adds_per_col =
        static_cast<double>(tile_rows) * static_cast<double>(depth);
    const std::int64_t for_work =
        multiply_adds_per_col < 1
            ? cols
            : static_cast<std::int64_t>(kMultiplyAddsPerTile /
                                        multiply_adds_per_col);
    const std::int64_t least = for_balance > for_work ? for_balance : for_work;
    if (least >= cols) return cols;
    return (least / kColsMultiple + 1) * kColsMultiple;
  }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t tile_rows_;
  std::int64_t tile_cols_;
  std::int64_t tiles_across_;
  std::int64_t tiles_down_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_TILE_GRID_H_
