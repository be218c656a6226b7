// The backward pass of one layer over a sequence, and its tangent while the
// gradients with respect to the layer's results are fixed: the gradient sweep
// of docs/design/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_

#include <array>
#include <cstdint>
#include <utility>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/cells/chosen_activation.h"
#include "cc/rnn/simd/layer/gate_masks.h"
#include "cc/rnn/simd/layer/layer_shape.h"
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

// A pass has only values, or values and their tangents: one part or two.
constexpr int kValue = 0;
constexpr int kTangent = 1;
template <typename Part, int kParts>
using Parts = std::array<Part, kParts>;

// Gradients that flow through a layer, or their tangents. See layer_shape.h for
// the sizes.
template <typename T>
struct LayerGradientArrays {
  const T* output = nullptr;  // [S, B, D * O]; null for zeros
  T* input = nullptr;         // [S, B, F], or null if not needed
  // On entry the gradients of the final states; on return those of the initial
  // ones.
  T* h = nullptr;  // [D, B, O]
  T* c = nullptr;  // [D, B, U], if there is a cell state
};

// P: the type of params and product operands.
template <typename P, int kParts>
struct LayerBackwardArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer = 0;
  Parts<Weights<const P>, kParts> weights;  // of the whole network
  Parts<const T*, kParts> input{};  // [S, B, F]; tangent: or null for zeros
  Parts<LayerStateArrays<T>, kParts> states;
  Parts<LayerGradientArrays<T>, kParts> gradients;
  // For the whole network; this layer's part is written. Null if not needed.
  // With tangents, it is the tangent of the gradient.
  Weights<T> d_weights;
  // Of TensorFlow's LSTM ops, which have no tangents, in the type of the cells:
  Peepholes<const T> peepholes{};
  LstmActivations<const T> d_activations{};
  Peepholes<T> d_peepholes{};      // null if not needed
  const T* input_masks = nullptr;  // see GateMasks
  const T* state_masks = nullptr;
};

// Number of steps whose gate gradients are kept before the gradients of the
// weights and the input are computed from them: enough for large products, but
// few enough to stay in a cache.
inline std::int64_t BackwardStepsAtOnce(const RnnSize& size, int parts) {
  constexpr std::int64_t kRows = 512;
  return Min(size.time, Max(kRows / parts / Max(size.batch, 1), 1));
}

// Scratch memory for any layer of the network.
template <typename P, int kParts>
struct LayerBackwardScratch {
  using T = ComputeType<P>;

  Parts<GateWeightsScratch<P>, kParts> weights;  // tangents: if there are any
  StepGradientsScratch<P> steps;
  // [num_threads, kParts, B, GroupSize, kTileCols]; with dropout of the state,
  // as much again for a product before it is multiplied by a mask
  T* products;
  T* masked_input;  // [StepsAtOnce * B, F], with dropout of the input

  // weights, dot_weights, gradients: of the caller; no dot_weights or gradients
  // if they are zeros or not needed.
  template <typename E, typename G>
  LayerBackwardScratch(const RnnConfig& config, const RnnSize& size,
                       const Weights<E>& weights, const Weights<E>& dot_weights,
                       const Weights<G>& gradients, int num_threads,
                       Arena& arena)
      : weights(MakeWeights(config, dot_weights.any(), arena)),
        steps(
            config,
            CheckedInt(BackwardStepsAtOnce(size, kParts)) * size.batch * kParts,
            weights, gradients, arena),
        products(arena.Take<T>(CheckedInt(config.drops_state() ? 2 : 1) *
                               num_threads * kParts * size.batch *
                               GroupSize<T>(size.batch, 1) * kTileCols<T>)),
        masked_input(
            arena.Take<T>(config.drops_input()
                              ? CheckedInt(BackwardStepsAtOnce(size, kParts)) *
                                    size.batch * config.largest_fan_in()
                              : CheckedInt(0))) {}

