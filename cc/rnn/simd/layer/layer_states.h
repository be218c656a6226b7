// The states that an earlier pass over a layer saved, for access step by step.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_STATES_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_STATES_H_

#include <cstdint>

#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes: see cc/rnn/network.h.
template <typename T>
struct LayerStateArrays {
  const T* input_h = nullptr;  // [D, B, O], of this layer
  const T* input_c = nullptr;  // [D, B, U]; LSTM only
  const T* output = nullptr;   // [S, B, D * O]
  KeptActivations<const T> kept;
};

template <typename T>
class LayerStates {
 public:
  // The units of a vector at one step, for each sample.
  struct Columns {
    ColumnView<const T> kept;  // h if the cell keeps only that, as the output
    std::int64_t kept_stride;
    bool are_pairs;  // whether all have the form of ToFinitePair
    // The state before the step: the cell state, or the hidden state if the
    // cell reads it.
    ColumnView<const T> previous;
    ColumnView<const T> initial;  // if the previous time is not valid

    const T* Previous(bool has_previous, std::int64_t row) const {
      return has_previous ? previous.At(row) : initial.At(row);
    }
  };

  LayerStates(const LayerShape& shape, const SequenceLengths& lengths,
              const LayerStateArrays<T>& arrays)
      : shape_(shape), lengths_(lengths), a_(arrays) {}

  // The time whose state is the state before the step at time t. If it is out
  // of range or not valid, that is the initial state.
  static std::int64_t PreviousTime(std::int64_t direction, std::int64_t t) {
    return direction == 0 ? t - 1 : t + 1;
  }

  template <typename Cell>
  Columns At(std::int64_t direction, std::int64_t t, std::int64_t unit) const {
    Columns columns{};
    columns.kept = a_.kept.Column(direction, t, unit);
    columns.kept_stride = a_.kept.Stride(unit);
    columns.are_pairs = a_.kept.are_pairs();
    const std::int64_t previous = PreviousTime(direction, t);
    const bool has_previous = previous >= 0 && previous < shape_.time;
    if constexpr (Cell::kHasCellState) {
      columns.initial =
          shape_.OfDirection(a_.input_c, direction, shape_.units).Column(unit);
      if (has_previous) {
        columns.previous = a_.kept.Column(direction, previous, unit);
        columns.previous.data += (a_.kept.values() - 1) * columns.kept_stride;
      }
    } else if constexpr (Cell::kReadsPreviousHidden) {
      columns.initial =
          shape_.OfDirection(a_.input_h, direction, shape_.output_size)
              .Column(unit);
      if (has_previous) {
        columns.previous =
            shape_.OutputAt(a_.output, direction, previous).Column(unit);
      }
    } else if (a_.kept.values() == 0) {
      columns.kept = shape_.OutputAt(a_.output, direction, t).Column(unit);
    }
    return columns;
  }

  // A sample's hidden state before the step at time t, [O]; zeros after the end
  // of the sequence, where values without a gradient may be NaN or infinity.
  const T* PreviousHidden(std::int64_t direction, std::int64_t t,
                          std::int64_t sample) const {
    const std::int64_t previous = PreviousTime(direction, t);
    if (lengths_.IsValid(previous, sample)) {
      return shape_.OutputAt(a_.output, direction, previous).Row(sample);
    }
    if (!lengths_.IsValid(t, sample)) {
      return shape_.OutputAt(a_.output, direction, t).Row(sample);
    }
    return shape_.OfDirection(a_.input_h, direction, shape_.output_size)
        .Row(sample);
  }

 private:
  LayerShape shape_;
  SequenceLengths lengths_;
  LayerStateArrays<T> a_;
};

// The hidden states before the steps of a direction, starting at `first_time`,
// [rows, O] in order of time, for packing.
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
