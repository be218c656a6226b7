// The tangent of one layer's forward pass: the tangent sweep of
// docs/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_forward.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/layer_states.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer. dot_q: tangent of q.
// P: the type of the params and of products' operands.
template <typename P>
struct LayerTangentArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer;
  const P* params;      // of the whole network
  const P* dot_params;  // likewise, or null for zeros
  const T* input;       // [S, B, F]; read only if there are dot_params
  const T* dot_input;   // [S, B, F], or null for zeros
  LayerStateArrays<T> states;
  T* dot_output;  // [S, B, D * O]
  // On entry those of the initial states, on return those of the final ones.
  T* dot_h;  // [D, B, O]
  T* dot_c;  // [D, B, U]; LSTM only
  KeptActivations<T> dot_kept;
};

// Scratch memory, enough for any layer of the network. R = StepsAtOnce * B.
template <typename P>
struct LayerTangentScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;

  PanelWeightsScratch<P> weights;
  PanelWeightsScratch<P> dot_weights;  // if there are dot_params
  T* input_bias;                       // [D, panels of U, G * kTileCols]
  T* recurrent_bias;                   // likewise
  P* dot_input;                        // a left operand [R, F]
  P* input;         // a left operand [R, F], if there are dot_params
  P* h_prev;        // a left operand [R, O], if there are dot_params
  T* projected;     // [D, R, panels of U, G * kTileCols]
  T* recurrent;     // likewise, if there are dot_params
  P* states;        // [2, D] left operands [B, O]
  P* cell_outputs;  // [2, D] left operands [B, U], with a projection
  T* products;      // [num_threads, LayerForwardScratch::ProductSize]

  LayerTangentScratch(const RnnConfig& config, const RnnSize& size,
                      bool has_dot_params, int num_threads, Arena& arena)
      : weights(config, arena) {
    if (has_dot_params) dot_weights = PanelWeightsScratch<P>(config, arena);
    const CheckedInt directions = config.num_directions;
    const std::int64_t panel_cols = config.num_gates() *
                                    CeilDiv(config.num_units, kTileCols<T>) *
                                    kTileCols<T>;
    const CheckedInt rows = CheckedInt(StepsAtOnce(size)) * size.batch;
    const CheckedInt dot_rows = has_dot_params ? rows : CheckedInt(0);
    const std::int64_t fan_in = config.largest_fan_in();
    const std::int64_t output_size = config.output_size();
    input_bias = arena.Take<T>(directions * panel_cols);
    recurrent_bias = arena.Take<T>(directions * panel_cols);
    dot_input = arena.Take<P>(Left::Size(rows, fan_in));
    input = arena.Take<P>(Left::Size(dot_rows, fan_in));
    h_prev = arena.Take<P>(Left::Size(dot_rows, output_size));
    projected = arena.Take<T>(directions * panel_cols * rows);
    recurrent = arena.Take<T>(directions * panel_cols * dot_rows);
    states = arena.Take<P>(directions * 2 *
                           Left::Size(CheckedInt(size.batch), output_size));
    cell_outputs = arena.Take<P>(
        directions * 2 *
        Left::Size(CheckedInt(config.num_proj > 0 ? size.batch : 0),
                   config.num_units));
    products = arena.Take<T>(CheckedInt(num_threads) *
                             LayerForwardScratch<P>::ProductSize(size.batch));
  }
};

template <typename P, typename Cell>
class LayerTangent {
 public:
  using T = ComputeType<P>;

