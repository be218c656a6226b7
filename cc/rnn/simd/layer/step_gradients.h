// Stores the gate gradients of some steps of a backward sweep, and computes the
// weight gradients from them.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/gate_masks.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether products require a packed transpose of their left operand.
template <typename P>
constexpr bool kTransposesLeft = kRoundsOperands<P>;

// Scratch memory for any layer of the network. Sizes: see cc/rnn/network.h;
// F = fan_in of the layer, N = blocks of the cell, R = rows.
template <typename P>
struct StepGradientsScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  P* blocks;        // [D, N] left operands [R, U], and one for each peephole
  P* projected;     // [D] left operands [R, O], with a projection
  T* cell_outputs;  // [D, R, U], if steps have second halves
  // Only if the gradients of the weights are needed:
  // A right operand [R, U], if steps have second halves; with Keras's weights a
  // left one.
  P* packed_cell_outputs;
  // A right operand [R, F]; with Keras's weights [input copies] left ones.
  P* input;
  // A right operand [R, O]; with Keras's weights [state copies] left ones.
  P* states;
  P* right_blocks;  // [N] right operands [R, U], with Keras's weights
  // The transposes of the left operands: [N] of [U, R], and one [O, R] with a
  // projection; with Keras's weights [input copies] of [F, R], if steps have
  // second halves one [U, R], and [state copies] of [O, R].
  P* transposed;
  T* biases;  // [D, N, U], and [U] for each peephole

  // rows: the total rows of the steps kept at once.
  // weights, gradients: of the caller; no gradients if not needed.
  template <typename E, typename G>
  StepGradientsScratch(const RnnConfig& config, CheckedInt rows,
                       const Weights<E>& weights, const Weights<G>& gradients,
                       Arena& arena) {
    const CheckedInt directions = config.num_directions;
    const CheckedInt units = config.num_units;
    const std::int64_t num_blocks = TraitsOf(config.mode).blocks;
    const std::int64_t output_size = config.output_size();
    const std::int64_t projections = config.num_proj > 0 ? 1 : 0;
    const std::int64_t second_halves = config.has_second_half() ? 1 : 0;
    const std::int64_t peepholes =
        gradients.peepholes.any() ? kNumPeepholes : 0;
    blocks = arena.Take<P>((directions * num_blocks + peepholes) *
                           Left::Size(rows, config.num_units));
    projected =
        arena.Take<P>(directions * projections * Left::Size(rows, output_size));
    cell_outputs =
        arena.Take<T>(directions * second_halves * rows * config.num_units);
    const CheckedInt depth = gradients.any() ? rows : CheckedInt(0);
    packed_cell_outputs = arena.Take<P>(
        second_halves * (weights.is_keras()
                             ? Left::Size(depth, config.num_units)
                             : Right::Size(depth, config.num_units)));
    const std::int64_t fan_in = config.largest_fan_in();
    CheckedInt transposed_size =
        projections * Left::Size(output_size, depth.value());
    if (weights.is_keras()) {
      const std::int64_t input_copies = config.num_input_copies();
      const std::int64_t copies = config.num_state_copies();
      input = arena.Take<P>(input_copies * Left::Size(depth, fan_in));
      states = arena.Take<P>(copies * Left::Size(depth, output_size));
      right_blocks =
          arena.Take<P>(num_blocks * Right::Size(depth, config.num_units));
      transposed_size = input_copies * Left::Size(fan_in, depth.value()) +
                        second_halves * Left::Size(units, depth.value()) +
                        copies * Left::Size(output_size, depth.value());
    } else {
      input = arena.Take<P>(Right::Size(depth, fan_in));
      states = arena.Take<P>(Right::Size(depth, output_size));
      right_blocks = nullptr;
      transposed_size =
          transposed_size + num_blocks * Left::Size(units, depth.value());
    }
    transposed =
        arena.Take<P>(kTransposesLeft<P> ? transposed_size : CheckedInt(0));
    biases = arena.Take<T>((directions * num_blocks + peepholes) * units);
  }
};

// The gradients of a step have the rows of the batch, `times` times: first the
// rows of all steps in order of time, then the same number of rows again.
template <typename P, typename Cell>
class StepGradients {
 public:
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  // The product of the transpose of a matrix with another.
  using WeightWork = std::conditional_t<kTransposesLeft<P>, MultiplyWork<P>,
                                        MultiplyTransposedWork<T>>;
  // The work that computes the gradients of a direction's weights.
  struct WeightGradients {
    WorkList<WeightWork> matrices;
    WorkList<ColumnSumsWork<P>> biases;
  };

