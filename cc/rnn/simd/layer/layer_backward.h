// One layer of a network over a sequence, backward.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_forward.h"
#include "cc/rnn/simd/layer/layer_states.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/layer/step_gradients.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer, K = kept blocks.
// P: the type of the params and of products' operands.
template <typename P>
struct LayerBackwardArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer;
  const P* params;  // of the whole network
  const T* input;   // [T, B, F]
  LayerStateArrays<T> states;
  const T* d_output;  // [T, B, D * O]
  T* d_input;         // [T, B, F], or null if not wanted
  // On entry the gradients of the final states, on return those of the initial
  // ones.
  T* d_h;       // [D, B, O]
  T* d_c;       // [D, B, U]; LSTM only
  T* d_params;  // of the whole network: this layer's part is written; null if
                // not wanted
};

// The steps whose gradients of the gates are kept, until the gradients of the
// weights and of the input have been made from them: enough for large products,
// and few enough to stay in a cache.
inline std::int64_t BackwardStepsAtOnce(const RnnSize& size) {
  constexpr std::int64_t kRows = 512;
  return Min(size.time, Max(kRows / Max(size.batch, 1), 1));
}

// Scratch memory, enough for any layer of the network.
template <typename P>
struct LayerBackwardScratch {
  using T = ComputeType<P>;

  GateWeightsScratch<P> weights;
  StepGradientsScratch<P> steps;
  T* products;  // [num_threads, B, GroupSize, kTileCols]

  LayerBackwardScratch(const RnnConfig& config, const RnnSize& size,
                       bool wants_params, int num_threads, Arena& arena)
      : weights(config, arena),
        steps(config, CheckedInt(BackwardStepsAtOnce(size)) * size.batch,
              wants_params, arena),
        products(arena.Take<T>(CheckedInt(num_threads) * size.batch *
                               GroupSize<T>(size.batch, 1) * kTileCols<T>)) {}
};

template <typename P, typename Cell>
class LayerBackward {
 public:
  using T = ComputeType<P>;

