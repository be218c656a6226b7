// The inputs of KerasRNN and its gradient.

#ifndef TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_
#define TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_

#include <cstdint>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/sizes.h"
#include "cc/ops/status.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {

struct KerasRnnAttributes {
  Status Read(const Attributes& attributes);

  bool has_cell_state() const {
    return rnn::TraitsOf(cell.mode).has_cell_state;
  }
  std::int64_t num_gates() const { return rnn::TraitsOf(cell.mode).gates; }

  rnn::CellAttributes cell;
  bool go_backwards = false;
  bool return_sequences = false;
  bool zero_output_for_mask = false;
};

// The steps that a mask keeps. The place of a step is its index in processing
// order; the output of the step is at its place.
class MaskedSteps {
 public:
  // mask: [batch, time], or empty for all steps.
  Status Read(CallFrame* frame, const Array& mask, const rnn::RnnSize& size,
              bool go_backwards);

  // [batch], or null if every sequence has all steps.
  const std::int32_t* lengths() const {
    return leaves_out_ ? lengths_ : nullptr;
  }
  rnn::StepOrder order() const {
    return {has_gaps_ ? places_ : nullptr, go_backwards_};
  }

  // Whether any step is masked.
  bool leave_out() const { return leaves_out_; }
  std::int64_t length(std::int64_t sample) const {
    return leaves_out_ ? lengths_[sample] : size_.time;
  }
  // The places of the steps of a sample: first those kept, in order, then those
  // masked.
  const std::int32_t* places(std::int64_t sample) const {
    return places_ + sample * size_.time;
  }

 private:
  // Orders the steps of a sample.
  // mask: [time]. Bytes rather than bool, since the memory of the caller may
  //   contain values other than 0 and 1.
  void Order(const unsigned char* mask, std::int64_t sample);

  rnn::RnnSize size_{};
  bool go_backwards_ = false;
  bool leaves_out_ = false;
  bool has_gaps_ = false;            // masked steps before the last kept step
  std::int32_t* places_ = nullptr;   // [batch, time]
  std::int32_t* lengths_ = nullptr;  // [batch]
};

// The inputs of a layer, forward or backward. Checks that they fit one another.
class KerasRnnInputs {
 public:
  KerasRnnInputs(CallFrame* frame, const KerasRnnAttributes& attributes)
      : frame_(frame), attributes_(attributes) {}

  // Reads all inputs of KerasRNN.
  Status Read();

  Status ReadHiddenState(const char* name, Array* array);
  // Accepts any shape if there is no cell state.
  Status ReadCellState(const char* name, Array* array);
  Status ReadOutputs(const char* name, Array* array);

  // Fills a pass of the engine with the inputs.
  template <template <typename> class Pass, typename E>
  void Fill(Pass<E>* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = false;
    pass->sequence_lengths = steps_.lengths();
    pass->step_order = steps_.order();
    pass->input = sequences.As<E>();
    pass->input_h = initial_h.As<E>();
    pass->input_c = initial_c.As<E>();
    pass->keras_weights = {kernel.As<E>(), recurrent_kernel.As<E>(),
                           bias.num_elements == 0 ? nullptr : bias.As<E>()};
  }

  rnn::ReserveSpaceKey MakeReserveSpaceKey() const {
    rnn::ReserveSpaceKey key{config_, size_, /*time_major=*/false,
                             steps_.lengths(), /*dropout=*/0};
    key.step_order = steps_.order();
    return key;
  }

  // The error for sizes that overflow.
  Status TooLarge() const;

  const rnn::RnnConfig& config() const { return config_; }
  const rnn::RnnSize& size() const { return size_; }
  const MaskedSteps& steps() const { return steps_; }
  // Whether all sizes are known.
  bool is_complete() const {
    return size_.batch >= 0 && size_.time >= 0 && config_.num_units >= 0 &&
           config_.input_size >= 0;
  }
  // [batch, time, units], or [batch, units] for only the last step.
  Shape outputs_shape() {
    return attributes_.return_sequences ? ShapeOf({batch_, time_, units_})
                                        : ShapeOf({batch_, units_});
  }

  Array sequences, initial_h, initial_c, kernel, recurrent_kernel, bias;

 private:
  Status ReadWeights();
  // Replaces unknown sizes in the shapes of the inputs by those found since.
  void SetShapes();
  // Reads a bias or a mask, which may be empty. The shape must be the expected
  // one if it is known not to be.
  Status ReadOptional(const char* name, Dimensions dimensions, Array* array);

  CallFrame* const frame_;
  const KerasRnnAttributes& attributes_;
  Size batch_{"batch"}, time_{"time"}, features_{"features"}, units_{"units"};
  rnn::RnnSize size_{};
  rnn::RnnConfig config_{};
  MaskedSteps steps_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_
