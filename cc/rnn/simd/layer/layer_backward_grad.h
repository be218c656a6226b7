// What a layer's backward pass changes by where what goes into it moves, the
// gradients with respect to the layer's results fixed: the gradient sweep of
// docs/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_GRAD_H_

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

// Scratch memory, enough for any layer of the network.
template <typename P>
struct LayerBackwardGradScratch {
  using T = ComputeType<P>;

  GateWeightsScratch<P> weights;
  GateWeightsScratch<P> dot_weights;  // if there are dot_params
  StepGradientsScratch<P> steps;
  T* products;  // [num_threads, 2, B, GroupSize, kTileCols]

  LayerBackwardGradScratch(const RnnConfig& config, const RnnSize& size,
                           bool has_dot_params, bool wants_params,
                           int num_threads, Arena& arena)
      : weights(config, arena),
        dot_weights(has_dot_params ? GateWeightsScratch<P>(config, arena)
                                   : GateWeightsScratch<P>()),
        steps(config,
              CheckedInt(BackwardGradStepsAtOnce(size)) * size.batch * 2,
              wants_params, arena),
        products(arena.Take<T>(CheckedInt(num_threads) * 2 * size.batch *
                               GroupSize<T>(size.batch, 1) * kTileCols<T>)) {}
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
        weights_(a_.config, a_.layer, a_.params, scratch_.weights),
        dot_weights_(a_.config, a_.layer, a_.dot_params, scratch_.dot_weights),
        states_(a_.config, a_.size, a_.lengths, a_.states),
        dot_states_(a_.config, a_.size, a_.lengths, a_.dot_states),
        steps_(a_.config, a_.size, a_.layer, BackwardGradStepsAtOnce(a_.size),
               /*times=*/2, a_.dot_d_params, scratch_.steps, executor),
        time_(a_.size.time),
        batch_(a_.size.batch),
        units_(a_.config.num_units),
        output_size_(a_.config.output_size()),
        directions_(a_.config.num_directions),
        fan_in_(a_.config.fan_in(a_.layer)),
        skips_input_(a_.layer == 0 && a_.config.skip_input),
        is_projected_(a_.config.num_proj > 0),
        has_dot_params_(a_.dot_params != nullptr),
        group_size_(GroupSize<T>(batch_, 2)),
        tasks_(directions_, batch_, sizeof(P), a_.lengths,
               executor.num_threads(),
               {CeilDiv(output_size_, kTileCols<T>),
                2 * kTileCols<T> * Cell::kGates * units_},
               {is_projected_ ? CeilDiv(units_, kTileCols<T>) : 0,
                2 * kTileCols<T> * output_size_}) {}

  void Run() const {
    weights_.Pack(wants_input(), executor_);
    if (has_dot_params_) dot_weights_.Pack(wants_input(), executor_);
    steps_.Clear();
    // Both directions add to them, each in an order of its own.
    if (directions_ > 1) {
      for (T* d_input : {a_.d.input, a_.dot_d.input}) {
        if (d_input == nullptr) continue;
        FillZero(d_input, time_ * batch_ * fan_in_, executor_);
      }
    }
    steps_.ForEachChunk([&](const StepChunk& chunk) {
      RunSteps(chunk);
      for (std::int64_t d = 0; d < directions_; ++d) Gradients(d, chunk);
    });
    steps_.StoreBiasGradients();
  }

 private:
  using Left = MutableLeftMatrix<P>;

  // The upper half of the rows that a chunk has in a matrix are what gradients
  // change by, the lower half the gradients: the product of the transpose with
  // an input, and below it what that changes by, is then what the gradient of
  // weights changes by.
  enum Half { kDot = 0, kFirst = 1 };

  // Whether any gradient with respect to the layer's input is.
  bool wants_input() const {
    return a_.d.input != nullptr || a_.dot_d.input != nullptr;
  }

  // [B, columns] of a direction, of an array [D, B, columns].
  MatrixView<T> OfDirection(T* array, std::int64_t direction,
                            std::int64_t columns) const {
    return {array + direction * batch_ * columns, batch_, columns};
  }

