// How a step of a cell whose weights are used once is cut into tasks.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_PANEL_BLOCKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_PANEL_BLOCKS_H_

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/simd/block_matrix.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/parallel_product.h"
#include "cc/rnn/simd/step_tasks.h"
#include "cc/rnn/simd/tile_product.h"
#include "cc/rnn/simd/weight_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Rows and columns of a product.
struct PanelBlock {
  std::int64_t row;
  std::int64_t rows;
  std::int64_t col;  // the first of a panel
  std::int64_t cols;

  // Calls body(part) for parts of as many columns as are multiplied at once.
  template <typename T, typename Body>
  void ForEachPart(const Body& body) const {
    for (std::int64_t i = 0; i < cols; i += kWeightCols<T>) {
      body(PanelBlock{row, rows, col + i, Min(kWeightCols<T>, cols - i)});
    }
  }

  // Calls body(col, units) for its vectors of columns, where `units` is a
  // WholeVector or a PartialVector.
  template <typename T, typename Body>
  void ForEachVector(const Body& body) const {
    StepTask::ForEachVector<T>(col / kTileCols<T>, CeilDiv(cols, kTileCols<T>),
                               col + cols, body);
  }
};

// Cuts products of a [rows, depth] matrix with some of [depth, cols] each into
// blocks that are each the work of one task. Bits do not depend on the cut, so
// it follows the number of threads.
template <typename T>
class PanelBlocks {
 public:
  // The rows of a task at most: the left operand stays in the second-level
  // cache.
  static constexpr std::int64_t kMostRows = 32 * kMaxTileRows;

  PanelBlocks(std::int64_t rows, std::int64_t depth, std::int64_t cols,
              std::int64_t num_products, int num_threads)
      : blocks_(rows, cols, kLeastRows, kMostRows,
                PanelsPerTask(rows, depth, cols, num_products, num_threads) *
                    kTileCols<T>,
                num_threads),
        num_products_(num_products) {}

  std::int64_t size() const { return num_products_ * blocks_.size(); }
  std::int64_t product(std::int64_t task) const {
    return task / blocks_.size();
  }
  PanelBlock block(std::int64_t task) const {
    const std::int64_t i = task % blocks_.size();
    return {blocks_.row(i), blocks_.rows(i), blocks_.col(i), blocks_.cols(i)};
  }

 private:
  // Each task packs the weights of its columns, whatever its rows.
  static constexpr std::int64_t kLeastRows = 4 * kMaxTileRows;

  static std::int64_t PanelsPerTask(std::int64_t rows, std::int64_t depth,
                                    std::int64_t cols,
                                    std::int64_t num_products,
                                    int num_threads) {
    // A task is worth the hand-over to another thread; there are enough that
    // threads which are slower take fewer.
    constexpr double kLeastWork = 1 << 17;
    constexpr std::int64_t kTasksPerThread = 2;
    constexpr std::int64_t kRowsWorthReading = 3;  // of weights
    const double panel_work = static_cast<double>(rows + kRowsWorthReading) *
                              static_cast<double>(depth * kTileCols<T>);
    const std::int64_t for_work =
        static_cast<std::int64_t>(kLeastWork / panel_work) + 1;
    const std::int64_t panels = num_products * CeilDiv(cols, kTileCols<T>);
    const std::int64_t for_balance = panels / (kTasksPerThread * num_threads);
    return Max(Max(for_work, for_balance), MostWidth(rows));
  }

  Blocks blocks_;
  std::int64_t num_products_;
};

// Scratch memory of the workers.
template <typename T>
class PanelScratch {
 public:
  PanelScratch(std::int64_t rows, int num_threads, Arena& arena)
      : product_size_(Min(rows, PanelBlocks<T>::kMostRows) * kWeightCols<T>),
        packed_(arena.Take<T>(CheckedInt(num_threads) * kPackedChunkSize<T>)),
        products_(arena.Take<T>(CheckedInt(num_threads) * product_size_)) {}

  // [kPackedChunkSize]
  T* Packed(int worker) const { return packed_ + worker * kPackedChunkSize<T>; }
  // A part of a product, [rows, cols rounded up to whole panels].
  MatrixView<T> Product(const PanelBlock& part, int worker) const {
    return {products_ + worker * product_size_, part.rows,
            CeilDiv(part.cols, kTileCols<T>) * kTileCols<T>};
  }

 private:
  std::int64_t product_size_;
  T* packed_;
  T* products_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_PANEL_BLOCKS_H_
