// The sizes of a layer, views of arrays with these sizes, and the order in
// which a pass processes the steps.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_SHAPE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_SHAPE_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Comments use these sizes: S = steps, B = batch, U = units, O = output_size, D
// = directions, F = fan_in, G = gates of the cell.
struct LayerShape {
  LayerShape(const RnnConfig& config, const RnnSize& size, std::int64_t layer)
      : time(size.time),
        batch(size.batch),
        units(config.num_units),
        output_size(config.output_size()),
        directions(config.num_directions),
        fan_in(config.fan_in(layer)),
        first_pseudo_layer(layer * config.num_directions),
        skips_input(layer == 0 && config.skip_input),
        is_projected(config.num_proj > 0),
        has_second_half(config.has_second_half()),
        input_copies(config.num_input_copies()),
        state_copies(config.num_state_copies()) {}

  std::int64_t PseudoLayer(std::int64_t direction) const {
    return first_pseudo_layer + direction;
  }

  // [B, cols] of a direction, from an array [D, B, cols].
  template <typename E>
  MatrixView<E> OfDirection(E* array, std::int64_t direction,
                            std::int64_t cols) const {
    return {array + direction * batch * cols, batch, cols};
  }
  // [B, O] of a direction at time t, from an array [S, B, D * O].
  template <typename E>
  MatrixView<E> OutputAt(E* array, std::int64_t direction,
                         std::int64_t t) const {
    const std::int64_t width = directions * output_size;
    return {array + t * batch * width + direction * output_size, batch,
            output_size, width};
  }

  std::int64_t time;
  std::int64_t batch;
  std::int64_t units;
  std::int64_t output_size;
  std::int64_t directions;
  std::int64_t fan_in;
  std::int64_t first_pseudo_layer;
  bool skips_input;
  bool is_projected;
  bool has_second_half;  // of each step: see RnnConfig
  // See RnnConfig.
  std::int64_t input_copies;
  std::int64_t state_copies;
};

// A range of consecutive steps.
struct StepChunk {
  std::int64_t first_step;
  std::int64_t steps;
};

// The order in which a pass processes the steps: that of the layer, or the
// reverse.
class Sweep {
 public:
  enum Order { kForward, kBackward };

  Sweep(const LayerShape& shape, Order order, std::int64_t steps_at_once)
      : time_(shape.time),
        batch_(shape.batch),
        order_(order),
        steps_at_once_(steps_at_once) {}

  std::int64_t steps_at_once() const { return steps_at_once_; }

  // Calls run(chunk) for all steps, until the executor is cancelled. If there
  // are no steps, calls it once.
  template <typename Run>
  void ForEachChunk(const Executor& executor, const Run& run) const {
    std::int64_t step = 0;
    do {
      const StepChunk chunk{step, Min(steps_at_once_, time_ - step)};
      run(chunk);
      step += chunk.steps;
    } while (step < time_ && !executor.is_cancelled());
  }

  // The time index of a step in a direction.
  std::int64_t Time(std::int64_t direction, std::int64_t step) const {
    return IsAscending(direction) ? step : time_ - 1 - step;
  }
  // The earliest time index of a chunk's steps in a direction.
  std::int64_t FirstTime(std::int64_t direction, const StepChunk& chunk) const {
    return IsAscending(direction) ? chunk.first_step
                                  : time_ - chunk.first_step - chunk.steps;
  }

  // Number of rows of a chunk: [steps in order of time, batch].
  std::int64_t Rows(const StepChunk& chunk) const {
    return chunk.steps * batch_;
  }
  // The first row of step i of a chunk.
  std::int64_t FirstRow(std::int64_t direction, const StepChunk& chunk,
                        std::int64_t i) const {
    return (Time(direction, chunk.first_step + i) -
            FirstTime(direction, chunk)) *
           batch_;
  }
  // The rows of a chunk in an array [S, B, cols].
  template <typename E>
  MatrixView<E> RowsOf(E* array, std::int64_t cols, std::int64_t direction,
                       const StepChunk& chunk) const {
    return MatrixView<E>(array, time_ * batch_, cols)
        .Rows(FirstTime(direction, chunk) * batch_, Rows(chunk));
  }

 private:
  // Direction 0 ascends in time.
  bool IsAscending(std::int64_t direction) const {
    return (direction == 0) == (order_ == kForward);
  }

  std::int64_t time_;
  std::int64_t batch_;
  Order order_;
  std::int64_t steps_at_once_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_SHAPE_H_
