// The tangent of the forward pass of one layer: the tangent sweep of
// docs/design/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/cells/chosen_activation.h"
#include "cc/rnn/simd/layer/forward_steps.h"
#include "cc/rnn/simd/layer/gate_masks.h"
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
  const T* input_masks = nullptr;  // see GateMasks
  const T* state_masks = nullptr;
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
  T* recurrent_bias;  // likewise, of the gates that multiply h_prev
  P* dot_input;       // [input copies] left operands [R, F]
  P* input;           // likewise, if there are dot_params
  // [state copies] left operands [R, O], if there are dot_params
  P* h_prev;
  T* projected;  // [D, R, panels of U, G * kTileCols]
  // Likewise, of the gates that multiply h_prev, if there are dot_params.
  T* recurrent;
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
    const std::int64_t recurrent_cols = RecurrentPanelCols<T>(config);
    const CheckedInt rows = CheckedInt(StepsAtOnce(size)) * size.batch;
    const CheckedInt dot_rows = has_dot_params ? rows : CheckedInt(0);
    const std::int64_t fan_in = config.largest_fan_in();
    input_bias = arena.Take<T>(directions * panel_cols);
    recurrent_bias = arena.Take<T>(directions * recurrent_cols);
    const std::int64_t copies = config.num_input_copies();
    dot_input = arena.Take<P>(copies * Left::Size(rows, fan_in));
    input = arena.Take<P>(copies * Left::Size(dot_rows, fan_in));
    h_prev = arena.Take<P>(config.num_state_copies() *
                           Left::Size(dot_rows, config.output_size()));
    projected = arena.Take<T>(directions * panel_cols * rows);
    recurrent = arena.Take<T>(directions * recurrent_cols * dot_rows);
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
        input_masks_(GateMasks<T>::OfInput(a_.config, shape_, a_.input_masks)),
        state_masks_(GateMasks<T>::OfState(a_.config, shape_, a_.state_masks)),
        steps_(shape_, sweep_, a_.lengths, state_masks_,
               kRecurrentCols * shape_.output_size, scratch_.steps, executor) {}

  void Run() const {
    if (shape_.time == 0) return;
    weights_.Pack(executor_);
    if (has_dot_params_) dot_weights_.Pack(executor_);
    PackBiases();
    steps_.ClearStates();
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      steps_.SetInitialState(d, Constant(OfDirection(a_.dot_h, d)));
    }
    sweep_.ForEachChunk(executor_, [&](const StepChunk& chunk) {
      for (std::int64_t d = 0; d < shape_.directions; ++d)
        PrepareInput(d, chunk);
      RunSteps(chunk);
    });
  }

 private:
  using Left = MutableLeftMatrix<P>;
  // A left operand, or the first of its copies, and all panels of a matrix.
  using Factor = std::pair<Left, MutableRightMatrix<P>>;

  static constexpr std::int64_t kPanelCols = ForwardSteps<P, Cell>::kPanelCols;
  static constexpr std::int64_t kRecurrentCols =
      ForwardSteps<P, Cell>::kRecurrentCols;
  // The parts of what the second half of a step multiplies: tangent and value.
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
    return steps_.SharedRow(scratch_.input_bias, direction, kPanelCols);
  }
  MatrixView<T> RecurrentBias(std::int64_t direction) const {
    return steps_.SharedRow(scratch_.recurrent_bias, direction, kRecurrentCols);
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
      FillPanels<Cell::kGates>(
          shape_.units,
          [&](std::int64_t block, std::int64_t unit) {
            return ElementOr0(input[InputGate<Cell>(block)], unit);
          },
          sums.data);
      FillPanels<Cell::kRecurrentGates>(
          shape_.units,
          [&](std::int64_t gate, std::int64_t unit) {
            return ElementOr0(recurrent[gate], unit);
          },
          RecurrentBias(d).data);
    }
  }

  // Tangents of W x plus biases, and R h_prev plus biases, of the steps.
  MatrixView<T> Projected(std::int64_t d, const StepChunk& chunk) const {
    return steps_.Rows(scratch_.projected, d, chunk, kPanelCols);
  }
  MatrixView<T> Recurrent(std::int64_t d, const StepChunk& chunk) const {
    return steps_.Rows(scratch_.recurrent, d, chunk, kRecurrentCols);
  }

  MatrixView<const T> InputRows(const T* array, std::int64_t direction,
                                const StepChunk& chunk) const {
    return sweep_.RowsOf(array, shape_.fan_in, direction, chunk);
  }

  // For each step: ẋ Wᵀ + x Ẇᵀ + ḃW, and h_prev Ṙᵀ + ḃR.
  void PrepareInput(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = sweep_.Rows(chunk);
    const MatrixView<T> projected = Projected(d, chunk);
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
    const auto pack = [&](const T* from, P* to) {
      const Left input(to, rows, shape_.fan_in);
      RunTogether(executor_,
                  PackMaskedWork(InputRows(from, d, chunk), input, input_masks_,
                                 /*first_gate=*/0, Cell::kGates,
                                 sweep_.FirstTime(d, chunk), rows));
      return input;
    };
    Factor dot_x{Left(), weights_.Input(d, 0, steps_.panels())};
    Factor x{Left(), dot_weights_.Input(d, 0, steps_.panels())};
    if (a_.dot_input != nullptr) {
      dot_x.first = pack(a_.dot_input, scratch_.dot_input);
    }
    if (has_dot_params_) x.first = pack(a_.input, scratch_.input);
    if (has_projected()) {
      MultiplyPanels(std::array{dot_x, x}, input_masks_, InputGate<Cell>,
                     InputBias(d), projected);
    }
  }

  // out = bias + the sum of the products of factors, for all panels.
  // masks: of the left factors. gate_of: see MultiplyCopies
  template <std::size_t kCount, typename GateOf>
  void MultiplyPanels(const std::array<Factor, kCount>& factors,
                      const GateMasks<T>& masks, const GateOf& gate_of,
                      const MatrixView<T>& bias,
                      const MatrixView<T>& out) const {
    if (masks.any()) {
      steps_.MultiplyCopies(factors, gate_of, bias, out);
      return;
    }
    ProductSum<P> sum;
    for (const auto& [left, right] : factors) {
      if (left.data != nullptr) sum.Add(left, right);
    }
    RunTogether(executor_, MultiplyWork(sum, Constant(bias), out,
                                        executor_.num_threads()));
  }

  void PrepareRecurrent(std::int64_t d, const StepChunk& chunk) const {
    const std::int64_t rows = sweep_.Rows(chunk);
    const Left h_prev(scratch_.h_prev, rows, shape_.output_size);
    const std::int64_t first_time = sweep_.FirstTime(d, chunk);
    const PreviousHiddenRows<T> states{states_,      d,    first_time,
                                       shape_.batch, rows, shape_.output_size};
    RunTogether(executor_,
                PackMaskedWork(states, h_prev, state_masks_, /*first_gate=*/0,
                               Cell::kRecurrentGates, first_time, rows));
    MultiplyPanels(
        std::array{
            Factor{h_prev, dot_weights_.Recurrent(d, 0, steps_.panels())}},
        state_masks_, [](std::int64_t block) { return block; },
        RecurrentBias(d), Recurrent(d, chunk));
  }

  void RunSteps(const StepChunk& chunk) const {
    steps_.Run(
        chunk,
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepCell(chunk, i, task, worker);
        },
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepSecondHalf(chunk, i, task, worker);
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
    task.ForEachPanelGroup(
        steps_.group_size(), [&](auto panel, auto num_panels) {
          const MatrixView<T> product =
              steps_.Product(rows, num_panels * kRecurrentCols, worker);
          const MatrixView<const T> recurrent =
              has_dot_params_
                  ? Constant(Recurrent(d, chunk).Block(
                        row, panel * kRecurrentCols, rows, product.cols))
                  : NoMatrix<T>();
          steps_.MultiplyState(weights_, step, task, panel, num_panels,
                               recurrent, product);
          task.ForEachVector<T>(
              panel, num_panels, shape_.units, [&](auto unit, auto units) {
                TangentColumns columns =
                    Columns(step, d, t, unit, StepHalf::kFirst);
                columns.projected = ProjectedColumn(d, chunk, row, task, unit);
                columns.product = Constant(product).Column(
                    (unit / kTileCols<T> - panel) * kRecurrentCols +
                    unit % kTileCols<T>);
                RunActivatedCells<Cell::kFirstRecurrent, StepHalf::kFirst>(
                    task, t, columns, units);
              });
        });
  }

  // Null for zeros. row: the first row of the task in the chunk, row 0 of the
  // result.
  ColumnView<const T> ProjectedColumn(std::int64_t d, const StepChunk& chunk,
                                      std::int64_t row, const StepTask& task,
                                      std::int64_t unit) const {
    if (!has_projected()) return {};
    return Constant(Projected(d, chunk).Rows(row, task.rows))
        .Column(steps_.Col(unit));
  }

  // The units of a vector, for each sample.
  struct TangentColumns {
    typename LayerStates<T>::Columns states;
    std::int64_t previous_time;
    ColumnView<const T> projected;  // row 0: first row of task, or null
    ColumnView<const T> product;    // row 0: first row of task
    ColumnView<T> dot_c;
    ColumnView<T> dot_kept;
    MaskedColumns<P> cell_output;
    // The tangent of the hidden state or, in the first half of two, of what the
    // second multiplies.
    MaskedColumns<P> result;
    ColumnView<T> dot_h;
    ColumnView<T> output;  // null in the first half of two
  };

  TF_RNN_OPS_VECTOR_INLINE TangentColumns Columns(std::int64_t step,
                                                  std::int64_t d,
                                                  std::int64_t t,
                                                  std::int64_t unit,
                                                  StepHalf half) const {
    TangentColumns columns{};
    columns.states = states_.template At<Cell>(d, t, unit);
    columns.previous_time = states_.PreviousTime(d, t);
    columns.dot_kept = a_.dot_kept.Column(d, t, unit);
    if constexpr (Cell::kHasCellState) {
      columns.dot_c =
          shape_.OfDirection(a_.dot_c, d, shape_.units).Column(unit);
    }
    if (shape_.has_second_half && half == StepHalf::kFirst) {
      columns.result = steps_.CellOutputColumns(kTangentPart, d, t, unit);
      if (has_dot_params_) {
        columns.cell_output = steps_.CellOutputColumns(kValuePart, d, t, unit);
      }
    } else {
      columns.result = steps_.StateColumns(step + 1, d, unit);
      columns.output = OutputColumn(d, t, unit);
    }
    // With a projection, the state has fewer columns than the cells.
    if (unit < shape_.output_size) {
      columns.dot_h = OfDirection(a_.dot_h, d).Column(unit);
    }
    return columns;
  }

  // kFirstBlock: the first block in `columns.product`.
  template <std::int64_t kFirstBlock, StepHalf kHalf, typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunActivatedCells(const StepTask& task,
                                                  std::int64_t t,
                                                  const TangentColumns& columns,
                                                  const Units& units) const {
    WithActivations<T, Cell>(
        a_.config, [&](auto activations) TF_RNN_OPS_LAMBDA_INLINE {
          RunCells<kFirstBlock, kHalf>(task, t, columns, units, activations);
        });
  }

  // Inlined because for few rows a call takes as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <std::int64_t kFirstBlock, StepHalf kHalf, typename Units,
            typename Activations>
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
      TangentRun<T, Units, Activations, kFirstBlock> run{};
      run.units = units;
      run.activations = activations;
      run.states = {units, columns.states.are_pairs};
      run.kept = columns.states.kept.At(row);
      run.kept_stride = columns.states.kept_stride;
      run.h_prev = previous;
      run.c_prev = previous;
      if (columns.projected.data != nullptr) {
        run.projected = columns.projected.At(i);
      }
      run.product = columns.product.At(i);
      run.dot_h_prev = columns.dot_h.At(row);
      run.dot_c = columns.dot_c.At(row);
      run.dot_kept = columns.dot_kept.At(row);
      const Dual<T> result = ForwardHalf<kHalf, Cell>(run);
      columns.result.Write(row, units, result.tangent);
      if (columns.cell_output.to.data != nullptr) {
        columns.cell_output.Write(row, units, result.value);
      }
      if (columns.output.data == nullptr) continue;
      units.Write(result.tangent, columns.dot_h.At(row));
      units.Write(result.tangent, columns.output.At(row));
    }
  }

  // After the end of a sequence, the state does not change.
  template <typename Units>
  void SkipCell(const TangentColumns& columns, std::int64_t row,
                const Units& units) const {
    if (columns.output.data == nullptr) {
      columns.result.Write(row, units, Vector<T>{});
      if (columns.cell_output.to.data != nullptr) {
        columns.cell_output.Write(row, units, Vector<T>{});
      }
    } else {
      columns.result.Write(row, units, units.Read(columns.dot_h.At(row)));
      units.Write(Vector<T>{}, columns.output.At(row));
    }
  }

  // Step i of the chunk: ḣ = ṁ Pᵀ + m Ṗᵀ, or what follows the same with R_n.
  void StepSecondHalf(const StepChunk& chunk, std::int64_t i,
                      const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t step = chunk.first_step + i;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t row = sweep_.FirstRow(d, chunk, i) + task.row;
    steps_.RunSecondHalf(
        t, task, worker,
        [&](std::int64_t rows, std::int64_t col, const MatrixView<T>& product) {
          ProductSum<P> sum(
              steps_.CellOutput(kTangentPart, d).Rows(task.row, rows),
              weights_.Second(d).Cols(col, product.cols));
          if (has_dot_params_) {
            sum.Add(steps_.CellOutput(kValuePart, d).Rows(task.row, rows),
                    dot_weights_.Second(d).Cols(col, product.cols));
          }
          Multiply(sum, NoMatrix<T>(), product);
        },
        [&](auto unit, auto units, const ColumnView<T>& product) {
          TangentColumns columns = Columns(step, d, t, unit, StepHalf::kSecond);
          columns.product = {product.data, product.stride};
          if constexpr (kHasFinish<Cell>) {
            columns.projected = ProjectedColumn(d, chunk, row, task, unit);
            RunActivatedCells<Cell::kGates - 1, StepHalf::kSecond>(
                task, t, columns, units);
          } else {
            StoreProjected(task, t, columns, units);
          }
        });
  }

  template <typename Units>
  void StoreProjected(const StepTask& task, std::int64_t t,
                      const TangentColumns& columns, const Units& units) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!a_.lengths.IsValid(t, row)) {
        SkipCell(columns, row, units);
        continue;
      }
      const Vector<T> dot_h = units.Read(columns.product.At(i));
      columns.result.Write(row, units, dot_h);
      units.Write(dot_h, columns.dot_h.At(row));
      units.Write(dot_h, columns.output.At(row));
    }
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
  const GateMasks<T> input_masks_;
  const GateMasks<T> state_masks_;
  const ForwardSteps<P, Cell> steps_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_TANGENT_H_
