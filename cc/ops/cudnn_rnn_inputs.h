// The inputs of the CudnnRNN ops.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_INPUTS_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_INPUTS_H_

#include <cstdint>
#include <string>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/network_sizes.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// Rejects a reserve_space of another forward pass, or another size.
// E: the type of its elements.
// header: a copy of its header.
template <typename E>
Status CheckReserveSpace(const rnn::ReserveSpaceKey& key,
                         const rnn::ReserveSpaceHeader& header,
                         const Array& reserve_space,
                         std::int64_t expected_size) {
  const std::string mismatch = rnn::ReserveSpaceMismatch<E>(
      key, header.data(), reserve_space.num_elements, expected_size);
  if (mismatch.empty()) return Status();
  return InvalidArgument(
      "reserve_space must be the output of the forward op for the same inputs "
      "and attributes with is_training=True, but ",
      mismatch);
}

// The inputs of a forward or backward op. Finds them by name and checks that
// they fit one another.
class CudnnRnnInputs {
 public:
  CudnnRnnInputs(CallFrame* frame, const CudnnRnnAttributes& attributes)
      : frame_(frame), attributes_(attributes), sizes_(attributes) {}

  // Reads input, input_h, input_c, params and, if the op has them,
  // sequence_lengths.
  Status ReadForwardInputs(bool has_sequence_lengths);

  // Reads an input of the shape of the network's input.
  Status ReadNetworkInput(const char* name, Array* array);

  // Reads an input of the shape of params.
  Status ReadParams(const char* name, Array* array);

  // Reads an input of the output's shape.
  Status ReadOutput(const char* name, Array* array);

  // Reads an input of the hidden state's shape.
  Status ReadHiddenState(const char* name, Array* array);

  // Reads an input of the cell state's shape. Accepts any shape if the network
  // has no cell state.
  Status ReadCellState(const char* name, Array* array);

  // Fills a pass of the engine with the inputs.
  template <typename E>
  void Fill(rnn::NetworkPass<E>* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = attributes_.time_major();
    pass->sequence_lengths = sequence_lengths();
    pass->dropout = attributes_.dropout();
    pass->input = input.As<E>();
    pass->input_h = input_h.As<E>();
    pass->input_c = input_c.As<E>();
    pass->weights = rnn::Weights<const E>::Cudnn(params.As<const E>());
  }

  // Reads the gradients with respect to the network's outputs into a pass.
  template <typename E>
  Status ReadGradients(rnn::NetworkGradients<E>* pass) {
    Array output, output_h, output_c;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadOutput("output_backprop", &output));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadHiddenState("output_h_backprop", &output_h));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadCellState("output_c_backprop", &output_c));
    pass->output_backprop = output.As<E>();
    pass->output_h_backprop = output_h.As<E>();
    pass->output_c_backprop = output_c.As<E>();
    return Status();
  }

  // Reads reserve_space without checking its contents.
  Status ReadReserveSpace(Array* reserve_space) const {
    return ReadInput(frame_, "reserve_space", "[reserve_space_size]",
                     {kAnySize}, reserve_space);
  }

  // Rejects a reserve_space of a different forward pass. That may have run on
  // any device: the header suffices, since dropout masks are the same on all.
  template <typename E>
  Status CheckReserveSpaceOfAnyDevice(const rnn::ReserveSpaceHeader& header,
                                      const Array& reserve_space) const {
    const auto origin = rnn::FindReserveSpaceOrigin(header);
    rnn::ReserveSpaceKey key = MakeReserveSpaceKey();
    key.device = origin.device;
    key.variant = origin.variant;
    // The size that a GPU needs is not known here.
    return CheckReserveSpace<E>(key, header, reserve_space,
                                origin.device == rnn::Device::kGpu
                                    ? reserve_space.num_elements
                                    : rnn::ReserveSpaceSize<E>(config_, size_));
  }

  // The key that identifies the reserve_space of these inputs on a CPU.
  rnn::ReserveSpaceKey MakeReserveSpaceKey() const {
    return {config_, size_, attributes_.time_major(), sequence_lengths(),
            attributes_.dropout()};
  }

  // The error for sizes that overflow.
  Status TooLarge() const;

  const rnn::RnnConfig& config() const { return config_; }
  const rnn::RnnSize& size() const { return size_; }
  const Shape& output_shape() const { return output_shape_; }
  std::int64_t output_width() const {
    return config_.num_directions * config_.output_size();
  }
  // The shape of the dropout masks.
  Shape masks_shape() {
    const std::int64_t layers = config_.num_layers;
    return {layers < 0 ? kAnySize : layers - 1, size_.time, size_.batch,
            sizes_.OutputWidth().value()};
  }
  // Whether all sizes are known.
  bool is_complete() const {
    return sizes_.is_complete() && time_.is_known() && batch_.is_known();
  }
  // [batch], or null if every sequence has all steps.
  const std::int32_t* sequence_lengths() const { return sequence_lengths_; }

  Array input, input_h, input_c, params;

 private:
  // Sets what follows from the sizes.
  Status CompleteSizes();

  // Rejects invalid lengths and keeps a copy of valid ones.
  Status ReadSequenceLengths();

  Status ReadState(const char* name, Size& size, Array* array);

  // Reads an input with a vector for each step, or pseudo-layer, and sample.
  Status ReadSequence(const char* name, Size& steps, const Dimension& size,
                      Array* array);

  Shape SequenceShape(Size& steps, const Dimension& size);

  CallFrame* const frame_;
  const CudnnRnnAttributes& attributes_;
  NetworkSizes sizes_;
  Size time_{"time"}, batch_{"batch"};
  Size pseudo_layers_{"num_layers * num_directions"};
  rnn::RnnConfig config_{};
  rnn::RnnSize size_{};
  Shape output_shape_;
  const std::int32_t* sequence_lengths_ = nullptr;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_INPUTS_H_
