// Shared by the forward pass of a layer and its tangent: panels of
// pre-activation sums, states and the second half of a step.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/gate_masks.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The halves of a step, if it has two.
enum class StepHalf { kFirst, kSecond };

template <StepHalf half, typename Cell, typename Run>
TF_RNN_OPS_VECTOR_INLINE auto ForwardHalf(const Run& run) {
  if constexpr (half == StepHalf::kFirst) {
    return Cell::Forward(run);
  } else {
    return Cell::Finish(run);
  }
}

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

  P* states;  // [state copies, 2, D] left operands [B, O]
  // [parts, D] left operands [B, U], if steps have second halves
  P* cell_outputs;
  T* products;  // [num_threads, ProductSize]
  std::int64_t parts;

  // parts: the number of matrices that a second half multiplies.
  ForwardStepsScratch(const RnnConfig& config, const RnnSize& size,
                      std::int64_t parts, int num_threads, Arena& arena)
      : parts(parts) {
    const CheckedInt batch = size.batch;
    const CheckedInt directions = config.num_directions;
    states = arena.Take<P>(directions * 2 * config.num_state_copies() *
                           Left::Size(batch, config.output_size()));
    cell_outputs = arena.Take<P>(
        directions * parts *
        Left::Size(config.has_second_half() ? batch : CheckedInt(0),
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
  // The columns of a panel in the matrices that multiply h_prev.
  static constexpr std::int64_t kRecurrentCols =
      Cell::kRecurrentGates * kTileCols<T>;

  // panel_weights: the number of weights for the units of a panel in each step.
  ForwardSteps(const LayerShape& shape, const Sweep& sweep,
               const SequenceLengths& lengths, const GateMasks<T>& masks,
               std::int64_t panel_weights,
               const ForwardStepsScratch<P>& scratch, Executor& executor)
      : shape_(shape),
        sweep_(sweep),
        lengths_(lengths),
        masks_(masks),
        scratch_(scratch),
        executor_(executor),
        group_size_(GroupSize<T>(shape.batch, Cell::kBlocks)),
        panels_(CeilDiv(shape.units, kTileCols<T>)),
        tasks_(shape.directions, shape.batch, sizeof(P), lengths,
               executor.num_threads(), {panels_, panel_weights},
               {shape.has_second_half ? CeilDiv(shape.output_size, kTileCols<T>)
                                      : 0,
                kTileCols<T> * shape.units}) {}

  std::int64_t panels() const { return panels_; }  // of units
  // Number of panels that a task multiplies at once.
  std::int64_t group_size() const { return group_size_; }

  // The hidden state of a direction before `step`, [B, O]; with dropout, times
  // the mask of a gate.
  Left State(std::int64_t step, std::int64_t direction,
             std::int64_t gate = 0) const {
    const std::int64_t index =
        (gate * 2 + step % 2) * shape_.directions + direction;
    return {scratch_.states +
                index * SizeOf<Left>(shape_.batch, shape_.output_size),
            shape_.batch, shape_.output_size};
  }
  // Where to write units of this state.
  TF_RNN_OPS_VECTOR_INLINE MaskedColumns<P> StateColumns(
      std::int64_t step, std::int64_t direction, std::int64_t unit) const {
    MaskedColumns<P> columns{};
    columns.to = State(step, direction).Column(unit);
    if (masks_.any()) {
      // After the last step, nothing reads the state.
      const std::int64_t t = sweep_.Time(direction, Min(step, shape_.time - 1));
      columns.copies = Cell::kRecurrentGates;
      columns.copy_stride = 2 * shape_.directions *
                            SizeOf<Left>(shape_.batch, shape_.output_size);
      columns.masks = masks_.At(0, t).Column(unit);
      columns.mask_stride = masks_.GateStride();
    }
    return columns;
  }
  // state: [B, O], before the first step
  void SetInitialState(std::int64_t direction,
                       const MatrixView<const T>& state) const {
    StepTask::ForEachVector<T>(
        0, CeilDiv(state.cols, kTileCols<T>), state.cols,
        [&](auto unit, auto units) {
          const MaskedColumns<P> columns = StateColumns(0, direction, unit);
          for (std::int64_t row = 0; row < state.rows; ++row) {
            columns.Write(row, units, units.Read(state.At(row, unit)));
          }
        });
  }
  // What the second half of a step multiplies, [B, U].
  Left CellOutput(std::int64_t part, std::int64_t direction) const {
    return {
        scratch_.cell_outputs + (part * shape_.directions + direction) *
                                    SizeOf<Left>(shape_.batch, shape_.units),
        shape_.batch, shape_.units};
  }
  // Where to write units of it at time t.
  TF_RNN_OPS_VECTOR_INLINE MaskedColumns<P> CellOutputColumns(
      std::int64_t part, std::int64_t direction, std::int64_t t,
      std::int64_t unit) const {
    MaskedColumns<P> columns{};
    columns.to = CellOutput(part, direction).Column(unit);
    if constexpr (kHasFinish<Cell>) {
      if (masks_.any()) {
        columns.copies = 1;
        columns.masks = masks_.At(Cell::kGates - 1, t).Column(unit);
      }
    }
    return columns;
  }
  // Clears the padding of the states. If operands are rounded, products read
  // this padding, which must be finite. It is never written again.
  void ClearStates() const {
    if constexpr (kRoundsOperands<P>) {
      FillZero(scratch_.states,
               shape_.state_copies * 2 * shape_.directions *
                   SizeOf<Left>(shape_.batch, shape_.output_size),
               executor_);
      FillZero(scratch_.cell_outputs,
               shape_.has_second_half
                   ? scratch_.parts * shape_.directions *
                         SizeOf<Left>(shape_.batch, shape_.units)
                   : 0,
               executor_);
    }
  }

  // A row of panels that all rows share, from an array [D, panels, panel_cols].
  MatrixView<T> SharedRow(T* array, std::int64_t direction,
                          std::int64_t panel_cols = kPanelCols) const {
    const std::int64_t cols = panels_ * panel_cols;
    return {array + direction * cols, 1, cols, 0};
  }
  // The panels of a chunk's steps, in order of time, from an array [D,
  // StepsAtOnce * B, panels, panel_cols].
  MatrixView<T> Rows(T* array, std::int64_t direction, const StepChunk& chunk,
                     std::int64_t panel_cols = kPanelCols) const {
    const std::int64_t cols = panels_ * panel_cols;
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

  // Runs first(i, task, worker) and, if steps have second halves, second(i,
  // task, worker) for each task of step i of the chunk.
  template <typename First, typename Second>
  void Run(const StepChunk& chunk, const First& first,
           const Second& second) const {
    tasks_.Run(chunk.steps, /*ends_with_first=*/false, executor_, first,
               second);
  }

  // A worker's scratch memory for a product.
  MatrixView<T> Product(std::int64_t rows, std::int64_t cols,
                        int worker) const {
    return {
        scratch_.products +
            worker * ForwardStepsScratch<P>::ProductSize(shape_.batch).value(),
        rows, cols};
  }

  // product = initial + h_prev R, for the first rows of a task and some panels.
  // weights: has Recurrent(direction, panel, num_panels)
  template <typename Weights>
  void MultiplyState(const Weights& weights, std::int64_t step,
                     const StepTask& task, std::int64_t panel,
                     std::int64_t num_panels,
                     const MatrixView<const T>& initial,
                     const MatrixView<T>& product) const {
    const std::int64_t d = task.direction;
    const auto state = [&](std::int64_t gate) -> LeftMatrix<P> {
      return State(step, d, gate).Rows(task.row, product.rows);
    };
    const auto recurrent = weights.Recurrent(d, panel, num_panels);
    if (!masks_.any()) {
      const std::int64_t next = task.PanelAfter(panel + num_panels - 1);
      Multiply(ProductSum<P>(state(0), recurrent), initial, product,
               ProductSum<P>(state(0), weights.Recurrent(d, next, 1)));
      return;
    }
    constexpr std::int64_t kCols = kTileCols<T>;
    for (std::int64_t i = 0; i < num_panels * Cell::kRecurrentGates; ++i) {
      const ProductSum<P> sum(state(i % Cell::kRecurrentGates),
                              recurrent.Cols(i * kCols, kCols));
      Multiply(sum, BlockIfAny(initial, 0, i * kCols, product.rows, kCols),
               product.Cols(i * kCols, kCols));
    }
  }

  // out = bias + the sum of left R over the factors, for all panels, where the
  // left operand of a factor has a copy for each gate.
  // factors: (first copy, all panels of a matrix), where the copy may be null;
  // gate_of(block): of a block in a panel; bias: a shared row
  template <typename Factors, typename GateOf>
  void MultiplyCopies(const Factors& factors, const GateOf& gate_of,
                      const MatrixView<T>& bias,
                      const MatrixView<T>& out) const {
    constexpr std::int64_t kCols = kTileCols<T>;
    const std::int64_t blocks = out.cols / kCols / panels_;
    executor_.ParallelFor(panels_ * blocks, [&](std::int64_t i) {
      ProductSum<P> sum;
      for (const auto& [left, right] : factors) {
        if (left.data == nullptr) continue;
        sum.Add(NthCopy(left, gate_of(i % blocks)),
                right.Cols(i * kCols, kCols));
      }
      Multiply(sum, Constant(bias).Block(0, i * kCols, 1, kCols),
               out.Cols(i * kCols, kCols));
    });
  }

  // Multiplies the outputs of a task's cells with multiply(rows, col, product),
  // which computes some columns, and passes the results to store(unit, units,
  // column), where row 0 is the first row of the task.
  template <typename Multiply, typename Store>
  void RunSecondHalf(std::int64_t t, const StepTask& task, int worker,
                     const Multiply& multiply, const Store& store) const {
    // Samples that have ended are not multiplied.
    const std::int64_t rows = lengths_.ValidSamples(t, task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const std::int64_t first = panel * kTileCols<T>;
      const MatrixView<T> product =
          Product(rows, num_panels * kTileCols<T>, worker);
      multiply(rows, first, product);
      task.ForEachVector<T>(panel, num_panels, shape_.output_size,
                            [&](auto unit, auto units) {
                              store(unit, units, product.Column(unit - first));
                            });
    });
  }

 private:
  const LayerShape shape_;
  const Sweep sweep_;
  const SequenceLengths lengths_;
  const GateMasks<T> masks_;
  const ForwardStepsScratch<P> scratch_;
  Executor& executor_;
  const std::int64_t group_size_;
  const std::int64_t panels_;
  const StepTasks tasks_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_STEPS_H_
