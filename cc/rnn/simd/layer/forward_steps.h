// Shared by the forward pass of a layer and its tangent: panels of
// pre-activation sums, states and the projection.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of steps whose input is prepared at once; it must fit in a cache.
inline std::int64_t StepsAtOnce(const RnnSize& size) {
  constexpr std::int64_t kRows = 256;
  return Min(size.time, Max(kRows / Max(size.batch, 1), 1));
}

// Scratch memory for any layer of the network.
template <typename P>
struct ForwardStepsScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;

  P* states;        // [2, D] left operands [B, O]
  P* cell_outputs;  // [parts, D] left operands [B, U], with a projection
  T* products;      // [num_threads, ProductSize]
  std::int64_t parts;

  // parts: the number of matrices that a projection multiplies.
  ForwardStepsScratch(const RnnConfig& config, const RnnSize& size,
                      std::int64_t parts, int num_threads, Arena& arena)
      : parts(parts) {
    const CheckedInt batch = size.batch;
    const CheckedInt directions = config.num_directions;
    states =
        arena.Take<P>(directions * 2 * Left::Size(batch, config.output_size()));
    cell_outputs =
        arena.Take<P>(directions * parts *
                      Left::Size(config.num_proj > 0 ? batch : CheckedInt(0),
                                 config.num_units));
    products = arena.Take<T>(num_threads * ProductSize(size.batch));
  }

  // The size of a worker's product, for any cell.
  static CheckedInt ProductSize(std::int64_t batch) {
    return CheckedInt(batch) * GroupSize<T>(batch, 1) * MaxBlocks() *
           kTileCols<T>;
  }
};

// The panels of a row (packed_weights.h) are contiguous.
template <typename P, typename Cell>
class ForwardSteps {
 public:
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;

  static constexpr std::int64_t kPanelCols = Cell::kGates * kTileCols<T>;

  // panel_weights: the number of weights for the units of a panel in each step.
  ForwardSteps(const LayerShape& shape, const Sweep& sweep,
               const SequenceLengths& lengths, std::int64_t panel_weights,
               const ForwardStepsScratch<P>& scratch, Executor& executor)
      : shape_(shape),
        sweep_(sweep),
        lengths_(lengths),
        scratch_(scratch),
        executor_(executor),
        group_size_(GroupSize<T>(shape.batch, Cell::kBlocks)),
        panels_(CeilDiv(shape.units, kTileCols<T>)),
        tasks_(
            shape.directions, shape.batch, sizeof(P), lengths,
            executor.num_threads(), {panels_, panel_weights},
            {shape.is_projected ? CeilDiv(shape.output_size, kTileCols<T>) : 0,
             kTileCols<T> * shape.units}) {}

  std::int64_t panels() const { return panels_; }  // of units
  // Number of panels that a task multiplies at once.
  std::int64_t group_size() const { return group_size_; }

  // The hidden state of a direction before `step`, [B, O].
  Left State(std::int64_t step, std::int64_t direction) const {
    const std::int64_t index = step % 2 * shape_.directions + direction;
    return {scratch_.states +
                index * SizeOf<Left>(shape_.batch, shape_.output_size),
            shape_.batch, shape_.output_size};
  }
  // The input of a projection, [B, U].
  Left CellOutput(std::int64_t part, std::int64_t direction) const {
    return {
        scratch_.cell_outputs + (part * shape_.directions + direction) *
                                    SizeOf<Left>(shape_.batch, shape_.units),
        shape_.batch, shape_.units};
  }
  // Clears the padding of the states. If operands are rounded, products read
  // this padding, which must be finite. It is never written again.
  void ClearStates() const {
    if constexpr (kRoundsOperands<P>) {
      FillZero(scratch_.states,
               2 * shape_.directions *
                   SizeOf<Left>(shape_.batch, shape_.output_size),
               executor_);
      FillZero(scratch_.cell_outputs,
               shape_.is_projected
                   ? scratch_.parts * shape_.directions *
                         SizeOf<Left>(shape_.batch, shape_.units)
                   : 0,
               executor_);
    }
  }

  // A row of panels that all rows share, from an array [D, PanelCols].
  MatrixView<T> SharedRow(T* array, std::int64_t direction) const {
    const std::int64_t cols = panels_ * kPanelCols;
    return {array + direction * cols, 1, cols, 0};
  }
  // The panels of a chunk's steps, in order of time, from an array [D,
  // StepsAtOnce * B, PanelCols].
  MatrixView<T> Rows(T* array, std::int64_t direction,
                     const StepChunk& chunk) const {
    const std::int64_t cols = panels_ * kPanelCols;
    return {array + direction * sweep_.steps_at_once() * shape_.batch * cols,
            sweep_.Rows(chunk), cols};
  }
  // The column of a unit in the first block of its panel.
  static std::int64_t Col(std::int64_t unit) {
    return unit / kTileCols<T> * kPanelCols + unit % kTileCols<T>;
  }

  // sums = bias + x, for each gate.
  // bias: a shared row; x: [rows, U], or null for zeros; sums: panels with the
  // same rows
  template <typename E>
  void AddInput(const MatrixView<T>& bias, const MatrixView<const E>& x,
                const MatrixView<T>& sums) const {
    executor_.ParallelFor(sums.rows, [&](std::int64_t row) {
      std::copy_n(bias.data, sums.cols, sums.At(row, 0));
      if (x.data == nullptr) return;
      for (std::int64_t unit = 0; unit < shape_.units; ++unit) {
        T* const to = sums.At(row, Col(unit));
        for (std::int64_t block = 0; block < Cell::kGates; ++block) {
          to[block * kTileCols<T>] += Widened(*x.At(row, unit));
        }
      }
    });
  }

  // Runs cell(i, task, worker) and project(i, task, worker) for each task of
  // step i of the chunk.
  template <typename Cells, typename Projection>
  void Run(const StepChunk& chunk, const Cells& cells,
           const Projection& project) const {
    tasks_.Run(chunk.steps, /*ends_with_first=*/false, executor_, cells,
               project);
  }

  // A worker's scratch memory for a product.
  MatrixView<T> Product(std::int64_t rows, std::int64_t cols,
                        int worker) const {
    return {
        scratch_.products +
            worker * ForwardStepsScratch<P>::ProductSize(shape_.batch).value(),
        rows, cols};
  }

  // Projects the outputs of a task's cells with multiply(rows, col, product),
  // which computes some columns, and passes the results to store(row, unit,
  // units, h).
  template <typename Multiply, typename Store>
  void Project(std::int64_t t, const StepTask& task, int worker,
               const Multiply& multiply, const Store& store) const {
    // Samples that have ended are not multiplied.
    const std::int64_t rows = lengths_.ValidSamples(t, task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const std::int64_t first = panel * kTileCols<T>;
      const MatrixView<T> product =
          Product(rows, num_panels * kTileCols<T>, worker);
      multiply(rows, first, product);
      task.ForEachVector<T>(
          panel, num_panels, shape_.output_size, [&](auto unit, auto units) {
            const ColumnView<T> h = product.Column(unit - first);
            for (std::int64_t i = 0; i < task.rows; ++i) {
              store(task.row + i, unit, units, h.At(i));
            }
          });
    });
  }

 private:
  const LayerShape shape_;
  const Sweep sweep_;
  const SequenceLengths lengths_;
  const ForwardStepsScratch<P> scratch_;
  Executor& executor_;
  const std::int64_t group_size_;
  const std::int64_t panels_;
  const StepTasks tasks_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_
