// What a pass over a layer left, as a later one finds it step by step.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_STATES_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_STATES_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in cc/rnn/cudnn_rnn.h.
template <typename T>
struct LayerStateArrays {
  const T* input_h;  // [D, B, O], of this layer
  const T* input_c;  // [D, B, U]; LSTM only
  const T* output;   // [T, B, D * O]
  KeptActivations<const T> kept;
};

template <typename T>
class LayerStates {
 public:
  // The units of a vector at one step, in each sample.
  struct Columns {
    ColumnView<const T> kept;
    std::int64_t kept_stride;
    // What the step began with: the cell state of an LSTM, the hidden state of
    // a GRU.
    ColumnView<const T> previous;
    ColumnView<const T> initial;  // where the previous time is not valid
    ColumnView<const T> h;        // rnn_relu, rnn_tanh

    const T* Previous(bool has_previous, std::int64_t row) const {
      return has_previous ? previous.At(row) : initial.At(row);
    }
  };

  LayerStates(const RnnConfig& config, const RnnSize& size,
              const SequenceLengths& lengths, const LayerStateArrays<T>& arrays)
      : a_(arrays),
        lengths_(lengths),
        time_(size.time),
        batch_(size.batch),
        units_(config.num_units),
        output_size_(config.output_size()),
        directions_(config.num_directions) {}

  // The time whose state the step at time t began with; before 0 or not valid
  // where that is the initial one.
  static std::int64_t PreviousTime(std::int64_t direction, std::int64_t t) {
    return direction == 0 ? t - 1 : t + 1;
  }

  template <typename Cell>
  Columns At(std::int64_t direction, std::int64_t t, std::int64_t unit) const {
    Columns columns{};
    columns.kept = a_.kept.Column(direction, t, unit);
    columns.kept_stride = a_.kept.Stride(unit);
    const std::int64_t previous = PreviousTime(direction, t);
    const bool has_previous = previous >= 0 && previous < time_;
    if constexpr (Cell::kGates == 4) {
      columns.initial = {Initial(a_.input_c, direction, 0, units_) + unit,
                         units_};
      if (has_previous) {
        columns.previous = a_.kept.Column(direction, previous, unit);
        columns.previous.data += 4 * columns.kept_stride;
      }
    } else if constexpr (Cell::kGates == 3) {
      columns.initial = {Initial(a_.input_h, direction, 0, units_) + unit,
                         units_};
      if (has_previous) {
        columns.previous = Output(direction, previous).Column(unit);
      }
    } else {
      columns.h = Output(direction, t).Column(unit);
    }
    return columns;
  }

  // The hidden state with which a sample's step at time t began, [O]; zeros
  // past the sequence's end, as what has no gradient there need not be a number
  // elsewhere.
  const T* PreviousHidden(std::int64_t direction, std::int64_t t,
                          std::int64_t sample) const {
    const std::int64_t previous = PreviousTime(direction, t);
    if (lengths_.IsValid(previous, sample)) {
      return Output(direction, previous).Row(sample);
    }
    if (!lengths_.IsValid(t, sample)) return Output(direction, t).Row(sample);
    return Initial(a_.input_h, direction, sample, output_size_);
  }

 private:
  // [B, O]
  MatrixView<const T> Output(std::int64_t direction, std::int64_t t) const {
    const std::int64_t width = directions_ * output_size_;
    return {a_.output + t * batch_ * width + direction * output_size_, batch_,
            output_size_, width};
  }
  // The row of a sample, of an array [D, B, cols].
  const T* Initial(const T* array, std::int64_t direction, std::int64_t sample,
                   std::int64_t cols) const {
    return array + (direction * batch_ + sample) * cols;
  }

  LayerStateArrays<T> a_;
  SequenceLengths lengths_;
  std::int64_t time_;
  std::int64_t batch_;
  std::int64_t units_;
  std::int64_t output_size_;
  std::int64_t directions_;
};

// The hidden states that the steps of a direction began with, from `first_time`
// on, [rows, O] in the order of time, to be packed.
template <typename T>
struct PreviousHiddenRows {
  const LayerStates<T>& states;
  std::int64_t direction;
  std::int64_t first_time;
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t cols;

  const T* Row(std::int64_t row) const {
    return states.PreviousHidden(direction, first_time + row / batch,
                                 row % batch);
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_STATES_H_