  LayerTangent(const LayerTangentArguments<P>& arguments,
               const LayerTangentScratch<P>& scratch, Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        shape_(a_.config, a_.size, a_.layer),
        sweep_(shape_, Sweep::kForward, StepsAtOnce(a_.size)),
        dot_params_(a_.config, shape_, a_.dot_params),
        weights_(a_.config, shape_, a_.params, scratch_.weights),
        dot_weights_(a_.config, shape_, a_.dot_params, scratch_.dot_weights),
        states_(shape_, a_.lengths, a_.states),
        has_dot_params_(a_.dot_params != nullptr),
        group_size_(GroupSize<T>(shape_.batch, Cell::kBlocks)),
        panels_(CeilDiv(shape_.units, kTileCols<T>)),
        tasks_(shape_.directions, shape_.batch, sizeof(P), a_.lengths,
               executor.num_threads(),
               {panels_, kPanelBlocks * shape_.output_size},
               {shape_.is_projected ? CeilDiv(shape_.output_size, kTileCols<T>)
                                    : 0,
                kTileCols<T> * shape_.units}) {}

  void Run() const {
    if (shape_.time == 0) return;
    weights_.Pack(executor_);
    if (has_dot_params_) dot_weights_.Pack(executor_);
    PackBiases();
    PackStates();
    sweep_.ForEachChunk([&](const StepChunk& chunk) {
      for (std::int64_t d = 0; d < shape_.directions; ++d)
        PrepareInput(d, chunk);
      RunSteps(chunk);
    });
  }

 private:
  using Left = MutableLeftMatrix<P>;

  static constexpr std::int64_t kPanelBlocks = Cell::kGates * kTileCols<T>;

  // Whether anything but R h_prev changes.
  bool has_projected() const {
    return has_dot_params_ || a_.dot_input != nullptr;
  }

  // [B, O] of an array [D, B, O].
  MatrixView<T> OfDirection(T* array, std::int64_t direction) const {
    return shape_.OfDirection(array, direction, shape_.output_size);
  }
  // The tangent of a direction's hidden state before `step`, [B, O].
  Left State(std::int64_t step, std::int64_t direction) const {
    const std::int64_t index = step % 2 * shape_.directions + direction;
    return {scratch_.states +
                index * SizeOf<Left>(shape_.batch, shape_.output_size),
            shape_.batch, shape_.output_size};
  }
  // What a projection takes, [B, U]: its tangent (0) and its value (1).
  Left CellOutput(std::int64_t index, std::int64_t direction) const {
    return {
        scratch_.cell_outputs + (index * shape_.directions + direction) *
                                    SizeOf<Left>(shape_.batch, shape_.units),
        shape_.batch, shape_.units};
  }
  // The columns of a direction's output at time t, from unit `unit` on.
  ColumnView<T> OutputColumn(std::int64_t direction, std::int64_t t,
                             std::int64_t unit) const {
    return shape_.OutputAt(a_.dot_output, direction, t).Column(unit);
  }
  // One row for all, [panels * G * kTileCols].
  MatrixView<T> Bias(T* array, std::int64_t direction) const {
    const std::int64_t cols = panels_ * kPanelBlocks;
    return {array + direction * cols, 1, cols, 0};
  }

  // bias: [G * U], null for zeros. first_gate: of the first block.
  void PackBias(const P* bias, std::int64_t first_gate,
                const MatrixView<T>& to) const {
    for (std::int64_t i = 0; i < to.cols; ++i) {
      const std::int64_t unit =
          i / kPanelBlocks * kTileCols<T> + i % kTileCols<T>;
      const std::int64_t gate =
          (i % kPanelBlocks / kTileCols<T> + first_gate) % Cell::kGates;
      *to.At(0, i) = bias != nullptr && unit < shape_.units
                         ? Widened(bias[gate * shape_.units + unit])
                         : T(0);
    }
  }
  void PackBiases() const {
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      PackBias(has_dot_params_ ? dot_params_.InputBias(d) : nullptr,
               Cell::kFirstInputGate, Bias(scratch_.input_bias, d));
      PackBias(has_dot_params_ ? dot_params_.RecurrentBias(d) : nullptr, 0,
               Bias(scratch_.recurrent_bias, d));
    }
  }