  // times: how many times the gradients contain the rows of the batch.
  // d_weights: of the whole network; this layer's part is written. Null if not
  // needed. d_peepholes: likewise.
  StepGradients(const RnnConfig& config, const LayerShape& shape,
                const Sweep& sweep, std::int64_t times,
                const GateMasks<T>& input_masks,
                const GateMasks<T>& state_masks, const Weights<T>& d_weights,
                const Peepholes<T>& d_peepholes,
                const StepGradientsScratch<P>& scratch, Executor& executor)
      : scratch_(scratch),
        executor_(executor),
        shape_(shape),
        sweep_(sweep),
        times_(times),
        input_masks_(input_masks),
        state_masks_(state_masks),
        wants_weights_(d_weights.any()),
        first_sum_(wants_weights_ ? 0 : Cell::kBlocks),
        end_of_sums_(Cell::kBlocks + (d_peepholes.any() ? kNumPeepholes : 0)),
        d_params_(config, shape, d_weights),
        d_peepholes_(d_peepholes) {}

  // The gradient of a block of the cell, [times * Rows(chunk), U]. After the
  // blocks come the terms of the gradients of the peepholes.
  Left Block(std::int64_t direction, std::int64_t block,
             const StepChunk& chunk) const {
    return Nth(direction * Cell::kBlocks + block, scratch_.blocks, shape_.units,
               chunk);
  }
  // The distance between blocks.
  std::int64_t BlockStride() const {
    return SizeOf<Left>(MostRows(), shape_.units);
  }
  // The gradient of the projection's output, [times * Rows(chunk), O].
  Left Projected(std::int64_t direction, const StepChunk& chunk) const {
    return Nth(direction, scratch_.projected, shape_.output_size, chunk);
  }
  // What the second half of a step multiplies with weights in the backward
  // pass.
  Left SecondHalf(std::int64_t direction, const StepChunk& chunk) const {
    if constexpr (kHasFinish<Cell>) {
      return Block(direction, Cell::kGates - 1, chunk);
    } else {
      return Projected(direction, chunk);
    }
  }
  // Storage for what it multiplies in the forward pass, [times * Rows(chunk),
  // U].
  MatrixView<T> CellOutputs(std::int64_t direction,
                            const StepChunk& chunk) const {
    return {scratch_.cell_outputs + direction * MostRows() * shape_.units,
            times_ * sweep_.Rows(chunk), shape_.units};
  }

  // Call before the first step. Clears the padding columns, which products read
  // and which must be finite.
  void Clear() const {
    if (!kRoundsOperands<P>) return;
    if (shape_.units % Left::kCols != 0) {
      FillZero(scratch_.blocks,
               ((shape_.directions - 1) * Cell::kBlocks + end_of_sums_) *
                   BlockStride(),
               executor_);
    }
    if (shape_.is_projected) {
      FillZero(scratch_.projected,
               shape_.directions * SizeOf<Left>(MostRows(), shape_.output_size),
               executor_);
    }
  }

  // Computes dR = (d blocks)ᵀ h_prev, dW = (d blocks)ᵀ x and dP = (d
  // projected)ᵀ (cell outputs), or their transposes; each chunk adds its part.
  // The bias gradients are the sums of the first Rows(chunk) rows of the
  // blocks. Does nothing if no gradients are needed.
  // h_prev: [times * Rows(chunk), O]; x: [at most as many rows, F], unless the
  // input is skipped. Packs both.
  template <typename Hidden, typename Input>
  WeightGradients MakeWeightGradients(std::int64_t direction,
                                      const StepChunk& chunk,
                                      const Hidden& h_prev,
                                      const Input& x) const {
    WeightGradients gradients;
    const bool add = chunk.first_step > 0;
    if (wants_weights_ && d_params_.is_transposed()) {
      AddTransposedMatrices(direction, chunk, h_prev, x, add, &gradients);
    } else if (wants_weights_) {
      if constexpr (!kHasFinish<Cell>) {
        AddMatrices(direction, chunk, h_prev, x, add, &gradients);
      }
    }
    for (std::int64_t block = first_sum_; block < end_of_sums_; ++block) {
      gradients.biases.Add(
          {Block(direction, block, chunk).Rows(0, sweep_.Rows(chunk)), add,
           BiasGradients(direction, block)});
    }
    return gradients;
  }