 private:
  static Parts<GateWeightsScratch<P>, kParts> MakeWeights(
      const RnnConfig& config, bool has_dot_params, Arena& arena) {
    Parts<GateWeightsScratch<P>, kParts> weights;
    weights[kValue] = GateWeightsScratch<P>(config, arena);
    if constexpr (kParts > 1) {
      if (has_dot_params) {
        weights[kTangent] = GateWeightsScratch<P>(config, arena);
      }
    }
    return weights;
  }
};

// Stacks one matrix on top of another, for packing.
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

// kParts: 1, or 2 to compute the tangent too.
template <typename P, typename Cell, int kParts>
class LayerBackward {
 public:
  using T = ComputeType<P>;

  LayerBackward(const LayerBackwardArguments<P, kParts>& arguments,
                const LayerBackwardScratch<P, kParts>& scratch,
                Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        shape_(a_.config, a_.size, a_.layer),
        sweep_(shape_, Sweep::kBackward, BackwardStepsAtOnce(a_.size, kParts)),
        weights_(OfParts([&](int part) {
          return GateWeights<P, Cell>(a_.config, shape_, a_.weights[part],
                                      scratch_.weights[part]);
        })),
        states_(OfParts([&](int part) {
          return LayerStates<T>(shape_, a_.lengths, a_.states[part]);
        })),
        input_masks_(GateMasks<T>::OfInput(a_.config, shape_, a_.input_masks)),
        state_masks_(GateMasks<T>::OfState(a_.config, shape_, a_.state_masks)),
        steps_(a_.config, shape_, sweep_, kParts, input_masks_, state_masks_,
               a_.d_weights, a_.d_peepholes, scratch_.steps, executor),
        has_dot_params_(kParts > 1 && a_.weights[kParts - 1].any()),
        group_size_(GroupSize<T>(shape_.batch, kParts)),
        tasks_(
            shape_.directions, shape_.batch, sizeof(P), a_.lengths,
            executor.num_threads(),
            {CeilDiv(shape_.output_size, kTileCols<T>),
             kParts * kTileCols<T> * Cell::kRecurrentGates * shape_.units},
            {shape_.has_second_half ? CeilDiv(shape_.units, kTileCols<T>) : 0,
             kParts * kTileCols<T> * shape_.output_size}) {}

  void Run() const {
    weights_[kValue].Pack(wants_input(), executor_);
    if (has_dot_params_) weights_[kParts - 1].Pack(wants_input(), executor_);
    steps_.Clear();
    // Both directions add to the input gradients, each in its own order.
    if (shape_.directions > 1) {
      for (const LayerGradientArrays<T>& gradients : a_.gradients) {
        if (gradients.input == nullptr) continue;
        FillZero(gradients.input, shape_.time * shape_.batch * shape_.fan_in,
                 executor_);
      }
    }
    sweep_.ForEachChunk(executor_, [&](const StepChunk& chunk) {
      RunSteps(chunk);
      for (std::int64_t d = 0; d < shape_.directions; ++d) {
        WeightAndInputGradients(d, chunk);
      }
    });
    steps_.StoreBiasGradients();
  }

 private:
  using Left = MutableLeftMatrix<P>;

  // {make(0), make(1), ...}
  template <typename Make>
  static auto OfParts(const Make& make) {
    if constexpr (kParts == 1) {
      return Parts<decltype(make(0)), 1>{make(0)};
    } else {
      return Parts<decltype(make(0)), 2>{make(0), make(1)};
    }
  }

  // The rows of one part in a matrix with the rows of all parts of a chunk. The
  // tangents come first. The product of the transpose with the input stacked on
  // its tangent is then the tangent of the weight gradient.
  template <typename Matrix>
  static Matrix RowsOf(int part, const Matrix& all) {
    const std::int64_t rows = all.rows / kParts;
    return all.Rows((kParts - 1 - part) * rows, rows);
  }

  // Whether a gradient with respect to the layer's input is needed.
  bool wants_input() const {
    for (const LayerGradientArrays<T>& gradients : a_.gradients) {
      if (gradients.input != nullptr) return true;
    }
    return false;
  }

  // ---- Steps

  // Leaves the gradients of the states before the last step of the chunk.
  void RunSteps(const StepChunk& chunk) const {
    if (chunk.steps == 0) return;
    tasks_.Run(
        chunk.steps, /*ends_with_first=*/true, executor_,
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepState(chunk, i, task, worker);
        },
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepFirstHalf(chunk, i, task, worker);
        });
  }

  // A worker's scratch memory for the products of a task. set: 0, or 1 for
  // products before they are multiplied by masks.
  Parts<MatrixView<T>, kParts> Products(const StepTask& task,
                                        std::int64_t num_panels, int worker,
                                        int set = 0) const {
    const std::int64_t most = shape_.batch * group_size_ * kTileCols<T>;
    const std::int64_t first =
        (set * executor_.num_threads() + worker) * kParts;
    return OfParts([&](int part) {
      return MatrixView<T>(scratch_.products + (first + part) * most, task.rows,
                           num_panels * kTileCols<T>);
    });
  }

  // out = d * weights, and its tangent ḋ * weights + d * dot_weights, for
  // `rows` rows. factors(part, weights) returns the factors of a product. then:
  // the next product.
  template <typename Factors>
  void MultiplyParts(const Factors& factors, std::int64_t rows,
                     const ProductSum<P>& then,
                     const Parts<MatrixView<T>, kParts>& out) const {
    const MatrixView<T> last = out[kParts - 1].Rows(0, rows);
    if constexpr (kParts > 1) {
      Multiply(factors(kValue, weights_[kValue]), NoMatrix<T>(),
               out[kValue].Rows(0, rows));
    }
    Multiply(factors(kParts - 1, weights_[kValue]), NoMatrix<T>(), last,
             has_dot_params_ ? ProductSum<P>() : then);
    if (has_dot_params_) {
      Multiply(factors(kValue, weights_[kParts - 1]), Constant(last), last,
               then);
    }
  }

  // The summands of the gradient of a step's result; any may be null.
  struct Incoming {
    // Through R h_prev or the projection; row 0 is the first row of the task.
    ColumnView<T> d_product;
    ColumnView<T> d_state;
    ColumnView<const T> d_output;

    template <typename Units>
    TF_RNN_OPS_VECTOR_INLINE Vector<T> Sum(std::int64_t row, std::int64_t i,
                                           const Units& units) const {
      Vector<T> sum{};
      if (d_state.data != nullptr) sum = units.Read(d_state.At(row));
      if (d_output.data != nullptr) sum += units.Read(d_output.At(row));
      if (d_product.data != nullptr) sum += units.Read(d_product.At(i));
      return sum;
    }
    // After the end of a sequence, the state gradient is passed on.
    template <typename Units>
    TF_RNN_OPS_VECTOR_INLINE void PassOn(std::int64_t row, std::int64_t i,
                                         const Units& units) const {
      if (d_state.data == nullptr || d_product.data == nullptr) return;
      T* const sum = d_state.At(row);
      units.Write(units.Read(sum) + units.Read(d_product.At(i)), sum);
    }
  };

  ColumnView<T> StateGradient(int part, std::int64_t d,
                              std::int64_t unit) const {
    return shape_.OfDirection(a_.gradients[part].h, d, shape_.output_size)
        .Column(unit);
  }

  // The summands for the hidden state at time t, starting at `unit`. d_product:
  // null in the first step of a chunk.
  Incoming StateIncoming(int part, std::int64_t d, std::int64_t t,
                         std::int64_t unit,
                         const ColumnView<T>& d_product) const {
    const LayerGradientArrays<T>& gradients = a_.gradients[part];
    Incoming incoming{};
    incoming.d_product = d_product;
    incoming.d_state = StateGradient(part, d, unit);
    if (gradients.output != nullptr) {
      incoming.d_output = shape_.OutputAt(gradients.output, d, t).Column(unit);
    }
    return incoming;
  }

  // The gradient of the hidden state has three summands: through R h_prev of
  // the following step, through the other uses of h_prev, and from the output.
  // Without a projection, the gradient of the cell follows, or of its second
  // half. After the last step of the chunk, only the gradient through R h_prev
  // is added.
  void StepState(const StepChunk& chunk, std::int64_t i, const StepTask& task,
                 int worker) const {
    const std::int64_t d = task.direction;
    const bool is_last = i == chunk.steps;
    const std::int64_t t = is_last ? 0 : sweep_.Time(d, chunk.first_step + i);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const auto products = Products(task, num_panels, worker);
      if (i > 0) {
        MultiplyStateGradients(chunk, i, task, panel, products,
                               Products(task, num_panels, worker, 1));
      }
      task.ForEachVector<T>(
          panel, num_panels, shape_.output_size, [&](auto unit, auto units) {
            const auto incoming = OfParts([&](int part) {
              return StateIncoming(
                  part, d, t, unit,
                  i > 0 ? products[part].Column(unit - panel * kTileCols<T>)
                        : ColumnView<T>{});
            });
            if (is_last) {
              for (std::int64_t row = 0; row < task.rows; ++row) {
                for (const Incoming& each : incoming) {
                  each.PassOn(task.row + row, row, units);
                }
              }
            } else if (shape_.is_projected) {
              const std::int64_t row = sweep_.FirstRow(d, chunk, i);
              const Left projected = steps_.Projected(d, chunk);
              for (int part = 0; part < kParts; ++part) {
                StoreProjected(task, t, incoming[part],
                               RowsOf(part, projected).Rows(row, shape_.batch),
                               unit, units);
              }
            } else {
              StepColumns columns = MakeColumns(chunk, i, d, unit);
              columns.incoming = incoming;
              RunActivatedCells<kAfterState>(task, columns, units);
            }
          });
    });
  }

  // The gradient through R h_prev of the following step. unmasked: scratch
  // memory like `products`, for dropout.
  void MultiplyStateGradients(
      const StepChunk& chunk, std::int64_t i, const StepTask& task,
      std::int64_t panel, const Parts<MatrixView<T>, kParts>& products,
      const Parts<MatrixView<T>, kParts>& unmasked) const {
    const std::int64_t d = task.direction;
    const std::int64_t after = sweep_.Time(d, chunk.first_step + i - 1);
    const std::int64_t rows =
        a_.lengths.ValidSamples(after, task.row, task.rows);
    const std::int64_t row = sweep_.FirstRow(d, chunk, i - 1) + task.row;
    const auto factors_of = [&](std::int64_t first_gate, std::int64_t gates,
                                int part, const GateWeights<P, Cell>& weights,
                                std::int64_t first_panel, std::int64_t cols) {
      ProductSum<P> sum;
      for (std::int64_t gate = first_gate; gate < first_gate + gates; ++gate) {
        sum.Add(
            RowsOf(part, steps_.Block(d, Cell::kFirstRecurrent + gate, chunk))
                .Rows(row, rows),
            weights.Recurrent(d, gate).Cols(first_panel * kTileCols<T>, cols));
      }
      return sum;
    };
    constexpr std::int64_t kGates = Cell::kRecurrentGates;
    const std::int64_t cols = products[kValue].cols;
    const auto multiply = [&](std::int64_t gate, std::int64_t gates,
                              const Parts<MatrixView<T>, kParts>& to) {
      const std::int64_t next =
          task.PanelAfter(panel + cols / kTileCols<T> - 1);
      MultiplyParts(
          [&](int part, const GateWeights<P, Cell>& weights) {
            return factors_of(gate, gates, part, weights, panel, cols);
          },
          rows,
          factors_of(gate, gates, kValue, weights_[kValue], next, kTileCols<T>),
          to);
    };
    if (state_masks_.any()) {
      for (std::int64_t gate = 0; gate < kGates; ++gate) {
        multiply(gate, 1, unmasked);
        Mask(gate, after, task, panel, rows, unmasked, /*adds=*/gate > 0,
             products);
      }
    } else {
      multiply(0, kGates, products);
    }
    ClearRowsPastTheEnd(after, task, products);
  }

  // to = from times the mask of a gate at time t, or adds that; `rows` rows.
  // `from` and `to` may be the same.
  void Mask(std::int64_t gate, std::int64_t t, const StepTask& task,
            std::int64_t panel, std::int64_t rows,
            const Parts<MatrixView<T>, kParts>& from, bool adds,
            const Parts<MatrixView<T>, kParts>& to) const {
    const MatrixView<const T> masks = state_masks_.At(gate, t);
    const std::int64_t first = panel * kTileCols<T>;
    task.ForEachVector<T>(
        panel, from[kValue].cols / kTileCols<T>, shape_.units,
        [&](auto unit, auto units) {
          for (int part = 0; part < kParts; ++part) {
            for (std::int64_t row = 0; row < rows; ++row) {
              T* const sum = to[part].At(row, unit - first);
              Vector<T> x = units.Read(from[part].At(row, unit - first)) *
                            units.Read(masks.At(task.row + row, unit));
              if (adds) x += units.Read(sum);
              units.Write(x, sum);
            }
          }
        });
  }

  // After its end, a sequence has zero gradients even if weights are not
  // finite.
  void ClearRowsPastTheEnd(std::int64_t t, const StepTask& task,
                           const Parts<MatrixView<T>, kParts>& products) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      if (a_.lengths.IsValid(t, task.row + i)) continue;
      for (const MatrixView<T>& product : products) {
        CopyInitial(NoMatrix<T>(), product.Rows(i, 1));
      }
    }
  }

  // The gradient of the projection's result: from the state and the output.
  // to: [B, O] of the step.
  template <typename Units>
  void StoreProjected(const StepTask& task, std::int64_t t,
                      const Incoming& incoming, const Left& to,
                      std::int64_t unit, const Units& units) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      Vector<T> d_projected{};
      if (a_.lengths.IsValid(t, row)) {
        d_projected = ProjectedSum(incoming, row, i, units);
        units.Write(Vector<T>{}, incoming.d_state.At(row));
      } else {
        incoming.PassOn(row, i, units);
      }
      units.Write(d_projected, to.At(row, unit));
    }
  }

  // Without tangents, the output gradient is added last.
  template <typename Units>
  static Vector<T> ProjectedSum(Incoming incoming, std::int64_t row,
                                std::int64_t i, const Units& units) {
    if (kParts > 1 || incoming.d_output.data == nullptr) {
      return incoming.Sum(row, i, units);
    }
    const ColumnView<const T> d_output =
        std::exchange(incoming.d_output, ColumnView<const T>{});
    return incoming.Sum(row, i, units) + units.Read(d_output.At(row));
  }

  // The gradient of the cell, through h = P (o ∘ tanh(c)); or of the first half
  // of the cell, through R_n (r ∘ h_prev).
  void StepFirstHalf(const StepChunk& chunk, std::int64_t i,
                     const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t row = sweep_.FirstRow(d, chunk, i) + task.row;
    const std::int64_t rows = a_.lengths.ValidSamples(
        sweep_.Time(d, chunk.first_step + i), task.row, task.rows);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const auto products = Products(task, num_panels, worker);
      const std::int64_t col = panel * kTileCols<T>;
      MultiplyParts(
          [&](int part, const GateWeights<P, Cell>& weights) {
            return ProductSum<P>(
                RowsOf(part, steps_.SecondHalf(d, chunk)).Rows(row, rows),
                weights.Second(d).Cols(col, products[kValue].cols));
          },
          rows, ProductSum<P>(), products);
      if (kHasFinish<Cell> && state_masks_.any()) {
        Mask(Cell::kGates - 1, sweep_.Time(d, chunk.first_step + i), task,
             panel, rows, products, /*adds=*/false, products);
      }
      task.ForEachVector<T>(
          panel, num_panels, shape_.units, [&](auto unit, auto units) {
            StepColumns columns = MakeColumns(chunk, i, d, unit);
            for (int part = 0; part < kParts; ++part) {
              Incoming& incoming = columns.incoming[part];
              incoming.d_product = products[part].Column(unit - col);
              if constexpr (kHasFinish<Cell>) {
                incoming.d_state = StateGradient(part, d, unit);
              }
            }
            RunActivatedCells<kHasFinish<Cell> ? kAfterProduct : kAfterState>(
                task, columns, units);
          });
    });
  }

  // ---- Cells

  // When cells run: when the gradient of the state is known, the sum of what is
  // incoming; or, for the first half of a cell that has two, when that of its
  // result is, the product. They then add to the gradient of the state.
  enum Moment { kAfterState, kAfterProduct };

  // The units of a vector, for each row of a step.
  struct StepColumns {
    std::int64_t t;
    std::int64_t previous_time;
    std::int64_t d_blocks_stride;
    Parts<typename LayerStates<T>::Columns, kParts> states;
    Parts<Incoming, kParts> incoming;
    Parts<ColumnView<T>, kParts> d_c;
    Parts<ColumnView<P>, kParts> d_blocks;
    Parts<ColumnView<T>, kParts> cell_output;
    Peepholes<const T> peepholes;
    LstmActivations<const T> d_activations;
  };

  TF_RNN_OPS_VECTOR_INLINE StepColumns MakeColumns(const StepChunk& chunk,
                                                   std::int64_t i,
                                                   std::int64_t d,
                                                   std::int64_t unit) const {
    const std::int64_t row = sweep_.FirstRow(d, chunk, i);
    StepColumns columns{};
    columns.t = sweep_.Time(d, chunk.first_step + i);
    columns.previous_time = LayerStates<T>::PreviousTime(d, columns.t);
    columns.d_blocks_stride = steps_.BlockStride();
    if constexpr (Cell::kIsBlockLstm) {
      columns.peepholes = a_.peepholes.At(unit);
      columns.d_activations =
          a_.d_activations.At(columns.t * shape_.batch * shape_.units + unit);
    }
    for (int part = 0; part < kParts; ++part) {
      columns.states[part] =
          states_[part].template At<Cell>(d, columns.t, unit);
      columns.d_blocks[part] = RowsOf(part, steps_.Block(d, 0, chunk))
                                   .Rows(row, shape_.batch)
                                   .Column(unit);
      if constexpr (Cell::kHasCellState) {
        columns.d_c[part] =
            shape_.OfDirection(a_.gradients[part].c, d, shape_.units)
                .Column(unit);
      }
      if (shape_.has_second_half) {
        // The value pairs with the tangent of the gradient, and vice versa.
        columns.cell_output[part] =
            RowsOf(kParts - 1 - part, steps_.CellOutputs(d, chunk))
                .Rows(row, shape_.batch)
                .Column(unit);
      }
    }
    return columns;
  }

  template <Moment kMoment, typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunActivatedCells(const StepTask& task,
                                                  const StepColumns& columns,
                                                  const Units& units) const {
    WithActivations<T, Cell>(
        a_.config, [&](auto activations) TF_RNN_OPS_LAMBDA_INLINE {
          RunCells<kMoment>(task, columns, units, activations);
        });
  }

  // Inlined because for few rows a call takes as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <Moment kMoment, typename Units, typename Activations>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task,
                                         const StepColumns columns,
                                         const Units units,
                                         const Activations activations) const {
    const SequenceLengths lengths = a_.lengths;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      if (!lengths.IsValid(columns.t, row)) {
        if (kMoment == kAfterState) SkipCell(columns, row, i, units);
        continue;
      }
      const bool has_previous = lengths.IsValid(columns.previous_time, row);
      const auto run_of = [&](int part) TF_RNN_OPS_LAMBDA_INLINE {
        const typename LayerStates<T>::Columns& states = columns.states[part];
        const ColumnView<T>& cell_output = columns.cell_output[part];
        const T* const previous = states.Previous(has_previous, row);
        BackwardRun<P, Units, Activations> run{};
        run.units = units;
        run.peepholes = columns.peepholes;
        run.activations = activations;
        run.states = {units, states.are_pairs};
        run.kept = states.kept.At(row);
        run.kept_stride = states.kept_stride;
        run.h_prev = previous;
        run.c_prev = previous;
        run.d_h = kMoment == kAfterState
                      ? columns.incoming[part].Sum(row, i, units)
                      : units.Read(columns.incoming[part].d_product.At(i));
        run.d_c = columns.d_c[part].At(row);
        run.d_blocks = columns.d_blocks[part].At(row);
        run.d_blocks_stride = columns.d_blocks_stride;
        if (cell_output.data != nullptr) run.cell_output = cell_output.At(row);
        run.d_activations = columns.d_activations.At(row * shape_.units);
        return run;
      };
      const auto write = [&](int part,
                             Vector<T> d_h_prev) TF_RNN_OPS_LAMBDA_INLINE {
        const ColumnView<T>& d_state = columns.incoming[part].d_state;
        if (d_state.data == nullptr) return;
        T* const to = d_state.At(row);
        if (kMoment == kAfterProduct) d_h_prev = units.Read(to) + d_h_prev;
        units.Write(d_h_prev, to);
      };
      if constexpr (kParts == 1) {
        write(kValue, BackwardAt<kMoment>(run_of(kValue)));
      } else {
        const Dual<T> d_h_prev =
            BackwardAt<kMoment>(DualRun<P, Units, Activations>{
                activations, run_of(kValue), run_of(kTangent)});
        write(kValue, d_h_prev.value);
        write(kTangent, d_h_prev.tangent);
      }
    }
  }

  template <Moment kMoment, typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto BackwardAt(const Run& run) {
    if constexpr (kMoment == kAfterState) {
      return Cell::Backward(run);
    } else {
      return Cell::FinishBackward(run);
    }
  }

  template <typename Units>
  void SkipCell(const StepColumns& columns, std::int64_t row, std::int64_t i,
                const Units& units) const {
    for (int part = 0; part < kParts; ++part) {
      for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
        units.Write(Vector<T>{}, columns.d_blocks[part].At(row) +
                                     block * columns.d_blocks_stride);
      }
      if (columns.cell_output[part].data != nullptr) {
        units.Write(Vector<T>{}, columns.cell_output[part].At(row));
      }
      columns.incoming[part].PassOn(row, i, units);
    }
  }

  // ---- Gradients of the weights and the input, accumulated over chunks

  void WeightAndInputGradients(std::int64_t d, const StepChunk& chunk) const {
    const auto weights = MakeWeightGradients(d, chunk);
    T* const d_input = a_.gradients[kParts - 1].input;
    if (shape_.skips_input && d_input != nullptr) {
      RunTogether(
          executor_, weights.matrices, weights.biases,
          steps_.SumOfGatesWork(
              d, chunk, sweep_.RowsOf(d_input, shape_.fan_in, d, chunk)));
      return;
    }
    if (input_masks_.any()) {
      RunTogether(executor_, weights.matrices, weights.biases);
      AddMaskedInputGradients(chunk);
      return;
    }
    const bool adds = shape_.directions > 1;
    WorkList<MultiplyWork<P>> inputs;
    for (int part = 0; part < kParts; ++part) {
      inputs.Add(InputGradientWork(d, chunk, part, weights_[kValue],
                                   a_.gradients[part].input, adds));
    }
    RunTogether(executor_, inputs, weights.matrices, weights.biases);
    if (has_dot_params_) {
      RunTogether(executor_,
                  InputGradientWork(d, chunk, kValue, weights_[kParts - 1],
                                    d_input, /*adds=*/true));
    }
  }

  // The gradients of the input with a mask for each gate, in one direction.
  void AddMaskedInputGradients(const StepChunk& chunk) const {
    T* const d_input = a_.gradients[kParts - 1].input;
    for (std::int64_t block = 0; block < Cell::kGates; ++block) {
      for (int part = 0; part < kParts; ++part) {
        AddMaskedInputGradient(chunk, part, block, weights_[kValue],
                               a_.gradients[part].input, /*adds=*/block > 0);
      }
      if (has_dot_params_) {
        AddMaskedInputGradient(chunk, kValue, block, weights_[kParts - 1],
                               d_input, /*adds=*/true);
      }
    }
  }
  // to = (d block W) ∘ mask, or adds that, for one part of the gradients;
  // nothing if `to` is null.
  void AddMaskedInputGradient(const StepChunk& chunk, int part,
                              std::int64_t block,
                              const GateWeights<P, Cell>& weights, T* to,
                              bool adds) const {
    if (to == nullptr) return;
    const std::int64_t gate = InputGate<Cell>(block);
    const MatrixView<T> out = sweep_.RowsOf(to, shape_.fan_in, 0, chunk);
    const MatrixView<T> product(scratch_.masked_input, out.rows, out.cols);
    const ProductSum<P> sum(RowsOf(part, steps_.Block(0, block, chunk)),
                            weights.Input(0, gate));
    RunTogether(executor_, MultiplyWork<P>(sum, NoMatrix<T>(), product,
                                           executor_.num_threads()));
    const std::int64_t first_time = sweep_.FirstTime(0, chunk);
    executor_.ParallelFor(out.rows, [&](std::int64_t row) {
      const T* const mask =
          input_masks_.At(gate, first_time + row / shape_.batch)
              .Row(row % shape_.batch);
      for (std::int64_t i = 0; i < out.cols; ++i) {
        const T x = *product.At(row, i) * mask[i];
        *out.At(row, i) = adds ? *out.At(row, i) + x : x;
      }
    });
  }

  // dR = (d blocks)ᵀ h_prev and dW = (d blocks)ᵀ x, or their tangents, such as
  // [ḋ blocks; d blocks]ᵀ [h_prev; ḣ_prev].
  typename StepGradients<P, Cell>::WeightGradients MakeWeightGradients(
      std::int64_t d, const StepChunk& chunk) const {
    const auto h_prev = OfParts([&](int part) {
      return PreviousHiddenRows<T>{states_[part],
                                   d,
                                   sweep_.FirstTime(d, chunk),
                                   shape_.batch,
                                   sweep_.Rows(chunk),
                                   shape_.output_size};
    });
    const auto x = OfParts([&](int part) {
      const T* const array = a_.input[part];
      return shape_.skips_input || array == nullptr
                 ? NoMatrix<T>()
                 : sweep_.RowsOf(array, shape_.fan_in, d, chunk);
    });
    if constexpr (kParts == 1) {
      return steps_.MakeWeightGradients(d, chunk, h_prev[kValue], x[kValue]);
    } else {
      return steps_.MakeWeightGradients(
          d, chunk, StackedRows{h_prev[kValue], h_prev[kTangent]},
          StackedRows{x[kValue], x[kTangent]});
    }
  }

  // to = (d blocks) W, for one part of the gradients; nothing if `to` is null.
  MultiplyWork<P> InputGradientWork(std::int64_t d, const StepChunk& chunk,
                                    int part,
                                    const GateWeights<P, Cell>& weights, T* to,
                                    bool adds) const {
    const int num_threads = executor_.num_threads();
    if (to == nullptr) {
      const MatrixView<T> none(nullptr, 0, 0);
      return {ProductSum<P>(), NoMatrix<T>(), none, num_threads};
    }
    ProductSum<P> sum;
    for (std::int64_t block = 0; block < Cell::kGates; ++block) {
      sum.Add(RowsOf(part, steps_.Block(d, block, chunk)),
              weights.Input(d, InputGate<Cell>(block)));
    }
    const MatrixView<T> out = sweep_.RowsOf(to, shape_.fan_in, d, chunk);
    return {sum, adds ? Constant(out) : NoMatrix<T>(), out, num_threads};
  }

  const LayerBackwardArguments<P, kParts> a_;
  const LayerBackwardScratch<P, kParts> scratch_;
  Executor& executor_;
  const LayerShape shape_;
  const Sweep sweep_;
  const Parts<GateWeights<P, Cell>, kParts> weights_;
  const Parts<LayerStates<T>, kParts> states_;
  const GateMasks<T> input_masks_;
  const GateMasks<T> state_masks_;
  const StepGradients<P, Cell> steps_;
  const bool has_dot_params_;
  const std::int64_t group_size_;
  const StepTasks tasks_;  // columns of the state, projected units
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_BACKWARD_H_