  LayerBackward(const LayerBackwardArguments<P>& arguments,
                const LayerBackwardScratch<P>& scratch, Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        weights_(a_.config, a_.layer, a_.params, scratch_.weights),
        states_(a_.config, a_.size, a_.lengths, a_.states),
        steps_(a_.config, a_.size, a_.layer, BackwardStepsAtOnce(a_.size),
               /*times=*/1, a_.d_params, scratch_.steps, executor),
        time_(a_.size.time),
        batch_(a_.size.batch),
        units_(a_.config.num_units),
        output_size_(a_.config.output_size()),
        directions_(a_.config.num_directions),
        fan_in_(a_.config.fan_in(a_.layer)),
        skips_input_(a_.layer == 0 && a_.config.skip_input),
        is_projected_(a_.config.num_proj > 0),
        group_size_(GroupSize<T>(batch_, 1)),
        tasks_(directions_, batch_, sizeof(P), a_.lengths,
               executor.num_threads(),
               {CeilDiv(output_size_, kTileCols<T>),
                kTileCols<T> * Cell::kGates * units_},
               {is_projected_ ? CeilDiv(units_, kTileCols<T>) : 0,
                kTileCols<T> * output_size_}) {}

  void Run() const {
    weights_.Pack(a_.d_input != nullptr, executor_);
    steps_.Clear();
    // Both directions add to it, each in an order of its own.
    if (directions_ > 1 && a_.d_input != nullptr) {
      FillZero(a_.d_input, time_ * batch_ * fan_in_, executor_);
    }
    steps_.ForEachChunk([&](const StepChunk& chunk) {
      RunSteps(chunk);
      for (std::int64_t d = 0; d < directions_; ++d) Gradients(d, chunk);
    });
    steps_.StoreBiasGradients();
  }

 private:
  using Left = MutableLeftMatrix<P>;

  // [B, O] at time t of a direction.
  MatrixView<const T> OutputGradient(std::int64_t direction,
                                     std::int64_t t) const {
    const std::int64_t width = directions_ * output_size_;
    return {a_.d_output + t * batch_ * width + direction * output_size_, batch_,
            output_size_, width};
  }
  // [B, columns] of a direction, of an array [D, B, columns].
  template <typename S>
  MatrixView<S> OfDirection(S* array, std::int64_t direction,
                            std::int64_t columns) const {
    return {array + direction * batch_ * columns, batch_, columns};
  }

  // Leaves the gradients of the states that the chunk's last step began with.
  void RunSteps(const StepChunk& chunk) const {
    if (chunk.steps == 0) return;
    const auto step_state = [&](std::int64_t step, const StepTask& task,
                                int worker) {
      StepState(chunk, step, task, worker);
    };
    if (!is_projected_) {
      tasks_.Run(chunk.steps + 1, executor_, step_state);
      return;
    }
    tasks_.RunHalves(2 * chunk.steps + 1, executor_, step_state,
                     [&](std::int64_t step, const StepTask& task, int worker) {
                       StepProjection(chunk, step, task, worker);
                     });
  }

  // A worker's scratch memory for a product of a task's rows.
  MatrixView<T> Product(const StepTask& task, std::int64_t num_panels,
                        int worker) const {
    const std::int64_t most = group_size_ * kTileCols<T>;
    return {scratch_.products + worker * batch_ * most, task.rows,
            num_panels * kTileCols<T>};
  }

  // Past their end, sequences have gradients of zero, whatever the weights are.
  void ClearRowsPastTheEnd(std::int64_t t, const StepTask& task,
                           const MatrixView<T>& product) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      if (a_.lengths.IsValid(t, task.row + i)) continue;
      CopyInitial(NoMatrix<T>(), product.Rows(i, 1));
    }
  }

  // The gradient of the hidden state: through R h_prev of the step after, in
  // other ways, and from the output. Then the cell's, unless there is a
  // projection in between. The chunk's steps are followed by one that only
  // goes through R h_prev.
  void StepState(const StepChunk& chunk, std::int64_t step,
                 const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const MatrixView<T> d_state = OfDirection(a_.d_h, d, output_size_);
    // What the step after has gradients of, and when that is.
    const std::int64_t after = steps_.Time(d, chunk.first_step + step - 1);
    const std::int64_t rows =
        step == 0 ? 0 : a_.lengths.ValidSamples(after, task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product = Product(task, num_panels, worker);
      if (step > 0) {
        const std::int64_t row = steps_.FirstRow(d, chunk, step - 1) + task.row;
        const auto factors = [&](std::int64_t first_panel, std::int64_t cols) {
          ProductSum<P> sum;
          for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
            sum.Add(steps_.Block(d, Cell::kFirstRecurrent + gate, chunk)
                        .Rows(row, rows),
                    weights_.Recurrent(d, gate).Cols(first_panel * kTileCols<T>,
                                                     cols));
          }
          return sum;
        };
        Multiply(
            factors(panel, product.cols), NoMatrix<T>(), product.Rows(0, rows),
            factors(task.PanelAfter(panel + num_panels - 1), kTileCols<T>));
        ClearRowsPastTheEnd(after, task, product);
      }
      task.ForEachVector<T>(
          panel, num_panels, output_size_, [&](auto unit, auto units) {
            const ColumnView<T> through =
                step > 0 ? product.Column(unit - panel * kTileCols<T>)
                         : ColumnView<T>{};
            if (step == chunk.steps) {
              AddColumn(task, through, d_state.Column(unit), units);
            } else if (is_projected_) {
              StoreProjected(chunk, step, task, through, unit, units);
            } else {
              BackwardColumns columns = CellColumns(chunk, step, d, unit);
              columns.through = through;
              columns.d_state = d_state.Column(unit);
              columns.d_output = OutputGradient(d, columns.t).Column(unit);
              RunCells(task, columns, units);
            }
          });
    });
  }

  // to += from, for the rows of a task. `from` has these alone.
  template <typename Units>
  static void AddColumn(const StepTask& task, const ColumnView<T>& from,
                        const ColumnView<T>& to, const Units& units) {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      T* const sum = to.At(task.row + i);
      units.Write(units.Read(sum) + units.Read(from.At(i)), sum);
    }
  }

  // Past a sequence's end, what comes through the state stays there. Otherwise
  // it and the output's gradient go through the projection.
  template <typename Units>
  void StoreProjected(const StepChunk& chunk, std::int64_t step,
                      const StepTask& task, const ColumnView<T>& through,
                      std::int64_t unit, const Units& units) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = steps_.Time(d, chunk.first_step + step);
    const std::int64_t first_row = steps_.FirstRow(d, chunk, step);
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      T* const d_state = OfDirection(a_.d_h, d, output_size_).At(row, unit);
      P* const d_projected =
          steps_.Projected(d, chunk).At(first_row + row, unit);
      Vector<T> d_h = units.Read(d_state);
      if (through.data != nullptr) d_h += units.Read(through.At(i));
      Vector<T> stays = d_h, goes = Vector<T>{};
      if (a_.lengths.IsValid(t, row)) {
        stays = Vector<T>{};
        goes = d_h + units.Read(OutputGradient(d, t).At(row, unit));
      }
      units.Write(stays, d_state);
      units.Write(goes, d_projected);
    }
  }

  // The cell's gradient, through h = P (o ∘ tanh(c)).
  void StepProjection(const StepChunk& chunk, std::int64_t step,
                      const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t first_row = steps_.FirstRow(d, chunk, step);
    const std::int64_t rows = a_.lengths.ValidSamples(
        steps_.Time(d, chunk.first_step + step), task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product = Product(task, num_panels, worker);
      Multiply(
          ProductSum<P>(
              steps_.Projected(d, chunk).Rows(first_row + task.row, rows),
              weights_.Projection(d).Cols(panel * kTileCols<T>, product.cols)),
          NoMatrix<T>(), product.Rows(0, rows));
      task.ForEachVector<T>(
          panel, num_panels, units_, [&](auto unit, auto units) {
            BackwardColumns columns = CellColumns(chunk, step, d, unit);
            columns.through = product.Column(unit - panel * kTileCols<T>);
            RunCells(task, columns, units);
          });
    });
  }

  // The units of a vector, in each row of a step.
  struct BackwardColumns {
    std::int64_t t;
    std::int64_t previous_time;
    typename LayerStates<T>::Columns states;
    ColumnView<T> d_c;
    ColumnView<P> d_blocks;
    std::int64_t d_blocks_stride;
    ColumnView<T> cell_output;
    // What the gradient of the step's result is the sum of; any may be null.
    ColumnView<T> through;  // from the task's first row on
    ColumnView<T> d_state;
    ColumnView<const T> d_output;
  };

  TF_RNN_OPS_VECTOR_INLINE BackwardColumns
  CellColumns(const StepChunk& chunk, std::int64_t step, std::int64_t d,
              std::int64_t unit) const {
    const std::int64_t first_row = steps_.FirstRow(d, chunk, step);
    BackwardColumns columns{};
    columns.t = steps_.Time(d, chunk.first_step + step);
    columns.previous_time = states_.PreviousTime(d, columns.t);
    columns.states = states_.template At<Cell>(d, columns.t, unit);
    columns.d_blocks =
        steps_.Block(d, 0, chunk).Rows(first_row, batch_).Column(unit);
    columns.d_blocks_stride = steps_.BlockStride();
    if constexpr (Cell::kGates == 4) {
      columns.d_c = OfDirection(a_.d_c, d, units_).Column(unit);
      if (is_projected_) {
        columns.cell_output =
            steps_.CellOutputs(d, chunk).Rows(first_row, batch_).Column(unit);
      }
    }
    return columns;
  }

  // Inlined, as of few rows a call would take as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task,
                                         const BackwardColumns columns,
                                         const Units units) const {
    const SequenceLengths lengths = a_.lengths;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!lengths.IsValid(columns.t, row)) {
        SkipCell(columns, row, i, units);
        continue;
      }
      const T* const previous = columns.states.Previous(
          lengths.IsValid(columns.previous_time, row), row);
      Vector<T> d_h{};
      if (columns.d_state.data != nullptr) {
        d_h = units.Read(columns.d_state.At(row)) +
              units.Read(columns.d_output.At(row));
      }
      if (columns.through.data != nullptr) {
        d_h += units.Read(columns.through.At(i));
      }
      const BackwardRun<P, Units> run{
          units,
          columns.states.kept.At(row),
          columns.states.kept_stride,
          previous,
          previous,
          columns.states.h.At(row),
          d_h,
          columns.d_c.At(row),
          columns.d_blocks.At(row),
          columns.d_blocks_stride,
          columns.cell_output.data == nullptr ? nullptr
                                              : columns.cell_output.At(row),
      };
      const Vector<T> stays = Cell::Backward(run);
      if (columns.d_state.data != nullptr) {
        units.Write(stays, columns.d_state.At(row));
      }
    }
  }

  // Past a sequence's end, what comes through the state stays there.
  template <typename Units>
  void SkipCell(const BackwardColumns& columns, std::int64_t row,
                std::int64_t i, const Units& units) const {
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      units.Write(Vector<T>{},
                  columns.d_blocks.At(row) + block * columns.d_blocks_stride);
    }
    if (columns.cell_output.data != nullptr) {
      units.Write(Vector<T>{}, columns.cell_output.At(row));
    }
    if (columns.d_state.data != nullptr && columns.through.data != nullptr) {
      T* const d_state = columns.d_state.At(row);
      units.Write(units.Read(d_state) + units.Read(columns.through.At(i)),
                  d_state);
    }
  }

  // The gradients of everything but the states, of which each chunk adds a
  // part.
  void Gradients(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = steps_.Rows(chunk);
    const PreviousHiddenRows<T> h_prev{
        states_, d, steps_.FirstTime(d, chunk), batch_, rows, output_size_};
    const MatrixView<const T> x = steps_.RowsOf(a_.input, d, chunk);
    const auto weights = steps_.MakeWeightGradients(
        d, chunk, h_prev, x.Rows(0, skips_input_ ? 0 : rows));
    if (skips_input_ && a_.d_input != nullptr) {
      RunTogether(
          executor_, weights.matrices, weights.biases,
          steps_.SumOfGatesWork(d, chunk, steps_.RowsOf(a_.d_input, d, chunk)));
    } else {
      RunTogether(executor_, MakeInputGradients(d, chunk), weights.matrices,
                  weights.biases);
    }
  }

  // dx = (d blocks) W, if it is wanted.
  MultiplyWork<P> MakeInputGradients(std::int64_t d,
                                     const StepChunk& chunk) const {
    const int num_threads = executor_.num_threads();
    if (a_.d_input == nullptr) {
      const MatrixView<T> none(nullptr, 0, 0);
      return {ProductSum<P>(), NoMatrix<T>(), none, num_threads};
    }
    ProductSum<P> sum;
    for (std::int64_t block = 0; block < Cell::kGates; ++block) {
      sum.Add(steps_.Block(d, block, chunk),
              weights_.Input(d, steps_.InputGate(block)));
    }
    const MatrixView<T> d_input = steps_.RowsOf(a_.d_input, d, chunk);
    return {sum, directions_ > 1 ? Constant(d_input) : NoMatrix<T>(), d_input,
            num_threads};
  }

  const LayerBackwardArguments<P> a_;
  const LayerBackwardScratch<P> scratch_;
  Executor& executor_;
  const GateWeights<P, Cell> weights_;
  const LayerStates<T> states_;
  const StepGradients<P, Cell> steps_;
  const std::int64_t time_;
  const std::int64_t batch_;
  const std::int64_t units_;
  const std::int64_t output_size_;
  const std::int64_t directions_;
  const std::int64_t fan_in_;
  const bool skips_input_;
  const bool is_projected_;
  const std::int64_t group_size_;
  const StepTasks tasks_;  // the hidden state's columns, the projected units
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_
