// What a layer's backward pass changes by where what goes into it moves, the
// gradients with respect to the layer's results fixed: the gradient sweep of
// docs/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_GRAD_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells.h"
#include "cc/rnn/simd/layer_backward.h"
#include "cc/rnn/simd/layer_forward.h"
#include "cc/rnn/simd/layer_states.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/pack.h"
#include "cc/rnn/simd/packed_weights.h"
#include "cc/rnn/simd/parallel_product.h"
#include "cc/rnn/simd/step_tasks.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Gradients that go through a layer. Sizes as in cc/rnn/cudnn_rnn.h;
// F = fan_in of the layer.
template <typename T>
struct LayerGradientArrays {
  const T* output;  // [T, B, D * O], or null for zeros
  T* input;         // [T, B, F], or null if not wanted
  // On entry those of the final states, on return those of the initial ones.
  T* h;  // [D, B, O]
  T* c;  // [D, B, U]; LSTM only
};

// dot_q is what q changes by.
// P: the type of the params and of products' operands.
template <typename P>
struct LayerBackwardGradArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer;
  const P* params;      // of the whole network
  const P* dot_params;  // likewise, or null for zeros
  const T* input;       // [T, B, F]
  const T* dot_input;   // [T, B, F], or null for zeros
  LayerStateArrays<T> states;
  LayerStateArrays<T> dot_states;
  LayerGradientArrays<T> d;
  LayerGradientArrays<T> dot_d;
  T* dot_d_params;  // of the whole network: this layer's part is written; null
                    // if not wanted
};

// The steps whose gradients of the gates are kept: half as many as those of the
// backward pass, for there are twice as many gradients of each.
inline std::int64_t BackwardGradStepsAtOnce(const RnnSize& size) {
  constexpr std::int64_t kRows = 256;
  return Min(size.time, Max(kRows / Max(size.batch, 1), 1));
}

// Scratch memory, enough for any layer of the network. N = the blocks of the
// cell, R = BackwardGradStepsAtOnce * B.
template <typename P>
struct LayerBackwardGradScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  GateWeightsScratch<P> weights;
  GateWeightsScratch<P> dot_weights;  // if there are dot_params
  P* d_gates;                         // [D, N] left operands [2 * R, U]
  P* d_projected;   // [D] left operands [2 * R, O], with a projection
  T* cell_outputs;  // [D, 2 * R, U], with a projection
  T* products;      // [num_threads, 2, B, GroupSize, kTileCols]
  // If the gradients of the params are wanted.
  P* packed_cell_outputs;  // a right operand [2 * R, U], with a projection
  // [N] left operands [U, 2 * R], and one [O, 2 * R] with a projection
  P* transposed;
  P* input;     // a right operand [2 * R, F]
  P* states;    // a right operand [2 * R, O]
  T* d_biases;  // [D, N, U]

  LayerBackwardGradScratch(const RnnConfig& config, const RnnSize& size,
                           bool has_dot_params, bool wants_params,
                           int num_threads, Arena& arena)
      : weights(config, arena) {
    if (has_dot_params) dot_weights = GateWeightsScratch<P>(config, arena);
    const CheckedInt directions = config.num_directions;
    const CheckedInt rows =
        CheckedInt(BackwardGradStepsAtOnce(size)) * size.batch * 2;
    const CheckedInt units = config.num_units;
    const std::int64_t gates = config.num_gates();
    const std::int64_t blocks =
        config.mode == RnnMode::kGru ? gates + 1 : gates;
    const std::int64_t output_size = config.output_size();
    const std::int64_t projections = config.num_proj > 0 ? 1 : 0;
    d_gates =
        arena.Take<P>(directions * blocks * Left::Size(rows, config.num_units));
    d_projected =
        arena.Take<P>(directions * projections * Left::Size(rows, output_size));
    cell_outputs =
        arena.Take<T>(directions * projections * rows * config.num_units);
    products = arena.Take<T>(CheckedInt(num_threads) * 2 * size.batch *
                             GroupSize<T>(size.batch, 1) * kTileCols<T>);
    const CheckedInt depth = wants_params ? rows : CheckedInt(0);
    packed_cell_outputs =
        arena.Take<P>(projections * Right::Size(depth, config.num_units));
    transposed = arena.Take<P>(
        kTransposesLeft<P>
            ? blocks * Left::Size(units, depth.value()) +
                  projections * Left::Size(output_size, depth.value())
            : CheckedInt(0));
    input = arena.Take<P>(Right::Size(depth, config.largest_fan_in()));
    states = arena.Take<P>(Right::Size(depth, output_size));
    d_biases = arena.Take<T>(directions * blocks * units);
  }
};

