// The gradients of a layer's gates at the steps of a sweep backward: where they
// are kept, some steps at a time, and the gradients of the weights, which are
// made of them.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether products want the transpose of their left operand packed.
template <typename P>
constexpr bool kTransposesLeft = kRoundsOperands<P>;

// Scratch memory, enough for any layer of the network. Sizes as in
// cc/rnn/cudnn_rnn.h; F = fan_in of the layer, N = the blocks of the cell,
// R = rows.
template <typename P>
struct StepGradientsScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  P* blocks;        // [D, N] left operands [R, U]
  P* projected;     // [D] left operands [R, O], with a projection
  T* cell_outputs;  // [D, R, U], with a projection
  // If the gradients of the params are wanted.
  P* packed_cell_outputs;  // a right operand [R, U], with a projection
  P* transposed;  // [N] left operands [U, R], and one [O, R] with a projection
  P* input;       // a right operand [R, F]
  P* states;      // a right operand [R, O]
  T* biases;      // [D, N, U]

  // rows: those of as many steps as are kept at once.
  StepGradientsScratch(const RnnConfig& config, CheckedInt rows,
                       bool wants_params, Arena& arena) {
    const CheckedInt directions = config.num_directions;
    const CheckedInt units = config.num_units;
    const std::int64_t num_blocks = TraitsOf(config.mode).blocks;
    const std::int64_t output_size = config.output_size();
    const std::int64_t projections = config.num_proj > 0 ? 1 : 0;
    blocks = arena.Take<P>(directions * num_blocks *
                           Left::Size(rows, config.num_units));
    projected =
        arena.Take<P>(directions * projections * Left::Size(rows, output_size));
    cell_outputs =
        arena.Take<T>(directions * projections * rows * config.num_units);
    const CheckedInt depth = wants_params ? rows : CheckedInt(0);
    packed_cell_outputs =
        arena.Take<P>(projections * Right::Size(depth, config.num_units));
    transposed = arena.Take<P>(
        kTransposesLeft<P>
            ? num_blocks * Left::Size(units, depth.value()) +
                  projections * Left::Size(output_size, depth.value())
            : CheckedInt(0));
    input = arena.Take<P>(Right::Size(depth, config.largest_fan_in()));
    states = arena.Take<P>(Right::Size(depth, output_size));
    biases = arena.Take<T>(directions * num_blocks * units);
  }
};

// At each step a gradient has the rows of the batch, once or several times
// over: first all steps' rows, in the order of time, then as many again.
template <typename P, typename Cell>
class StepGradients {
 public:
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Right = MutableRightMatrix<P>;

  // The product of the transpose of a matrix with another.
  using WeightWork = std::conditional_t<kTransposesLeft<P>, MultiplyWork<P>,
                                        MultiplyTransposedWork<T>>;
  // What makes the gradients of a direction's weights.
  struct WeightGradients {
    WorkList<WeightWork> matrices;
    WorkList<ColumnSumsWork<P>> biases;
  };

  // times: how often a gradient has the rows of the batch.
  // d_params: of the whole network: this layer's part is written; null if not
  // wanted.
  StepGradients(const RnnConfig& config, const LayerShape& shape,
                const Sweep& sweep, std::int64_t times, T* d_params,
                const StepGradientsScratch<P>& scratch, Executor& executor)
      : scratch_(scratch),
        executor_(executor),
        shape_(shape),
        sweep_(sweep),
        times_(times),
        wants_params_(d_params != nullptr),
        d_params_(config, shape, d_params) {}

  // Of a block of the cell, [times * Rows(chunk), U].
  Left Block(std::int64_t direction, std::int64_t block,
             const StepChunk& chunk) const {
    return Nth(direction * Cell::kBlocks + block, scratch_.blocks, shape_.units,
               chunk);
  }
  // From one block to the next.
  std::int64_t BlockStride() const {
    return SizeOf<Left>(MostRows(), shape_.units);
  }
  // Of what a projection gave, [times * Rows(chunk), O].
  Left Projected(std::int64_t direction, const StepChunk& chunk) const {
    return Nth(direction, scratch_.projected, shape_.output_size, chunk);
  }
  // Where what a projection took is kept beside them, [times * Rows(chunk), U].
  MatrixView<T> CellOutputs(std::int64_t direction,
                            const StepChunk& chunk) const {
    return {scratch_.cell_outputs + direction * MostRows() * shape_.units,
            times_ * sweep_.Rows(chunk), shape_.units};
  }

  // To be called before the first step: what products read beyond the units
  // must be a number.
  void Clear() const {
    if (!kRoundsOperands<P>) return;
    if (shape_.units % Left::kCols != 0) {
      FillZero(scratch_.blocks,
               shape_.directions * Cell::kBlocks * BlockStride(), executor_);
    }
    if (shape_.is_projected) {
      FillZero(scratch_.projected,
               shape_.directions * SizeOf<Left>(MostRows(), shape_.output_size),
               executor_);
    }
  }