  // One half of a matrix that a chunk has rows in.
  template <typename Matrix>
  Matrix HalfOf(const Matrix& both, Half half) const {
    return both.Rows(half * both.rows / 2, both.rows / 2);
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
  void StepState(const StepChunk& chunk, std::int64_t step,
                 const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = steps_.Time(d, chunk.first_step + step);
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
              const std::int64_t row = steps_.FirstRow(d, chunk, step);
              const Left both = steps_.Projected(d, chunk);
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
  void MultiplyStateGradients(const StepChunk& chunk, std::int64_t step,
                              const StepTask& task, std::int64_t panel,
                              const Products& products) const {
    const std::int64_t d = task.direction;
    const std::int64_t after = steps_.Time(d, chunk.first_step + step - 1);
    const std::int64_t rows =
        a_.lengths.ValidSamples(after, task.row, task.rows);
    const std::int64_t row = steps_.FirstRow(d, chunk, step - 1) + task.row;
    const auto factors_of = [&](Half half, const GateWeights<P, Cell>& weights,
                                std::int64_t first_panel, std::int64_t cols) {
      ProductSum<P> sum;
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        sum.Add(
            HalfOf(steps_.Block(d, Cell::kFirstRecurrent + gate, chunk), half)
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
  void StepProjection(const StepChunk& chunk, std::int64_t step,
                      const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t row = steps_.FirstRow(d, chunk, step) + task.row;
    const std::int64_t rows = a_.lengths.ValidSamples(
        steps_.Time(d, chunk.first_step + step), task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const Products products = MakeProducts(task, num_panels, worker);
      const std::int64_t col = panel * kTileCols<T>;
      MultiplyBoth(
          [&](Half half, const GateWeights<P, Cell>& weights) {
            return ProductSum<P>(
                HalfOf(steps_.Projected(d, chunk), half).Rows(row, rows),
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

  TF_RNN_OPS_VECTOR_INLINE CellColumns MakeColumns(const StepChunk& chunk,
                                                   std::int64_t step,
                                                   std::int64_t d,
                                                   std::int64_t unit) const {
    const std::int64_t row = steps_.FirstRow(d, chunk, step);
    CellColumns columns{};
    columns.t = steps_.Time(d, chunk.first_step + step);
    columns.previous_time = states_.PreviousTime(d, columns.t);
    columns.states = states_.template At<Cell>(d, columns.t, unit);
    columns.dot_states = dot_states_.template At<Cell>(d, columns.t, unit);
    const Left blocks = steps_.Block(d, 0, chunk);
    columns.d_blocks = HalfOf(blocks, kFirst).Rows(row, batch_).Column(unit);
    columns.dot_d_blocks = HalfOf(blocks, kDot).Rows(row, batch_).Column(unit);
    columns.d_blocks_stride = steps_.BlockStride();
    if constexpr (Cell::kGates == 4) {
      columns.d_c = OfDirection(a_.d.c, d, units_).Column(unit);
      columns.dot_d_c = OfDirection(a_.dot_d.c, d, units_).Column(unit);
      if (is_projected_) {
        const MatrixView<T> outputs = steps_.CellOutputs(d, chunk);
        // It meets what gradients change by, and what it changes by meets them.
        columns.cell_output =
            HalfOf(outputs, kDot).Rows(row, batch_).Column(unit);
        columns.dot_cell_output =
            HalfOf(outputs, kFirst).Rows(row, batch_).Column(unit);
      }
    }
    return columns;
  }

  // Inlined, as of few rows a call would take as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task,
                                         const CellColumns columns,
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
  void Gradients(std::int64_t d, const StepChunk& chunk) const {
    WeightGradients(d, chunk);
    if (a_.dot_d.input == nullptr) return;
    if (skips_input_) {
      RunTogether(executor_,
                  steps_.SumOfGatesWork(
                      d, chunk, steps_.RowsOf(a_.dot_d.input, d, chunk)));
    } else {
      InputGradients(d, chunk);
    }
  }

  // dR = (d blocks)ᵀ h_prev and dW = (d blocks)ᵀ x change by
  // [ḋ; d blocks]ᵀ [x; ẋ] and the like.
  void WeightGradients(std::int64_t d, const StepChunk& chunk) const {
    const auto h_prev = [&](const LayerStates<T>& of) {
      return PreviousHiddenRows<T>{of,
                                   d,
                                   steps_.FirstTime(d, chunk),
                                   batch_,
                                   steps_.Rows(chunk),
                                   output_size_};
    };
    const auto x = [&](const T* array) {
      return skips_input_ || array == nullptr ? NoMatrix<T>()
                                              : steps_.RowsOf(array, d, chunk);
    };
    const auto weights = steps_.MakeWeightGradients(
        d, chunk, StackedRows{h_prev(states_), h_prev(dot_states_)},
        StackedRows{x(a_.input), x(a_.dot_input)});
    RunTogether(executor_, weights.matrices, weights.biases);
  }

  // dx = (d blocks) W, and what it changes by: (ḋ blocks) W + (d blocks) Ẇ.
  void InputGradients(std::int64_t d, const StepChunk& chunk) const {
    const auto work = [&](Half half, const GateWeights<P, Cell>& weights,
                          T* array, bool adds) {
      ProductSum<P> sum;
      for (std::int64_t block = 0; block < Cell::kGates; ++block) {
        sum.Add(HalfOf(steps_.Block(d, block, chunk), half),
                weights.Input(d, steps_.InputGate(block)));
      }
      const MatrixView<T> out = array == nullptr
                                    ? MatrixView<T>(nullptr, 0, 0)
                                    : steps_.RowsOf(array, d, chunk);
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

  const LayerBackwardGradArguments<P> a_;
  const LayerBackwardGradScratch<P> scratch_;
  Executor& executor_;
  const GateWeights<P, Cell> weights_;
  const GateWeights<P, Cell> dot_weights_;
  const LayerStates<T> states_;
  const LayerStates<T> dot_states_;
  const StepGradients<P, Cell> steps_;
  const std::int64_t time_;
  const std::int64_t batch_;
  const std::int64_t units_;
  const std::int64_t output_size_;
  const std::int64_t directions_;
  const std::int64_t fan_in_;
  const bool skips_input_;
  const bool is_projected_;
  const bool has_dot_params_;
  const std::int64_t group_size_;
  const StepTasks tasks_;  // the hidden state's columns, the projected units
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_GRAD_H_
