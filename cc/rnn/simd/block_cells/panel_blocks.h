// Splits a step of a cell whose weights are used once into tasks, and prepares
// the inputs of its products.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_PANEL_BLOCKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_PANEL_BLOCKS_H_

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Scratch memory for x, [B, I], and h_prev, [B, C], as left operands. A single
// row is one already.
template <typename T>
class StepInputs {
 public:
  StepInputs(const BlockCellSize& size, Arena& arena)
      : size_(size),
        x_(Take(size.input_size, arena)),
        h_prev_(Take(size.cell_size, arena)) {}

  LeftMatrix<T> X(const T* x) const {
    return {is_packed() ? x_ : x, size_.batch, size_.input_size};
  }
  LeftMatrix<T> HPrev(const T* h_prev) const {
    return {is_packed() ? h_prev_ : h_prev, size_.batch, size_.cell_size};
  }
  // Call before the operands are read.
  void Pack(const T* x, const T* h_prev, Executor& executor) const {
    if (!is_packed()) return;
    const auto work = [this](const T* from, T* to, std::int64_t cols) {
      return PackWork(MatrixView<const T>(from, size_.batch, cols),
                      MutableLeftMatrix<T>(to, size_.batch, cols));
    };
    RunTogether(executor, work(x, x_, size_.input_size),
                work(h_prev, h_prev_, size_.cell_size));
  }

 private:
  bool is_packed() const { return size_.batch > 1; }
  T* Take(std::int64_t cols, Arena& arena) const {
    const CheckedInt rows = is_packed() ? size_.batch : 0;
    return arena.Take<T>(LeftMatrix<T>::Size(rows, cols));
  }

  BlockCellSize size_;
  T* x_;
  T* h_prev_;
};

// The cost of reading weights, in rows that are multiplied by them.
constexpr std::int64_t kRowsWorthReading = 3;

// A block of rows and columns of a product.
struct PanelBlock {
  std::int64_t row;
  std::int64_t rows;
  std::int64_t col;  // first column of a panel
  std::int64_t cols;

  // Calls body(part) for parts with as many columns as are multiplied at once.
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

// Splits products of a [rows, depth] matrix with several [depth, cols] matrices
// into blocks, one for each task. The bits of the results do not depend on the
// split, so it may depend on the number of threads.
template <typename T>
class PanelBlocks {
 public:
  // The maximum rows of a task. The left operand stays in the second-level
  // cache.
  static constexpr std::int64_t kMostRows = 32 * kMaxTileRows;

  PanelBlocks(std::int64_t rows, std::int64_t depth, std::int64_t cols,
              std::int64_t num_products, int num_threads)
      : rows_(rows),
        cols_(cols),
        num_products_(num_products),
        block_cols_(kTileCols<T> * PanelsPerBlock(rows, depth, num_threads)),
        row_groups_(RowGroups(depth, num_threads)) {}

  std::int64_t size() const {
    return num_products_ * blocks_across() * row_groups_;
  }
  std::int64_t product(std::int64_t task) const {
    return task / row_groups_ / blocks_across();
  }
  PanelBlock block(std::int64_t task) const {
    const std::int64_t group = task % row_groups_;
    const std::int64_t row = group * rows_ / row_groups_;
    const std::int64_t col = task / row_groups_ % blocks_across() * block_cols_;
    return {row, (group + 1) * rows_ / row_groups_ - row, col,
            Min(block_cols_, cols_ - col)};
  }

 private:
  // More tasks than threads, so that slower threads run fewer of them.
  static constexpr std::int64_t kTasksPerThread = 4;

  std::int64_t blocks_across() const { return CeilDiv(cols_, block_cols_); }

  std::int64_t PanelsPerBlock(std::int64_t rows, std::int64_t depth,
                              int num_threads) const {
    // A task must take longer than its transfer to another thread.
    constexpr double kLeastWork = 1 << 17;
    const double panel_work = static_cast<double>(rows + kRowsWorthReading) *
                              static_cast<double>(depth * kTileCols<T>);
    const std::int64_t for_work =
        static_cast<std::int64_t>(kLeastWork / panel_work) + 1;
    const std::int64_t panels = num_products_ * CeilDiv(cols_, kTileCols<T>);
    const std::int64_t for_balance = panels / (kTasksPerThread * num_threads);
    const std::int64_t most =
        static_cast<std::int64_t>(kMostTaskWork<T> / panel_work);
    return Max(Max(for_work, Min(for_balance, most)), MostWidth(rows));
  }

  // Normally all rows form one group, because each group packs a block's
  // weights again. More groups are used if threads would be idle or tasks too
  // long.
  std::int64_t RowGroups(std::int64_t depth, int num_threads) const {
    constexpr std::int64_t kLeastRows = 4 * kMaxTileRows;
    const std::int64_t for_balance =
        CeilDiv(num_threads, Max(num_products_ * blocks_across(), 1));
    const std::int64_t for_length = LeastTasks<T>(
        static_cast<double>(rows_) * static_cast<double>(block_cols_ * depth));
    return Max(CeilDiv(rows_, kMostRows),
               Min(Max(for_balance, for_length), rows_ / kLeastRows));
  }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t num_products_;
  std::int64_t block_cols_;
  std::int64_t row_groups_;
};

// Scratch memory of the workers.
template <typename T>
class PanelScratch {
 public:
  // products: those that a worker has at once.
  PanelScratch(std::int64_t rows, int num_threads, Arena& arena,
               int products = 1)
      : products_of_worker_(products),
        product_size_(Min(rows, PanelBlocks<T>::kMostRows) * kWeightCols<T>),
        packed_size_(PackedChunkSize<T>(rows)),
        packed_(arena.Take<T>(CheckedInt(num_threads) * packed_size_)),
        products_(
            arena.Take<T>(CheckedInt(num_threads) * products * product_size_)) {
  }

  // [PackedChunkSize(rows)]
  T* Packed(int worker) const { return packed_ + worker * packed_size_; }
  // A part of a product, [rows, cols rounded up to whole panels].
  MatrixView<T> Product(const PanelBlock& part, int worker,
                        int index = 0) const {
    return {products_ + (worker * products_of_worker_ + index) * product_size_,
            part.rows, CeilDiv(part.cols, kTileCols<T>) * kTileCols<T>};
  }

 private:
  std::int64_t products_of_worker_;
  std::int64_t product_size_;
  std::int64_t packed_size_;
  T* packed_;
  T* products_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_PANEL_BLOCKS_H_
