// The inputs of KerasRNN and its gradient.

#ifndef TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_
#define TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/network.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"
#include "cc/rnn/step_mask.h"

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

// Null if the array is empty: an initial state or bias that is absent, which
// the engine takes for zeros, or a gradient that is not needed.
template <typename E>
E* ElementsOrNull(const Array& array) {
  return array.num_elements == 0 ? nullptr : array.As<E>();
}

// The inputs of a layer, forward or backward. Checks that they fit one another.
class KerasRnnInputs {
 public:
  KerasRnnInputs(CallFrame* frame, const KerasRnnAttributes& attributes)
      : frame_(frame), attributes_(attributes) {}

  // Reads all inputs of KerasRNN.
  Status Read();

  Status ReadSequences(const char* name, Array* array);
  // Read an initial state or its gradient, [batch, units], or [0, units].
  Status ReadInitialH(const char* name, Array* array);
  Status ReadInitialC(const char* name, Array* array);
  Status ReadHiddenState(const char* name, Array* array);
  // Accepts any shape if there is no cell state.
  Status ReadCellState(const char* name, Array* array);
  Status ReadOutputs(const char* name, Array* array);
  // Reads kernel, recurrent_kernel and bias.
  // suffix: of the names.
  Status ReadWeights(const char* suffix, Array* kernel, Array* recurrent_kernel,
                     Array* bias);

  // Fills a pass of the engine with the inputs.
  // W: the type of the weights.
  template <typename W, typename E>
  void Fill(rnn::NetworkPass<E>* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = false;
    pass->sequence_lengths = steps_.lengths();
    pass->step_order = steps_.order();
    pass->input = sequences.As<E>();
    pass->input_h = ElementsOrNull<E>(initial_h);
    pass->input_c = ElementsOrNull<E>(initial_c);
    pass->weights = WeightsOf<const E, W>(kernel, recurrent_kernel, bias);
    FillMasks<E>(input_masks, pass->input_masks);
    FillMasks<E>(state_masks, pass->state_masks);
  }

  // Arrays with the shapes of the weights, and elements of type W.
  template <typename E, typename W>
  static rnn::Weights<E> WeightsOf(const Array& kernel,
                                   const Array& recurrent_kernel,
                                   const Array& bias) {
    return rnn::Weights<E>::Keras(ElementsOrNull<W>(kernel),
                                  ElementsOrNull<W>(recurrent_kernel),
                                  ElementsOrNull<W>(bias));
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
  const rnn::StepMask& steps() const { return steps_; }
  template <typename E>
  rnn::MaskedOutputs<E> masked_outputs() const {
    return {steps_, config_.num_units, attributes_.zero_output_for_mask};
  }
  // Whether all sizes are known.
  bool is_complete() const {
    return size_.batch >= 0 && size_.time >= 0 && config_.num_units >= 0 &&
           config_.input_size >= 0;
  }
  // [batch, time, units], or [batch, units] for only the last step.
  Shape outputs_shape() {
    return attributes_.return_sequences ? ShapeOf({batch_, time_, units_})
                                        : state_shape();
  }
  Shape state_shape() { return ShapeOf({batch_, units_}); }

  Array sequences, initial_h, initial_c, kernel, recurrent_kernel, bias;
  // None, one for all gates, or one for each.
  std::vector<Array> input_masks, state_masks;

 private:
  // Reads masks of arrays with rows of a size, and finds out of which kind they
  // are.
  Status ReadMasks(const char* name, Size& width, std::vector<Array>* masks,
                   rnn::GateDropout* dropout);
  // Fills the masks of the engine, in its order of gates.
  template <typename E>
  void FillMasks(const std::vector<Array>& masks, const E** of_gates) const {
    const std::int64_t gates = attributes_.num_gates();
    for (std::int64_t gate = 0; gate < gates && !masks.empty(); ++gate) {
      const std::int64_t i = rnn::KerasPlace(config_.mode, gate);
      of_gates[gate] = masks[masks.size() == 1 ? 0 : i].As<const E>();
    }
  }

  // Reads a bias or a mask, which may be empty.
  Status ReadOptional(const std::string& name, Dimensions dimensions,
                      Array* array);
  // mask: [batch, time], or empty for all steps.
  Status ApplyMask(const Array& mask);

  CallFrame* const frame_;
  const KerasRnnAttributes& attributes_;
  Size batch_{"batch"}, time_{"time"}, features_{"features"}, units_{"units"};
  rnn::RnnSize size_{};
  rnn::RnnConfig config_{};
  rnn::StepMask steps_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_KERAS_RNN_INPUTS_H_