// One matrix upon another, to be packed.
template <typename Upper, typename Lower>
struct StackedRows {
  Upper upper;
  Lower lower;
  std::int64_t rows = upper.rows + lower.rows;
  std::int64_t cols = upper.cols;

  auto Row(std::int64_t row) const {
    return row < upper.rows ? upper.Row(row) : lower.Row(row - upper.rows);
  }
};
template <typename Upper, typename Lower>
StackedRows(Upper, Lower) -> StackedRows<Upper, Lower>;

template <typename P, typename Cell>
class LayerBackwardGrad {
 public:
  using T = ComputeType<P>;

  LayerBackwardGrad(const LayerBackwardGradArguments<P>& arguments,
                    const LayerBackwardGradScratch<P>& scratch,
                    Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        layout_(a_.config),
        weights_(a_.config, a_.layer, a_.params, scratch_.weights),
        dot_weights_(a_.config, a_.layer, a_.dot_params, scratch_.dot_weights),
        states_(a_.config, a_.size, a_.lengths, a_.states),
        dot_states_(a_.config, a_.size, a_.lengths, a_.dot_states),
        time_(a_.size.time),
        batch_(a_.size.batch),
        units_(a_.config.num_units),
        output_size_(a_.config.output_size()),
        directions_(a_.config.num_directions),
        fan_in_(a_.config.fan_in(a_.layer)),
        steps_at_once_(BackwardGradStepsAtOnce(a_.size)),
        skips_input_(a_.layer == 0 && a_.config.skip_input),
        is_projected_(a_.config.num_proj > 0),
        has_dot_params_(a_.dot_params != nullptr),
        group_size_(GroupSize<T>(batch_, 2)),
        state_tasks_(directions_, batch_, CeilDiv(output_size_, kTileCols<T>),
                     2 * kTileCols<T> * Cell::kGates * units_, sizeof(P),
                     a_.lengths, executor.num_threads()),
        cell_tasks_(directions_, batch_, CeilDiv(units_, kTileCols<T>),
                    2 * kTileCols<T> * output_size_, sizeof(P), a_.lengths,
                    executor.num_threads()) {}

  void Run() const {
    weights_.Pack(wants_input(), executor_);
    if (has_dot_params_) dot_weights_.Pack(wants_input(), executor_);
    ClearScratch();
    // Both directions add to them, each in an order of its own.
    if (directions_ > 1) {
      for (T* d_input : {a_.d.input, a_.dot_d.input}) {
        if (d_input == nullptr) continue;
        FillZero(d_input, time_ * batch_ * fan_in_, executor_);
      }
    }
    std::int64_t step = 0;
    do {  // once for a time of zero too: it leaves gradients of zero
      const Chunk chunk{step, Min(steps_at_once_, time_ - step)};
      RunSteps(chunk);
      for (std::int64_t d = 0; d < directions_; ++d) Gradients(d, chunk);
      step += chunk.steps;
    } while (step < time_);
    for (std::int64_t d = 0; d < directions_; ++d) StoreBiasGradients(d);
  }

 private:
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  // Steps whose gradients are made at once, in the order of this pass.
  struct Chunk {
    std::int64_t first_step;
    std::int64_t steps;
  };

  // Of the 2 * R rows of a matrix, the upper half of those that a chunk has are
  // what gradients change by, the lower half the gradients: the product of the
  // transpose with an input, and below it what that changes by, is then what
  // the gradient of weights changes by.
  enum Half { kDot = 0, kFirst = 1 };

  // Whether any gradient with respect to the layer's input is.
  bool wants_input() const {
    return a_.d.input != nullptr || a_.dot_d.input != nullptr;
  }

  std::int64_t PseudoLayer(std::int64_t direction) const {
    return a_.layer * directions_ + direction;
  }
  // The gate of a block of W x.
  static std::int64_t InputGate(std::int64_t block) {
    return (block + Cell::kFirstInputGate) % Cell::kGates;
  }

  // The result for a matrix in the params buffer.
  MatrixView<T> ParamGradient(const ParamsRegion& region) const {
    return {a_.dot_d_params + region.offset, region.rows, region.cols};
  }
  // The rows of one gate of a matrix [G * U, ...].
  MatrixView<T> OfGate(const MatrixView<T>& matrix, std::int64_t gate) const {
    return matrix.Rows(gate * units_, units_);
  }
  // [B, columns] of a direction, of an array [D, B, columns].
  MatrixView<T> OfDirection(T* array, std::int64_t direction,
                            std::int64_t columns) const {
    return {array + direction * batch_ * columns, batch_, columns};
  }

  std::int64_t MostRows() const { return 2 * steps_at_once_ * batch_; }
  std::int64_t Rows(const Chunk& chunk) const { return chunk.steps * batch_; }
  // One of the matrices that follow one another in an array, of which `chunk`
  // has 2 * Rows(chunk) rows.
  Left Nth(std::int64_t index, P* array, std::int64_t cols,
           const Chunk& chunk) const {
    return Left(array + index * SizeOf<Left>(MostRows(), cols), MostRows(),
                cols)
        .Rows(0, 2 * Rows(chunk));
  }
  // The gradients of a block of the cell, [2 * Rows(chunk), U].
  Left BlockGradients(std::int64_t direction, std::int64_t block,
                      const Chunk& chunk) const {
    return Nth(direction * Cell::kBlocks + block, scratch_.d_gates, units_,
               chunk);
  }
  Left ProjectedGradients(std::int64_t direction, const Chunk& chunk) const {
    return Nth(direction, scratch_.d_projected, output_size_, chunk);
  }
  // The outputs of the cells, and below them what they change by.
  MatrixView<T> CellOutputs(std::int64_t direction, const Chunk& chunk) const {
    return {scratch_.cell_outputs + direction * MostRows() * units_,
            2 * Rows(chunk), units_};
  }
  // One half of such a matrix.
  template <typename Matrix>
  Matrix HalfOf(const Matrix& both, Half half) const {
    return both.Rows(half * both.rows / 2, both.rows / 2);
  }
  T* BiasGradients(std::int64_t direction, std::int64_t block) const {
    return scratch_.d_biases + (direction * Cell::kBlocks + block) * units_;
  }

  // What products read beyond the units must be a number.
  void ClearScratch() const {
    if (!kRoundsOperands<P>) return;
    if (units_ % Left::kCols != 0) {
      FillZero(scratch_.d_gates,
               directions_ * Cell::kBlocks * SizeOf<Left>(MostRows(), units_),
               executor_);
    }
    if (is_projected_) {
      FillZero(scratch_.d_projected,
               directions_ * SizeOf<Left>(MostRows(), output_size_), executor_);
    }
  }

  // The time that a direction's step is about: `step` counts from the last step
  // of the forward pass.
  std::int64_t Time(std::int64_t direction, std::int64_t step) const {
    return TimeOfStep(1 - direction, step, time_);
  }
  // The earliest time among a direction's steps.
  std::int64_t FirstTime(std::int64_t direction, const Chunk& chunk) const {
    return direction == 0 ? time_ - chunk.first_step - chunk.steps
                          : chunk.first_step;
  }
  // Where a step's rows begin in a half, which is in the order of time.
  std::int64_t FirstRow(std::int64_t direction, const Chunk& chunk,
                        std::int64_t step) const {
    return (Time(direction, chunk.first_step + step) -
            FirstTime(direction, chunk)) *
           batch_;
  }

  // Leaves the gradients of the states that the chunk's last step began with.
  void RunSteps(const Chunk& chunk) const {
    if (chunk.steps == 0) return;
    const auto step_state = [&](std::int64_t step, const StepTask& task,
                                int worker) {
      StepState(chunk, step, task, worker);
    };
    if (!is_projected_) {
      state_tasks_.Run(chunk.steps + 1, executor_, step_state);
      return;
    }
    StepTasks::RunHalves(
        state_tasks_, cell_tasks_, 2 * chunk.steps + 1, executor_, step_state,
        [&](std::int64_t step, const StepTask& task, int worker) {
          StepProjection(chunk, step, task, worker);
        });
  }

  // Products of a task's rows: of gradients, and of what they change by.
  struct Products {
    MatrixView<T> first;
    MatrixView<T> dot;
  };
  // In a worker's scratch memory.
  Products MakeProducts(const StepTask& task, std::int64_t num_panels,
                        int worker) const {
    const std::int64_t most = batch_ * group_size_ * kTileCols<T>;
    T* const products = scratch_.products + 2 * worker * most;
    const std::int64_t cols = num_panels * kTileCols<T>;
    return {{products, task.rows, cols}, {products + most, task.rows, cols}};
  }

  // first = d * weights, dot = ḋ * weights + d * dot_weights, of some rows of
  // the left operands. factors(half, weights): those of a product. then: what
  // is multiplied next.
  template <typename Factors>
  void MultiplyBoth(const Factors& factors, std::int64_t rows,
                    const ProductSum<P>& then, const Products& out) const {
    const MatrixView<T> first = out.first.Rows(0, rows);
    const MatrixView<T> dot = out.dot.Rows(0, rows);
    Multiply(factors(kFirst, weights_), NoMatrix<T>(), first);
    Multiply(factors(kDot, weights_), NoMatrix<T>(), dot,
             has_dot_params_ ? ProductSum<P>() : then);
    if (has_dot_params_) {
      Multiply(factors(kFirst, dot_weights_), Constant(dot), dot, then);
    }
  }

  // Past their end, sequences have gradients of zero, whatever the weights are.
  void ClearRowsPastTheEnd(std::int64_t t, const StepTask& task,
                           const Products& products) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      if (a_.lengths.IsValid(t, task.row + i)) continue;
      CopyInitial(NoMatrix<T>(), products.first.Rows(i, 1));
      CopyInitial(NoMatrix<T>(), products.dot.Rows(i, 1));
    }
  }

  // What the gradient of a step's result is the sum of; any may be null.
  struct Incoming {
    ColumnView<T> through;  // R h_prev or P, from the task's first row on
    ColumnView<T> d_state;
    ColumnView<const T> d_output;

    template <typename Units>
    Vector<T> Sum(std::int64_t row, std::int64_t i, const Units& units) const {
      Vector<T> sum{};
      if (d_state.data != nullptr) sum = units.Read(d_state.At(row));
      if (d_output.data != nullptr) sum += units.Read(d_output.At(row));
      if (through.data != nullptr) sum += units.Read(through.At(i));
      return sum;
    }
    // Past a sequence's end, what comes through the state stays there.
    template <typename Units>
    void Stay(std::int64_t row, std::int64_t i, const Units& units) const {
      if (d_state.data == nullptr || through.data == nullptr) return;
      T* const sum = d_state.At(row);
      units.Write(units.Read(sum) + units.Read(through.At(i)), sum);
    }
  };

  // Of the hidden state at time t, from unit `unit` on. through: null in a
  // chunk's first step.
  Incoming StateIncoming(const LayerGradientArrays<T>& arrays, std::int64_t d,
                         std::int64_t t, std::int64_t unit,
                         const ColumnView<T>& through) const {
    Incoming incoming{};
    incoming.through = through;
    incoming.d_state = OfDirection(arrays.h, d, output_size_).Column(unit);
    if (arrays.output != nullptr) {
      const std::int64_t width = directions_ * output_size_;
      incoming.d_output = {
          arrays.output + t * batch_ * width + d * output_size_ + unit, width};
    }
    return incoming;
  }

  // The gradient of the hidden state: through R h_prev of the step after, in
  // other ways, and from the output. Then the cell's, unless there is a
  // projection in between. The chunk's steps are followed by one that only
  // goes through R h_prev.
  void StepState(const Chunk& chunk, std::int64_t step, const StepTask& task,
                 int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = Time(d, chunk.first_step + step);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const Products products = MakeProducts(task, num_panels, worker);
      if (step > 0) {
        MultiplyStateGradients(chunk, step, task, panel, products);
      }
      task.ForEachVector<T>(
          panel, num_panels, output_size_, [&](auto unit, auto units) {
            const auto incoming = [&](const LayerGradientArrays<T>& arrays,
                                      const MatrixView<T>& product) {
              return StateIncoming(
                  arrays, d, step < chunk.steps ? t : 0, unit,
                  step > 0 ? product.Column(unit - panel * kTileCols<T>)
                           : ColumnView<T>{});
            };
            const Incoming first = incoming(a_.d, products.first);
            const Incoming dot = incoming(a_.dot_d, products.dot);
            if (step == chunk.steps) {
              for (std::int64_t i = 0; i < task.rows; ++i) {
                first.Stay(task.row + i, i, units);
                dot.Stay(task.row + i, i, units);
              }
            } else if (is_projected_) {
              const std::int64_t row = FirstRow(d, chunk, step);
              const Left both = ProjectedGradients(d, chunk);
              StoreProjected(task, t, first,
                             HalfOf(both, kFirst).Rows(row, batch_), unit,
                             units);
              StoreProjected(task, t, dot, HalfOf(both, kDot).Rows(row, batch_),
                             unit, units);
            } else {
              CellColumns columns = MakeColumns(chunk, step, d, unit);
              columns.first = first;
              columns.dot = dot;
              RunCells(task, columns, units);
            }
          });
    });
  }

  // Through R h_prev of the step after.
  void MultiplyStateGradients(const Chunk& chunk, std::int64_t step,
                              const StepTask& task, std::int64_t panel,
                              const Products& products) const {
    const std::int64_t d = task.direction;
    const std::int64_t after = Time(d, chunk.first_step + step - 1);
    const std::int64_t rows =
        a_.lengths.ValidSamples(after, task.row, task.rows);
    const std::int64_t row = FirstRow(d, chunk, step - 1) + task.row;
    const auto factors_of = [&](Half half, const GateWeights<P, Cell>& weights,
                                std::int64_t first_panel, std::int64_t cols) {
      ProductSum<P> sum;
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        sum.Add(
            HalfOf(BlockGradients(d, Cell::kFirstRecurrent + gate, chunk), half)
                .Rows(row, rows),
            weights.Recurrent(d, gate).Cols(first_panel * kTileCols<T>, cols));
      }
      return sum;
    };
    const std::int64_t last = panel + products.first.cols / kTileCols<T> - 1;
    MultiplyBoth(
        [&](Half half, const GateWeights<P, Cell>& weights) {
          return factors_of(half, weights, panel, products.first.cols);
        },
        rows, factors_of(kFirst, weights_, task.PanelAfter(last), kTileCols<T>),
        products);
    ClearRowsPastTheEnd(after, task, products);
  }

  // Past a sequence's end, what comes through the state stays there. Otherwise
  // it and the output's gradient go through the projection.
  // to: [B, O] of the step.
  template <typename Units>
  void StoreProjected(const StepTask& task, std::int64_t t,
                      const Incoming& incoming, const Left& to,
                      std::int64_t unit, const Units& units) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      Vector<T> goes{};
      if (a_.lengths.IsValid(t, row)) {
        goes = incoming.Sum(row, i, units);
        units.Write(Vector<T>{}, incoming.d_state.At(row));
      } else {
        incoming.Stay(row, i, units);
      }
      units.Write(goes, to.At(row, unit));
    }
  }

  // The cell's gradient, through h = P (o ∘ tanh(c)).
  void StepProjection(const Chunk& chunk, std::int64_t step,
                      const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t row = FirstRow(d, chunk, step) + task.row;
    const std::int64_t rows = a_.lengths.ValidSamples(
        Time(d, chunk.first_step + step), task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const Products products = MakeProducts(task, num_panels, worker);
      const std::int64_t col = panel * kTileCols<T>;
      MultiplyBoth(
          [&](Half half, const GateWeights<P, Cell>& weights) {
            return ProductSum<P>(
                HalfOf(ProjectedGradients(d, chunk), half).Rows(row, rows),
                weights.Projection(d).Cols(col, products.first.cols));
          },
          rows, ProductSum<P>(), products);
      task.ForEachVector<T>(
          panel, num_panels, units_, [&](auto unit, auto units) {
            CellColumns columns = MakeColumns(chunk, step, d, unit);
            columns.first.through = products.first.Column(unit - col);
            columns.dot.through = products.dot.Column(unit - col);
            RunCells(task, columns, units);
          });
    });
  }

  // The units of a vector, in each row of a step.
  struct CellColumns {
    std::int64_t t;
    std::int64_t previous_time;
    typename LayerStates<T>::Columns states;
    typename LayerStates<T>::Columns dot_states;
    Incoming first;
    Incoming dot;
    ColumnView<T> d_c;
    ColumnView<T> dot_d_c;
    ColumnView<P> d_blocks;
    ColumnView<P> dot_d_blocks;
    std::int64_t d_blocks_stride;
    ColumnView<T> cell_output;
    ColumnView<T> dot_cell_output;
  };

  CellColumns MakeColumns(const Chunk& chunk, std::int64_t step, std::int64_t d,
                          std::int64_t unit) const {
    const std::int64_t row = FirstRow(d, chunk, step);
    CellColumns columns{};
    columns.t = Time(d, chunk.first_step + step);
    columns.previous_time = states_.PreviousTime(d, columns.t);
    columns.states = states_.template At<Cell>(d, columns.t, unit);
    columns.dot_states = dot_states_.template At<Cell>(d, columns.t, unit);
    const Left blocks = BlockGradients(d, 0, chunk);
    columns.d_blocks = HalfOf(blocks, kFirst).Rows(row, batch_).Column(unit);
    columns.dot_d_blocks = HalfOf(blocks, kDot).Rows(row, batch_).Column(unit);
    columns.d_blocks_stride = SizeOf<Left>(MostRows(), units_);
    if constexpr (Cell::kGates == 4) {
      columns.d_c = OfDirection(a_.d.c, d, units_).Column(unit);
      columns.dot_d_c = OfDirection(a_.dot_d.c, d, units_).Column(unit);
      if (is_projected_) {
        const MatrixView<T> outputs = CellOutputs(d, chunk);
        // It meets what gradients change by, and what it changes by meets them.
        columns.cell_output =
            HalfOf(outputs, kDot).Rows(row, batch_).Column(unit);
        columns.dot_cell_output =
            HalfOf(outputs, kFirst).Rows(row, batch_).Column(unit);
      }
    }
    return columns;
  }

  // `columns` is a copy so that the compiler can keep it in registers.
  template <typename Units>
  void RunCells(const StepTask& task, const CellColumns columns,
                const Units units) const {
    const SequenceLengths lengths = a_.lengths;
    const bool has_cell_output = columns.cell_output.data != nullptr;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!lengths.IsValid(columns.t, row)) {
        SkipCell(columns, row, i, units);
        continue;
      }
      const bool has_previous = lengths.IsValid(columns.previous_time, row);
      const T* const previous = columns.states.Previous(has_previous, row);
      const T* const dot_previous =
          columns.dot_states.Previous(has_previous, row);
      const BackwardGradRun<P, Units> run{
          {units, columns.states.kept.At(row), columns.states.kept_stride,
           previous, previous, columns.states.h.At(row),
           columns.first.Sum(row, i, units), columns.d_c.At(row),
           columns.d_blocks.At(row), columns.d_blocks_stride,
           has_cell_output ? columns.cell_output.At(row) : nullptr},
          columns.dot_states.kept.At(row),
          dot_previous,
          dot_previous,
          columns.dot_states.h.At(row),
          columns.dot.Sum(row, i, units),
          columns.dot_d_c.At(row),
          columns.dot_d_blocks.At(row),
          columns.dot_cell_output.At(row),
      };
      const GradientAndDot<T> stays = Cell::BackwardGrad(run);
      if (columns.first.d_state.data == nullptr) continue;
      units.Write(stays.d, columns.first.d_state.At(row));
      units.Write(stays.dot_d, columns.dot.d_state.At(row));
    }
  }

  template <typename Units>
  void SkipCell(const CellColumns& columns, std::int64_t row, std::int64_t i,
                const Units& units) const {
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      const std::int64_t offset = block * columns.d_blocks_stride;
      units.Write(Vector<T>{}, columns.d_blocks.At(row) + offset);
      units.Write(Vector<T>{}, columns.dot_d_blocks.At(row) + offset);
    }
    if (columns.cell_output.data != nullptr) {
      units.Write(Vector<T>{}, columns.cell_output.At(row));
      units.Write(Vector<T>{}, columns.dot_cell_output.At(row));
    }
    columns.first.Stay(row, i, units);
    columns.dot.Stay(row, i, units);
  }

  // The gradients of everything but the states, of which each chunk adds a
  // part.
  void Gradients(std::int64_t d, const Chunk& chunk) const {
    if (a_.dot_d_params != nullptr) WeightGradients(d, chunk);
    if (a_.dot_d.input == nullptr) return;
    if (skips_input_) {
      const MatrixView<T> dot_d_input = OfChunk(a_.dot_d.input, d, chunk);
      executor_.ParallelFor(dot_d_input.rows, [&](std::int64_t row) {
        SumGates(d, chunk, row, dot_d_input.At(row, 0));
      });
    } else {
      InputGradients(d, chunk);
    }
  }

  // The rows of a chunk's steps, of an array [T, B, F].
  template <typename S>
  MatrixView<S> OfChunk(S* array, std::int64_t d, const Chunk& chunk) const {
    return MatrixView<S>(array, time_ * batch_, fan_in_)
        .Rows(FirstTime(d, chunk) * batch_, Rows(chunk));
  }

  // dR = (d blocks)ᵀ h_prev and dW = (d blocks)ᵀ x change by
  // [ḋ; d blocks]ᵀ [x; ẋ] and the like.
  void WeightGradients(std::int64_t d, const Chunk& chunk) const {
    const std::int64_t rows = Rows(chunk);
    // What x meets, and, if x changes, what that meets.
    const std::int64_t input_rows = skips_input_              ? 0
                                    : a_.dot_input == nullptr ? rows
                                                              : 2 * rows;
    const Right input(scratch_.input, input_rows, fan_in_);
    const Right states(scratch_.states, 2 * rows, output_size_);
    const Right cell_outputs(scratch_.packed_cell_outputs, 2 * rows, units_);
    PackFactors(d, chunk, input, states, cell_outputs);
    const bool add = chunk.first_step > 0;
    const std::int64_t pseudo_layer = PseudoLayer(d);
    WorkList<WeightWork> weights;
    for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
      const std::int64_t block = Cell::kFirstRecurrent + gate;
      weights.Add(MakeWeightWork(
          BlockGradients(d, block, chunk), block, states, add,
          OfGate(ParamGradient(layout_.RecurrentMatrix(pseudo_layer)), gate)));
      if (skips_input_) continue;
      weights.Add(MakeWeightWork(
          BlockGradients(d, gate, chunk).Rows(0, input_rows), gate, input, add,
          OfGate(ParamGradient(layout_.InputMatrix(pseudo_layer)),
                 InputGate(gate))));
    }
    if (is_projected_) {
      weights.Add(MakeWeightWork(
          ProjectedGradients(d, chunk), Cell::kBlocks, cell_outputs, add,
          ParamGradient(layout_.Projection(pseudo_layer))));
    }
    WorkList<ColumnSumsWork<P>> biases;
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      biases.Add({HalfOf(BlockGradients(d, block, chunk), kDot), add,
                  BiasGradients(d, block)});
    }
    RunTogether(executor_, weights, biases);
  }

  // What the gradients are multiplied by, above what that changes by.
  void PackFactors(std::int64_t d, const Chunk& chunk, const Right& input,
                   const Right& states, const Right& cell_outputs) const {
    const auto x = [&](const T* array, bool is_wanted) {
      return is_wanted ? OfChunk(array, d, chunk) : NoMatrix<T>();
    };
    const auto h_prev = [&](const LayerStates<T>& of) {
      return PreviousHiddenRows<T>{of,     d,           FirstTime(d, chunk),
                                   batch_, Rows(chunk), output_size_};
    };
    StackedRows inputs{x(a_.input, input.rows > 0),
                       x(a_.dot_input, input.rows > Rows(chunk))};
    RunTogether(
        executor_,
        PackWork(StackedRows{h_prev(states_), h_prev(dot_states_)}, states),
        PackWork(inputs, input),
        PackWork(
            is_projected_ ? Constant(CellOutputs(d, chunk)) : NoMatrix<T>(),
            cell_outputs));
    if constexpr (kTransposesLeft<P>) TransposeGradients(d, chunk);
  }

  // The product of the transpose of a matrix with another.
  using WeightWork = std::conditional_t<kTransposesLeft<P>, MultiplyWork<P>,
                                        MultiplyTransposedWork<T>>;
  // left: the first rows of what TransposeGradients transposes as `index`.
  WeightWork MakeWeightWork(const Left& left, std::int64_t index,
                            const Right& right, bool add,
                            const MatrixView<T>& out) const {
    const int num_threads = executor_.num_threads();
    if constexpr (kTransposesLeft<P>) {
      return {ProductSum<P>(Transposed(index, left.cols, left.rows), right),
              add ? Constant(out) : NoMatrix<T>(), out, num_threads};
    } else {
      return {left, right, add, out, num_threads};
    }
  }

  // The transpose of the gradients of a block, or, after all blocks, of the
  // projected ones.
  Left Transposed(std::int64_t index, std::int64_t rows,
                  std::int64_t cols) const {
    return {scratch_.transposed + index * SizeOf<Left>(units_, MostRows()),
            rows, cols};
  }
  void TransposeGradients(std::int64_t d, const Chunk& chunk) const {
    const auto transpose = [&](const Left& from, std::int64_t index,
                               std::int64_t task) {
      const std::int64_t col = task * Left::kCols;
      const std::int64_t cols = Min(Left::kCols, from.cols - col);
      PackTransposed(Constant(from.Cols(col, cols)),
                     Transposed(index, from.cols, from.rows).Rows(col, cols));
    };
    const std::int64_t blocks = CeilDiv(units_, Left::kCols);
    RunTogether(executor_,
                Tasks{Cell::kBlocks * blocks,
                      [&](std::int64_t i) {
                        transpose(BlockGradients(d, i / blocks, chunk),
                                  i / blocks, i % blocks);
                      }},
                Tasks{is_projected_ ? CeilDiv(output_size_, Left::kCols) : 0,
                      [&](std::int64_t i) {
                        transpose(ProjectedGradients(d, chunk), Cell::kBlocks,
                                  i);
                      }});
  }

  // dx = (d blocks) W, and what it changes by: (ḋ blocks) W + (d blocks) Ẇ.
  void InputGradients(std::int64_t d, const Chunk& chunk) const {
    const auto work = [&](Half half, const GateWeights<P, Cell>& weights,
                          T* array, bool adds) {
      ProductSum<P> sum;
      for (std::int64_t block = 0; block < Cell::kGates; ++block) {
        sum.Add(HalfOf(BlockGradients(d, block, chunk), half),
                weights.Input(d, InputGate(block)));
      }
      const MatrixView<T> out = array == nullptr ? MatrixView<T>(nullptr, 0, 0)
                                                 : OfChunk(array, d, chunk);
      return MultiplyWork<P>(sum, adds ? Constant(out) : NoMatrix<T>(), out,
                             executor_.num_threads());
    };
    const bool adds = directions_ > 1;
    RunTogether(executor_, work(kFirst, weights_, a_.d.input, adds),
                work(kDot, weights_, a_.dot_d.input, adds));
    if (has_dot_params_) {
      RunTogether(executor_, work(kFirst, dot_weights_, a_.dot_d.input, true));
    }
  }

  // Adds what the gradients of the gates of a row change by to those of the
  // input, which each of them gets as it is.
  void SumGates(std::int64_t d, const Chunk& chunk, std::int64_t row,
                T* dot_d_input) const {
    for (std::int64_t unit = 0; unit < units_; ++unit) {
      T total = directions_ > 1 ? dot_d_input[unit] : T(0);
      for (std::int64_t block = 0; block < Cell::kGates; ++block) {
        total += Widened(
            *HalfOf(BlockGradients(d, block, chunk), kDot).At(row, unit));
      }
      dot_d_input[unit] = total;
    }
  }

  void StoreBiasGradients(std::int64_t d) const {
    if (a_.dot_d_params == nullptr) return;
    T* const input = ParamGradient(layout_.InputBias(PseudoLayer(d))).data;
    T* const recurrent =
        ParamGradient(layout_.RecurrentBias(PseudoLayer(d))).data;
    for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
      std::copy_n(BiasGradients(d, gate), units_,
                  input + InputGate(gate) * units_);
      std::copy_n(BiasGradients(d, Cell::kFirstRecurrent + gate), units_,
                  recurrent + gate * units_);
    }
  }

  const LayerBackwardGradArguments<P> a_;
  const LayerBackwardGradScratch<P> scratch_;
  Executor& executor_;
  const CudnnRnnParamsLayout layout_;
  const GateWeights<P, Cell> weights_;
  const GateWeights<P, Cell> dot_weights_;
  const LayerStates<T> states_;
  const LayerStates<T> dot_states_;
  const std::int64_t time_;
  const std::int64_t batch_;
  const std::int64_t units_;
  const std::int64_t output_size_;
  const std::int64_t directions_;
  const std::int64_t fan_in_;
  const std::int64_t steps_at_once_;
  const bool skips_input_;
  const bool is_projected_;
  const bool has_dot_params_;
  const std::int64_t group_size_;
  const StepTasks state_tasks_;  // the hidden state's columns
  const StepTasks cell_tasks_;   // the cell's units, with a projection
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_GRAD_H_