  // dR = (d blocks)ᵀ h_prev, dW = (d blocks)ᵀ x and dP = (d projected)ᵀ times
  // the cell outputs, to each of which a chunk adds its part; the biases' are
  // the sums of the blocks' first Rows(chunk) rows. Nothing if d_params is
  // null. h_prev: [times * Rows(chunk), O]; x: the first of as many rows, [...,
  // F], if the input is not skipped. Both are packed here.
  template <typename Hidden, typename Input>
  WeightGradients MakeWeightGradients(std::int64_t direction,
                                      const StepChunk& chunk,
                                      const Hidden& h_prev,
                                      const Input& x) const {
    WeightGradients gradients;
    if (!wants_params_) return gradients;
    const Right input(scratch_.input, x.rows, shape_.fan_in);
    const Right states(scratch_.states, h_prev.rows, shape_.output_size);
    const Right cell_outputs(scratch_.packed_cell_outputs, h_prev.rows,
                             shape_.units);
    RunTogether(
        executor_, PackWork(h_prev, states), PackWork(x, input),
        PackWork(shape_.is_projected ? Constant(CellOutputs(direction, chunk))
                                     : NoMatrix<T>(),
                 cell_outputs));
    if constexpr (kTransposesLeft<P>) Transpose(direction, chunk);
    const bool add = chunk.first_step > 0;
    for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
      const std::int64_t block = Cell::kFirstRecurrent + gate;
      gradients.matrices.Add(MakeWeightWork(
          Block(direction, block, chunk), block, states, add,
          d_params_.OfGate(d_params_.Recurrent(direction), gate)));
      if (shape_.skips_input) continue;
      gradients.matrices.Add(MakeWeightWork(
          Block(direction, gate, chunk).Rows(0, x.rows), gate, input, add,
          d_params_.OfGate(d_params_.Input(direction), InputGate<Cell>(gate))));
    }
    if (shape_.is_projected) {
      gradients.matrices.Add(MakeWeightWork(Projected(direction, chunk),
                                            Cell::kBlocks, cell_outputs, add,
                                            d_params_.Projection(direction)));
    }
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      gradients.biases.Add(
          {Block(direction, block, chunk).Rows(0, sweep_.Rows(chunk)), add,
           BiasGradients(direction, block)});
    }
    return gradients;
  }

  // To be called after the last chunk.
  void StoreBiasGradients() const {
    if (!wants_params_) return;
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      T* const input = d_params_.InputBias(d);
      T* const recurrent = d_params_.RecurrentBias(d);
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        std::copy_n(BiasGradients(d, gate), shape_.units,
                    input + InputGate<Cell>(gate) * shape_.units);
        std::copy_n(BiasGradients(d, Cell::kFirstRecurrent + gate),
                    shape_.units, recurrent + gate * shape_.units);
      }
    }
  }

  // The sums over the gates of the first Rows(chunk) rows, added to `to` if the
  // other direction does so too: the gradient of an input that each gate gets
  // as it is. to: as many rows, [..., U].
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
  std::int64_t MostRows() const {
    return times_ * sweep_.steps_at_once() * shape_.batch;
  }
  // One of the matrices that follow one another in an array.
  Left Nth(std::int64_t index, P* array, std::int64_t cols,
           const StepChunk& chunk) const {
    return Left(array + index * SizeOf<Left>(MostRows(), cols), MostRows(),
                cols)
        .Rows(0, times_ * sweep_.Rows(chunk));
  }
  T* BiasGradients(std::int64_t direction, std::int64_t block) const {
    return scratch_.biases + (direction * Cell::kBlocks + block) * shape_.units;
  }
  // left: the first rows of what Transpose transposes as `index`.
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

  // The transpose of a block, or, after all blocks, of the projected ones.
  Left Transposed(std::int64_t index, std::int64_t rows,
                  std::int64_t cols) const {
    return {
        scratch_.transposed + index * SizeOf<Left>(shape_.units, MostRows()),
        rows, cols};
  }
  void Transpose(std::int64_t direction, const StepChunk& chunk) const {
    const auto transpose = [&](const Left& from, std::int64_t index,
                               std::int64_t task) {
      const std::int64_t col = task * Left::kCols;
      const std::int64_t cols = Min(Left::kCols, from.cols - col);
      PackTransposed(Constant(from.Cols(col, cols)),
                     Transposed(index, from.cols, from.rows).Rows(col, cols));
    };
    const std::int64_t blocks = CeilDiv(shape_.units, Left::kCols);
    RunTogether(
        executor_,
        Tasks{Cell::kBlocks * blocks,
              [&](std::int64_t i) {
                transpose(Block(direction, i / blocks, chunk), i / blocks,
                          i % blocks);
              }},
        Tasks{
            shape_.is_projected ? CeilDiv(shape_.output_size, Left::kCols) : 0,
            [&](std::int64_t i) {
              transpose(Projected(direction, chunk), Cell::kBlocks, i);
            }});
  }

  const StepGradientsScratch<P> scratch_;
  Executor& executor_;
  const LayerShape shape_;
  const Sweep sweep_;
  const std::int64_t times_;
  const bool wants_params_;
  const LayerParams<T> d_params_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_GRADIENTS_H_