  void PackStates() const {
    // What products read beyond the units must be a number.
    if constexpr (kRoundsOperands<P>) {
      FillZero(scratch_.states,
               2 * shape_.directions *
                   SizeOf<Left>(shape_.batch, shape_.output_size),
               executor_);
      FillZero(
          scratch_.cell_outputs,
          shape_.is_projected
              ? 2 * shape_.directions * SizeOf<Left>(shape_.batch, shape_.units)
              : 0,
          executor_);
    }
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      Pack(OfDirection(a_.dot_h, d), State(0, d));
    }
  }

  // The rows of a chunk's steps, in the order of time, of an array
  // [D, R, panels * G * kTileCols].
  MatrixView<T> OfChunk(T* array, std::int64_t direction,
                        const StepChunk& chunk) const {
    const std::int64_t cols = panels_ * kPanelBlocks;
    return {array + direction * sweep_.steps_at_once() * shape_.batch * cols,
            sweep_.Rows(chunk), cols};
  }

  MatrixView<const T> InputRows(const T* array, std::int64_t direction,
                                const StepChunk& chunk) const {
    return sweep_.RowsOf(array, shape_.fan_in, direction, chunk);
  }

  // For each step, ẋ Wᵀ + x Ẇᵀ + ḃW, and h_prev Ṙᵀ + ḃR.
  void PrepareInput(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = sweep_.Rows(chunk);
    const MatrixView<T> projected = OfChunk(scratch_.projected, d, chunk);
    const MatrixView<const T> bias = Constant(Bias(scratch_.input_bias, d));
    const int num_threads = executor_.num_threads();
    if (has_dot_params_) PrepareRecurrent(d, chunk);
    if (shape_.skips_input) {
      if (has_projected()) AddInput(d, chunk, projected);
      return;
    }
    ProductSum<P> sum;
    if (a_.dot_input != nullptr) {
      const Left dot_x(scratch_.dot_input, rows, shape_.fan_in);
      RunTogether(executor_,
                  PackWork(InputRows(a_.dot_input, d, chunk), dot_x));
      sum.Add(dot_x, weights_.Input(d, 0, panels_));
    }
    if (has_dot_params_) {
      const Left x(scratch_.input, rows, shape_.fan_in);
      RunTogether(executor_, PackWork(InputRows(a_.input, d, chunk), x));
      sum.Add(x, dot_weights_.Input(d, 0, panels_));
    }
    if (has_projected()) {
      RunTogether(executor_, MultiplyWork(sum, bias, projected, num_threads));
    }
  }

  void PrepareRecurrent(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = sweep_.Rows(chunk);
    const Left h_prev(scratch_.h_prev, rows, shape_.output_size);
    RunTogether(
        executor_,
        PackWork(PreviousHiddenRows<T>{states_, d, sweep_.FirstTime(d, chunk),
                                       shape_.batch, rows, shape_.output_size},
                 h_prev));
    RunTogether(
        executor_,
        MultiplyWork(
            ProductSum<P>(h_prev, dot_weights_.Recurrent(d, 0, panels_)),
            Constant(Bias(scratch_.recurrent_bias, d)),
            OfChunk(scratch_.recurrent, d, chunk), executor_.num_threads()));
  }

  // projected = ḃW + ẋ, for each gate.
  void AddInput(std::int64_t d, const StepChunk& chunk,
                const MatrixView<T>& projected) const {
    const T* const bias = Bias(scratch_.input_bias, d).data;
    executor_.ParallelFor(projected.rows, [&](std::int64_t row) {
      std::copy_n(bias, projected.cols, projected.At(row, 0));
      if (a_.dot_input == nullptr) return;
      const T* const dot_x = InputRows(a_.dot_input, d, chunk).Row(row);
      for (std::int64_t unit = 0; unit < shape_.units; ++unit) {
        T* const to = projected.At(
            row, unit / kTileCols<T> * kPanelBlocks + unit % kTileCols<T>);
        for (std::int64_t block = 0; block < Cell::kGates; ++block) {
          to[block * kTileCols<T>] += dot_x[unit];
        }
      }
    });
  }

  void RunSteps(const StepChunk& chunk) const {
    tasks_.Run(
        chunk.steps, /*ends_with_first=*/false, executor_,
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepCell(chunk, i, task, worker);
        },
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepProjection(chunk.first_step + i, task, worker);
        });
  }

  // A worker's scratch memory for a product of some rows.
  MatrixView<T> Product(std::int64_t rows, std::int64_t cols,
                        int worker) const {
    return {
        scratch_.products +
            worker * LayerForwardScratch<P>::ProductSize(shape_.batch).value(),
        rows, cols};
  }

  // The chunk's i-th step.
  void StepCell(const StepChunk& chunk, std::int64_t i, const StepTask& task,
                int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t step = chunk.first_step + i;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t row = sweep_.FirstRow(d, chunk, i) + task.row;
    // What is past a sequence's end is not multiplied.
    const std::int64_t rows = a_.lengths.ValidSamples(t, task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product =
          Product(rows, num_panels * kPanelBlocks, worker);
      const LeftMatrix<P> state = State(step, d).Rows(task.row, rows);
      const std::int64_t next = task.PanelAfter(panel + num_panels - 1);
      const MatrixView<const T> recurrent =
          has_dot_params_ ? Constant(OfChunk(scratch_.recurrent, d, chunk)
                                         .Block(row, panel * kPanelBlocks, rows,
                                                product.cols))
                          : NoMatrix<T>();
      Multiply(ProductSum<P>(state, weights_.Recurrent(d, panel, num_panels)),
               recurrent, product,
               ProductSum<P>(state, weights_.Recurrent(d, next, 1)));
      task.ForEachVector<T>(
          panel, num_panels, shape_.units, [&](auto unit, auto units) {
            const std::int64_t in_panel = unit % kTileCols<T>;
            const std::int64_t unit_panel = unit / kTileCols<T>;
            TangentColumns columns = Columns(step, d, t, unit);
            if (has_projected()) {
              columns.projected =
                  Constant(OfChunk(scratch_.projected, d, chunk)
                               .Rows(row, task.rows))
                      .Column(unit_panel * kPanelBlocks + in_panel);
            }
            columns.product = Constant(product).Column(
                (unit_panel - panel) * kPanelBlocks + in_panel);
            RunCells(task, t, columns, units);
          });
    });
  }

  // The units of a vector, in each sample.
  struct TangentColumns {
    typename LayerStates<T>::Columns states;
    std::int64_t previous_time;
    ColumnView<const T> projected;  // from the task's first row on, or null
    ColumnView<const T> product;    // from the task's first row on
    ColumnView<T> dot_c;
    ColumnView<T> dot_kept;
    ColumnView<P> cell_output;
    // The tangent of the hidden state or, with a projection, of what that
    // takes.
    ColumnView<P> result;
    ColumnView<T> dot_h;  // without a projection, as the next two
    ColumnView<T> output;
  };

  TF_RNN_OPS_VECTOR_INLINE TangentColumns Columns(std::int64_t step,
                                                  std::int64_t d,
                                                  std::int64_t t,
                                                  std::int64_t unit) const {
    TangentColumns columns{};
    columns.states = states_.template At<Cell>(d, t, unit);
    columns.previous_time = states_.PreviousTime(d, t);
    columns.dot_kept = a_.dot_kept.Column(d, t, unit);
    if constexpr (Cell::kHasCellState) {
      columns.dot_c =
          shape_.OfDirection(a_.dot_c, d, shape_.units).Column(unit);
    }
    if (shape_.is_projected) {
      columns.result = CellOutput(0, d).Column(unit);
      if (has_dot_params_) columns.cell_output = CellOutput(1, d).Column(unit);
    } else {
      columns.result = State(step + 1, d).Column(unit);
      columns.dot_h = OfDirection(a_.dot_h, d).Column(unit);
      columns.output = OutputColumn(d, t, unit);
    }
    return columns;
  }

  // Inlined, as of few rows a call would take as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task, std::int64_t t,
                                         const TangentColumns columns,
                                         const Units units) const {
    const SequenceLengths lengths = a_.lengths;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!lengths.IsValid(t, row)) {
        SkipCell(columns, row, units);
        continue;
      }
      const T* const previous = columns.states.Previous(
          lengths.IsValid(columns.previous_time, row), row);
      const TangentRun<T, Units, Cell::kFirstRecurrent> run{
          units,
          columns.states.kept.At(row),
          columns.states.kept_stride,
          previous,
          previous,
          columns.states.h.At(row),
          columns.projected.data == nullptr ? nullptr : columns.projected.At(i),
          columns.product.At(i),
          columns.dot_h.At(row),
          columns.dot_c.At(row),
          columns.dot_kept.At(row),
      };
      const Dual<T> result = Cell::Forward(run);
      units.Write(result.tangent, columns.result.At(row));
      if (columns.cell_output.data != nullptr) {
        units.Write(result.value, columns.cell_output.At(row));
      }
      if (columns.dot_h.data == nullptr) continue;
      units.Write(result.tangent, columns.dot_h.At(row));
      units.Write(result.tangent, columns.output.At(row));
    }
  }

  // Past a sequence's end, the state is unchanged.
  template <typename Units>
  void SkipCell(const TangentColumns& columns, std::int64_t row,
                const Units& units) const {
    if (columns.dot_h.data == nullptr) {
      units.Write(Vector<T>{}, columns.result.At(row));
      if (columns.cell_output.data != nullptr) {
        units.Write(Vector<T>{}, columns.cell_output.At(row));
      }
    } else {
      units.Write(units.Read(columns.dot_h.At(row)), columns.result.At(row));
      units.Write(Vector<T>{}, columns.output.At(row));
    }
  }

  // ḣ = ṁ Pᵀ + m Ṗᵀ
  void StepProjection(std::int64_t step, const StepTask& task,
                      int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t rows = a_.lengths.ValidSamples(t, task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const std::int64_t col = panel * kTileCols<T>;
      const MatrixView<T> product =
          Product(rows, num_panels * kTileCols<T>, worker);
      ProductSum<P> sum(CellOutput(0, d).Rows(task.row, rows),
                        weights_.Projection(d).Cols(col, product.cols));
      if (has_dot_params_) {
        sum.Add(CellOutput(1, d).Rows(task.row, rows),
                dot_weights_.Projection(d).Cols(col, product.cols));
      }
      Multiply(sum, NoMatrix<T>(), product);
      task.ForEachVector<T>(
          panel, num_panels, shape_.output_size, [&](auto unit, auto units) {
            const ColumnView<T> dot_h = product.Column(unit - col);
            for (std::int64_t i = 0; i < task.rows; ++i) {
              StoreProjected(step, d, t, task.row + i, unit, units,
                             dot_h.At(i));
            }
          });
    });
  }

  template <typename Units>
  void StoreProjected(std::int64_t step, std::int64_t d, std::int64_t t,
                      std::int64_t row, std::int64_t unit, const Units& units,
                      const T* dot_h) const {
    T* const state = OfDirection(a_.dot_h, d).At(row, unit);
    const bool is_valid = a_.lengths.IsValid(t, row);
    const Vector<T> next = units.Read(is_valid ? dot_h : state);
    units.Write(next, State(step + 1, d).At(row, unit));
    units.Write(next, state);
    units.Write(is_valid ? next : Vector<T>{},
                OutputColumn(d, t, unit).At(row));
  }

  const LayerTangentArguments<P> a_;
  const LayerTangentScratch<P> scratch_;
  Executor& executor_;
  const LayerShape shape_;
  const Sweep sweep_;
  const LayerParams<const P> dot_params_;
  const PanelWeights<P, Cell> weights_;
  const PanelWeights<P, Cell> dot_weights_;
  const LayerStates<T> states_;
  const bool has_dot_params_;
  const std::int64_t group_size_;
  const std::int64_t panels_;  // of units
  const StepTasks tasks_;      // cells, and the projection
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
