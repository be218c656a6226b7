// The tangent of the forward pass of one layer: the tangent sweep of
// docs/design/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/forward_steps.h"
#include "cc/rnn/simd/layer/kept_activations.h"
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

// Sizes: see cc/rnn/network.h; F = fan_in of the layer. dot_q: tangent of q.
// P: the type of params and product operands.
template <typename P>
struct LayerTangentArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer = 0;
  Weights<const P> weights;      // of the whole network
  Weights<const P> dot_weights;  // likewise, or none for zeros
  const T* input = nullptr;      // [S, B, F]; only if there are dot_weights
  const T* dot_input = nullptr;  // [S, B, F], or null for zeros
  LayerStateArrays<T> states;
  T* dot_output = nullptr;  // [S, B, D * O]
  // On entry the tangents of the initial states; on return those of the final
  // ones.
  T* dot_h = nullptr;  // [D, B, O]
  T* dot_c = nullptr;  // [D, B, U]; LSTM only
  KeptActivations<T> dot_kept;
};

// Scratch memory for any layer of the network.
// R = StepsAtOnce * B.
template <typename P>
struct LayerTangentScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;

  PanelWeightsMemory<PlainProducts<P>> weights;
  PanelWeightsMemory<PlainProducts<P>> dot_weights;  // if there are dot_params
  T* input_bias;      // [D, panels of U, G * kTileCols]
  T* recurrent_bias;  // likewise
  P* dot_input;       // a left operand [R, F]
  P* input;           // a left operand [R, F], if there are dot_params
  P* h_prev;          // a left operand [R, O], if there are dot_params
  T* projected;       // [D, R, panels of U, G * kTileCols]
  T* recurrent;       // likewise, if there are dot_params
  ForwardStepsScratch<P> steps;

  LayerTangentScratch(const RnnConfig& config, const RnnSize& size,
                      bool has_dot_params, int num_threads, Arena& arena)
      : weights(config, config.largest_fan_in(), arena),
        steps(config, size, /*parts=*/2, num_threads, arena) {
    if (has_dot_params) {
      dot_weights = PanelWeightsMemory<PlainProducts<P>>(
          config, config.largest_fan_in(), arena);
    }
    const CheckedInt directions = config.num_directions;
    const std::int64_t panel_cols = PanelCols<T>(config);
    const CheckedInt rows = CheckedInt(StepsAtOnce(size)) * size.batch;
    const CheckedInt dot_rows = has_dot_params ? rows : CheckedInt(0);
    const std::int64_t fan_in = config.largest_fan_in();
    input_bias = arena.Take<T>(directions * panel_cols);
    recurrent_bias = arena.Take<T>(directions * panel_cols);
    dot_input = arena.Take<P>(Left::Size(rows, fan_in));
    input = arena.Take<P>(Left::Size(dot_rows, fan_in));
    h_prev = arena.Take<P>(Left::Size(dot_rows, config.output_size()));
    projected = arena.Take<T>(directions * panel_cols * rows);
    recurrent = arena.Take<T>(directions * panel_cols * dot_rows);
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
        dot_params_(a_.config, shape_, a_.dot_weights),
        weights_(a_.config, shape_, a_.weights, scratch_.weights),
        dot_weights_(a_.config, shape_, a_.dot_weights, scratch_.dot_weights),
        states_(shape_, a_.lengths, a_.states),
        has_dot_params_(a_.dot_weights.any()),
        steps_(shape_, sweep_, a_.lengths, kPanelCols * shape_.output_size,
               scratch_.steps, executor) {}

  void Run() const {
    if (shape_.time == 0) return;
    weights_.Pack(executor_);
    if (has_dot_params_) dot_weights_.Pack(executor_);
    PackBiases();
    steps_.ClearStates();
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      Pack(OfDirection(a_.dot_h, d), steps_.State(0, d));
    }
    sweep_.ForEachChunk(executor_, [&](const StepChunk& chunk) {
      for (std::int64_t d = 0; d < shape_.directions; ++d)
        PrepareInput(d, chunk);
      RunSteps(chunk);
    });
  }

 private:
  using Left = MutableLeftMatrix<P>;

  static constexpr std::int64_t kPanelCols = ForwardSteps<P, Cell>::kPanelCols;
  // The parts of a projection's input: tangent and value.
  static constexpr std::int64_t kTangentPart = 0;
  static constexpr std::int64_t kValuePart = 1;

  // Whether the sums have a tangent other than that of R h_prev.
  bool has_projected() const {
    return has_dot_params_ || a_.dot_input != nullptr;
  }

  // [B, O] of an array [D, B, O].
  MatrixView<T> OfDirection(T* array, std::int64_t direction) const {
    return shape_.OfDirection(array, direction, shape_.output_size);
  }
  // The columns of a direction's output at time t, starting at `unit`.
  ColumnView<T> OutputColumn(std::int64_t direction, std::int64_t t,
                             std::int64_t unit) const {
    return shape_.OutputAt(a_.dot_output, direction, t).Column(unit);
  }
  MatrixView<T> InputBias(std::int64_t direction) const {
    return steps_.SharedRow(scratch_.input_bias, direction);
  }
  MatrixView<T> RecurrentBias(std::int64_t direction) const {
    return steps_.SharedRow(scratch_.recurrent_bias, direction);
  }
  void PackBiases() const {
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      const MatrixView<T> sums = InputBias(d);
      if (!has_dot_params_) {
        std::fill_n(sums.data, sums.cols, T(0));
        continue;
      }
      const auto input = dot_params_.InputBiases(d);
      const auto recurrent = dot_params_.RecurrentBiases(d);
      FillPanels<Cell>(
          shape_.units,
          [&](std::int64_t block, std::int64_t unit) {
            return ElementOr0(input[InputGate<Cell>(block)], unit);
          },
          sums.data);
      FillPanels<Cell>(
          shape_.units,
          [&](std::int64_t gate, std::int64_t unit) {
            return ElementOr0(recurrent[gate], unit);
          },
          RecurrentBias(d).data);
    }
  }

  MatrixView<const T> InputRows(const T* array, std::int64_t direction,
                                const StepChunk& chunk) const {
    return sweep_.RowsOf(array, shape_.fan_in, direction, chunk);
  }

  // For each step: ẋ Wᵀ + x Ẇᵀ + ḃW, and h_prev Ṙᵀ + ḃR.
  void PrepareInput(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = sweep_.Rows(chunk);
    const MatrixView<T> projected = steps_.Rows(scratch_.projected, d, chunk);
    if (has_dot_params_) PrepareRecurrent(d, chunk);
    if (shape_.skips_input) {
      if (has_projected()) {
        steps_.AddInput(InputBias(d),
                        a_.dot_input == nullptr
                            ? NoMatrix<T>()
                            : InputRows(a_.dot_input, d, chunk),
                        projected);
      }
      return;
    }
    ProductSum<P> sum;
    if (a_.dot_input != nullptr) {
      const Left dot_x(scratch_.dot_input, rows, shape_.fan_in);
      RunTogether(executor_,
                  PackWork(InputRows(a_.dot_input, d, chunk), dot_x));
      sum.Add(dot_x, weights_.Input(d, 0, steps_.panels()));
    }
    if (has_dot_params_) {
      const Left x(scratch_.input, rows, shape_.fan_in);
      RunTogether(executor_, PackWork(InputRows(a_.input, d, chunk), x));
      sum.Add(x, dot_weights_.Input(d, 0, steps_.panels()));
    }
    if (has_projected()) {
      RunTogether(executor_, MultiplyWork(sum, Constant(InputBias(d)),
                                          projected, executor_.num_threads()));
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
    RunTogether(executor_,
                MultiplyWork(ProductSum<P>(h_prev, dot_weights_.Recurrent(
                                                       d, 0, steps_.panels())),
                             Constant(RecurrentBias(d)),
                             steps_.Rows(scratch_.recurrent, d, chunk),
                             executor_.num_threads()));
  }

  void RunSteps(const StepChunk& chunk) const {
    steps_.Run(
        chunk,
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepCell(chunk, i, task, worker);
        },
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepProjection(chunk.first_step + i, task, worker);
        });
  }

  // Step i of the chunk.
  void StepCell(const StepChunk& chunk, std::int64_t i, const StepTask& task,
                int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t step = chunk.first_step + i;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t row = sweep_.FirstRow(d, chunk, i) + task.row;
    // Samples that have ended are not multiplied.
    const std::int64_t rows = a_.lengths.ValidSamples(t, task.row, task.rows);
    task.ForEachPanelGroup(steps_.group_size(), [&](auto panel,
                                                    auto num_panels) {
      const MatrixView<T> product =
          steps_.Product(rows, num_panels * kPanelCols, worker);
      const LeftMatrix<P> state = steps_.State(step, d).Rows(task.row, rows);
      const std::int64_t next = task.PanelAfter(panel + num_panels - 1);
      const MatrixView<const T> recurrent =
          has_dot_params_ ? Constant(steps_.Rows(scratch_.recurrent, d, chunk)
                                         .Block(row, panel * kPanelCols, rows,
                                                product.cols))
                          : NoMatrix<T>();
      Multiply(ProductSum<P>(state, weights_.Recurrent(d, panel, num_panels)),
               recurrent, product,
               ProductSum<P>(state, weights_.Recurrent(d, next, 1)));
      task.ForEachVector<T>(
          panel, num_panels, shape_.units, [&](auto unit, auto units) {
            TangentColumns columns = Columns(step, d, t, unit);
            if (has_projected()) {
              columns.projected =
                  Constant(steps_.Rows(scratch_.projected, d, chunk)
                               .Rows(row, task.rows))
                      .Column(steps_.Col(unit));
            }
            columns.product =
                Constant(product).Column(steps_.Col(unit) - panel * kPanelCols);
            WithActivations<T, Cell>(
                a_.config.activations,
                [&](auto activations) TF_RNN_OPS_LAMBDA_INLINE {
                  RunCells(task, t, columns, units, activations);
                });
          });
    });
  }

  // The units of a vector, for each sample.
  struct TangentColumns {
    typename LayerStates<T>::Columns states;
    std::int64_t previous_time;
    ColumnView<const T> projected;  // row 0: first row of task, or null
    ColumnView<const T> product;    // row 0: first row of task
    ColumnView<T> dot_c;
    ColumnView<T> dot_kept;
    ColumnView<P> cell_output;
    // The tangent of the hidden state or, with a projection, of the input of
    // the projection.
    ColumnView<P> result;
    ColumnView<T> dot_h;  // only without a projection, like the next two
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
      columns.result = steps_.CellOutput(kTangentPart, d).Column(unit);
      if (has_dot_params_)
        columns.cell_output = steps_.CellOutput(kValuePart, d).Column(unit);
    } else {
      columns.result = steps_.State(step + 1, d).Column(unit);
      columns.dot_h = OfDirection(a_.dot_h, d).Column(unit);
      columns.output = OutputColumn(d, t, unit);
    }
    return columns;
  }

  // Inlined because for few rows a call takes as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <typename Units, typename Activations>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task, std::int64_t t,
                                         const TangentColumns columns,
                                         const Units units,
                                         const Activations activations) const {
    const SequenceLengths lengths = a_.lengths;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!lengths.IsValid(t, row)) {
        SkipCell(columns, row, units);
        continue;
      }
      const T* const previous = columns.states.Previous(
          lengths.IsValid(columns.previous_time, row), row);
      TangentRun<T, Units, Activations, Cell::kFirstRecurrent> run{};
      run.units = units;
      run.activations = activations;
      run.states = {units, columns.states.are_pairs};
      run.kept = columns.states.kept.At(row);
      run.kept_stride = columns.states.kept_stride;
      run.h_prev = previous;
      run.c_prev = previous;
      run.h = columns.states.h.At(row);
      if (columns.projected.data != nullptr) {
        run.projected = columns.projected.At(i);
      }
      run.product = columns.product.At(i);
      run.dot_h_prev = columns.dot_h.At(row);
      run.dot_c = columns.dot_c.At(row);
      run.dot_kept = columns.dot_kept.At(row);
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

  // After the end of a sequence, the state does not change.
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
    steps_.Project(
        t, task, worker,
        [&](std::int64_t rows, std::int64_t col, const MatrixView<T>& product) {
          ProductSum<P> sum(
              steps_.CellOutput(kTangentPart, d).Rows(task.row, rows),
              weights_.Projection(d).Cols(col, product.cols));
          if (has_dot_params_) {
            sum.Add(steps_.CellOutput(kValuePart, d).Rows(task.row, rows),
                    dot_weights_.Projection(d).Cols(col, product.cols));
          }
          Multiply(sum, NoMatrix<T>(), product);
        },
        [&](std::int64_t row, std::int64_t unit, const auto& units,
            const T* dot_h) {
          StoreProjected(step, d, t, row, unit, units, dot_h);
        });
  }

  template <typename Units>
  void StoreProjected(std::int64_t step, std::int64_t d, std::int64_t t,
                      std::int64_t row, std::int64_t unit, const Units& units,
                      const T* dot_h) const {
    T* const state = OfDirection(a_.dot_h, d).At(row, unit);
    const bool is_valid = a_.lengths.IsValid(t, row);
    const Vector<T> next = units.Read(is_valid ? dot_h : state);
    units.Write(next, steps_.State(step + 1, d).At(row, unit));
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
  const PanelWeights<PlainProducts<P>, Cell> weights_;
  const PanelWeights<PlainProducts<P>, Cell> dot_weights_;
  const LayerStates<T> states_;
  const bool has_dot_params_;
  const ForwardSteps<P, Cell> steps_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