  // Call after the last chunk.
  void StoreBiasGradients() const {
    const auto store = [&](std::int64_t d, std::int64_t block, T* to) {
      if (to != nullptr) {
        std::copy_n(BiasGradients(d, block), shape_.units, to);
      }
    };
    for (std::int64_t d = 0; d < shape_.directions && wants_weights_; ++d) {
      const auto input = d_params_.InputBiases(d);
      const auto recurrent = d_params_.RecurrentBiases(d);
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        store(d, gate, input[InputGate<Cell>(gate)]);
        store(d, Cell::kFirstRecurrent + gate, recurrent[gate]);
      }
    }
    for (std::int64_t i = Cell::kBlocks; i < end_of_sums_; ++i) {
      store(0, i, d_peepholes_.arrays[i - Cell::kBlocks]);
    }
  }

  // The gradient of an input that is added to each gate: the sum over the
  // gates, for the first Rows(chunk) rows. With two directions, it is added to
  // `to`.
  // to: [as many rows, U].
  auto SumOfGatesWork(std::int64_t direction, const StepChunk& chunk,
                      const MatrixView<T>& to) const {
    return Tasks{
        to.rows, [=](std::int64_t row) {
          for (std::int64_t unit = 0; unit < shape_.units; ++unit) {
            T* const sum = to.At(row, unit);
            T total = shape_.directions > 1 ? *sum : T(0);
            for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
              total += Widened(*Block(direction, gate, chunk).At(row, unit));
            }
            *sum = total;
          }
        }};
  }

 private:
  // In cuDNN's layout: products with the transposed blocks.
  template <typename Hidden, typename Input>
  void AddMatrices(std::int64_t direction, const StepChunk& chunk,
                   const Hidden& h_prev, const Input& x, bool add,
                   WeightGradients* gradients) const {
    const Right input(scratch_.input, x.rows, shape_.fan_in);
    const Right states(scratch_.states, h_prev.rows, shape_.output_size);
    const Right cell_outputs(scratch_.packed_cell_outputs, h_prev.rows,
                             shape_.units);
    RunTogether(
        executor_, PackWork(h_prev, states), PackWork(x, input),
        PackWork(shape_.is_projected ? Constant(CellOutputs(direction, chunk))
                                     : NoMatrix<T>(),
                 cell_outputs));
    if constexpr (kTransposesLeft<P>) TransposeBlocks(direction, chunk);
    for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
      const std::int64_t block = Cell::kFirstRecurrent + gate;
      gradients->matrices.Add(
          MakeWeightWork(Block(direction, block, chunk), TransposedBlock(block),
                         states, add, d_params_.Recurrent(direction, gate)));
      if (shape_.skips_input) continue;
      gradients->matrices.Add(MakeWeightWork(
          Block(direction, gate, chunk).Rows(0, x.rows), TransposedBlock(gate),
          input, add, d_params_.Input(direction, InputGate<Cell>(gate))));
    }
    if (shape_.is_projected) {
      gradients->matrices.Add(MakeWeightWork(
          Projected(direction, chunk), TransposedBlock(Cell::kBlocks),
          cell_outputs, add, d_params_.Projection(direction)));
    }
  }

  // In Keras's layout: products with the blocks.
  template <typename Hidden, typename Input>
  void AddTransposedMatrices(std::int64_t direction, const StepChunk& chunk,
                             const Hidden& h_prev, const Input& x, bool add,
                             WeightGradients* gradients) const {
    // The first copies.
    const Left input(scratch_.input, x.rows, shape_.fan_in);
    const Left states(scratch_.states, h_prev.rows, shape_.output_size);
    const std::int64_t first_time = sweep_.FirstTime(direction, chunk);
    const std::int64_t step_rows = sweep_.Rows(chunk);
    WorkList<RepackWork<P, Right>> blocks;
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      blocks.Add({Block(direction, block, chunk), RightBlock(block, chunk)});
    }
    RunTogether(executor_,
                PackMaskedWork(h_prev, states, state_masks_, /*first_gate=*/0,
                               Cell::kRecurrentGates, first_time, step_rows),
                PackMaskedWork(x, input, input_masks_, /*first_gate=*/0,
                               Cell::kGates, first_time, step_rows),
                blocks);
    const auto transposed_input = [&](std::int64_t copy) {
      return scratch_.transposed +
             copy * SizeOf<Left>(shape_.fan_in, MostRows());
    };
    P* const transposed_cell_outputs = transposed_input(shape_.input_copies);
    P* const transposed_states =
        transposed_cell_outputs +
        (shape_.has_second_half ? SizeOf<Left>(shape_.units, MostRows()) : 0);
    const auto transposed_state = [&](std::int64_t copy) {
      return transposed_states +
             copy * SizeOf<Left>(shape_.output_size, MostRows());
    };
    if constexpr (kTransposesLeft<P>) {
      WorkList<TransposeLeftWork<P>> copies;
      for (std::int64_t i = 0; i < shape_.input_copies; ++i) {
        copies.Add({NthCopy(input, i), transposed_input(i)});
      }
      for (std::int64_t i = 0; i < shape_.state_copies; ++i) {
        copies.Add({NthCopy(states, i), transposed_state(i)});
      }
      RunTogether(executor_, copies);
    }
    for (std::int64_t gate = 0; gate < Cell::kRecurrentGates; ++gate) {
      const std::int64_t copy = Min(gate, shape_.state_copies - 1);
      gradients->matrices.Add(
          MakeWeightWork(NthCopy(states, copy), transposed_state(copy),
                         RightBlock(Cell::kFirstRecurrent + gate, chunk), add,
                         d_params_.Recurrent(direction, gate)));
    }
    if constexpr (kHasFinish<Cell>) {
      const Left cell_outputs(scratch_.packed_cell_outputs, h_prev.rows,
                              shape_.units);
      constexpr std::int64_t kLast = Cell::kGates - 1;
      RunTogether(executor_,
                  PackMaskedWork(Constant(CellOutputs(direction, chunk)),
                                 cell_outputs, state_masks_, kLast, /*gates=*/1,
                                 first_time, step_rows));
      if constexpr (kTransposesLeft<P>) {
        RunTogether(executor_, TransposeLeftWork<P>(cell_outputs,
                                                    transposed_cell_outputs));
      }
      gradients->matrices.Add(MakeWeightWork(
          cell_outputs, transposed_cell_outputs, RightBlock(kLast, chunk), add,
          d_params_.Recurrent(direction, kLast)));
    }
    for (std::int64_t block = 0; block < Cell::kGates; ++block) {
      const std::int64_t gate = InputGate<Cell>(block);
      const std::int64_t copy = Min(gate, shape_.input_copies - 1);
      gradients->matrices.Add(
          MakeWeightWork(NthCopy(input, copy), transposed_input(copy),
                         RightBlock(block, chunk).Rows(0, x.rows), add,
                         d_params_.Input(direction, gate)));
    }
  }

  std::int64_t MostRows() const {
    return times_ * sweep_.steps_at_once() * shape_.batch;
  }
  // One of the consecutive matrices in an array.
  Left Nth(std::int64_t index, P* array, std::int64_t cols,
           const StepChunk& chunk) const {
    return Left(array + index * SizeOf<Left>(MostRows(), cols), MostRows(),
                cols)
        .Rows(0, times_ * sweep_.Rows(chunk));
  }
  T* BiasGradients(std::int64_t direction, std::int64_t block) const {
    return scratch_.biases + (direction * Cell::kBlocks + block) * shape_.units;
  }
  // A block as a right operand, [times * Rows(chunk), U].
  Right RightBlock(std::int64_t block, const StepChunk& chunk) const {
    return {
        scratch_.right_blocks + block * SizeOf<Right>(MostRows(), shape_.units),
        times_ * sweep_.Rows(chunk), shape_.units};
  }
  // transposed: the transpose of a matrix whose first rows are `left`.
  WeightWork MakeWeightWork(const Left& left, P* transposed, const Right& right,
                            bool add, const MatrixView<T>& out) const {
    const int num_threads = executor_.num_threads();
    if constexpr (kTransposesLeft<P>) {
      return {ProductSum<P>(Left(transposed, left.cols, left.rows), right),
              add ? Constant(out) : NoMatrix<T>(), out, num_threads};
    } else {
      return {left, right, add, out, num_threads};
    }
  }

  // The transpose of a block; with index kBlocks, that of the projected
  // gradients.
  P* TransposedBlock(std::int64_t block) const {
    return scratch_.transposed + block * SizeOf<Left>(shape_.units, MostRows());
  }
  void TransposeBlocks(std::int64_t direction, const StepChunk& chunk) const {
    WorkList<TransposeLeftWork<P>> blocks;
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      blocks.Add({Block(direction, block, chunk), TransposedBlock(block)});
    }
    if (shape_.is_projected) {
      blocks.Add({Projected(direction, chunk), TransposedBlock(Cell::kBlocks)});
    }
    RunTogether(executor_, blocks);
  }

  const StepGradientsScratch<P> scratch_;
  Executor& executor_;
  const LayerShape shape_;
  const Sweep sweep_;
  const std::int64_t times_;
  const GateMasks<T> input_masks_;
  const GateMasks<T> state_masks_;
  const bool wants_weights_;
  // The blocks whose rows are summed.
  const std::int64_t first_sum_;
  const std::int64_t end_of_sums_;
  const LayerParams<T> d_params_;
  const Peepholes<T> d_peepholes_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_
