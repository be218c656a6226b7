// What the kernels of the CudnnRNN ops are given.

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_INPUTS_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_INPUTS_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/read_input.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// The error where a reserve_space is not what it should be.
// mismatch: why, in words; empty if it is.
inline absl::Status CheckReserveSpace(const std::string& mismatch) {
  if (mismatch.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "reserve_space must be what the forward op returned for the same inputs "
      "and attributes, with is_training=True, but ",
      mismatch));
}

// The inputs of a network, forward or backward, found by their names and
// checked against one another.
class CudnnRnnInputs {
 public:
  CudnnRnnInputs(tensorflow::OpKernelContext* ctx,
                 const CudnnRnnAttributes& attributes)
      : ctx_(ctx), attributes_(attributes) {}

  // Reads input, input_h, input_c, params and, if the op has them,
  // sequence_lengths.
  absl::Status ReadForwardInputs(bool has_sequence_lengths);

  // Reads an input of the shape of the network's input.
  absl::Status ReadNetworkInput(const char* name,
                                const tensorflow::Tensor** tensor) const;

  // Reads an input of the shape of params.
  absl::Status ReadParams(const char* name,
                          const tensorflow::Tensor** tensor) const;

  // Reads an input of the output's shape.
  absl::Status ReadOutput(const char* name,
                          const tensorflow::Tensor** tensor) const;

  // Reads an input of the hidden state's shape.
  absl::Status ReadHiddenState(const char* name,
                               const tensorflow::Tensor** tensor) const;

  // Reads an input of the cell state's shape. Any shape will do if the network
  // has no cell state.
  absl::Status ReadCellState(const char* name,
                             const tensorflow::Tensor** tensor) const;

  // Gives the engine what was read.
  template <typename T, typename Pass>
  void Fill(Pass* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = attributes_.time_major();
    pass->sequence_lengths = sequence_lengths();
    pass->dropout = attributes_.dropout();
    pass->input = EngineData<T>(*input);
    pass->input_h = EngineData<T>(*input_h);
    pass->input_c = EngineData<T>(*input_c);
    pass->params = EngineData<T>(*params);
  }

  // Reads the gradients that a backward pass is given, those with respect to
  // the network's results, and fills a pass with them.
  template <typename T, typename Pass>
  absl::Status ReadGradients(Pass* pass) const {
    const tensorflow::Tensor *output, *output_h, *output_c;
    TF_RETURN_IF_ERROR(ReadOutput("output_backprop", &output));
    TF_RETURN_IF_ERROR(ReadHiddenState("output_h_backprop", &output_h));
    TF_RETURN_IF_ERROR(ReadCellState("output_c_backprop", &output_c));
    pass->output_backprop = EngineData<T>(*output);
    pass->output_h_backprop = EngineData<T>(*output_h);
    pass->output_c_backprop = EngineData<T>(*output_c);
    return absl::OkStatus();
  }

  // Reads reserve_space, whatever left it.
  absl::Status ReadReserveSpace(tensorflow::Tensor* reserve_space) const {
    const tensorflow::Tensor* tensor;
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "reserve_space", "[reserve_space_size]",
                                 {kAnySize}, &tensor));
    *reserve_space = *tensor;
    return absl::OkStatus();
  }

  // Reads reserve_space and refuses one that another forward pass left. Any
  // device may have run that: the header says enough, since dropout has the
  // same masks on all. read_header(tensor): as an engine's ReadHeader, of
  // `header`.
  template <typename E, typename ReadHeader>
  absl::Status ReadReserveSpaceOfAnyDevice(
      const ReadHeader& read_header, const rnn::ReserveSpaceHeader& header,
      tensorflow::Tensor* reserve_space) const {
    TF_RETURN_IF_ERROR(ReadReserveSpace(reserve_space));
    TF_RETURN_IF_ERROR(read_header(reserve_space));
    const std::int64_t size = reserve_space->NumElements();
    const auto origin = rnn::FindReserveSpaceOrigin(header);
    rnn::ReserveSpaceKey key = MakeReserveSpaceKey();
    key.device = origin.device;
    key.variant = origin.variant;
    // How much a GPU leaves is its own affair.
    return CheckReserveSpace(rnn::ReserveSpaceMismatch<E>(
        key, header.data(), size,
        origin.device == rnn::Device::kGpu
            ? size
            : rnn::ReserveSpaceSize<E>(config_, size_)));
  }

  // What the reserve_space of these inputs is known by, if it is a CPU's.
  rnn::ReserveSpaceKey MakeReserveSpaceKey() const {
    return {config_, size_, attributes_.time_major(), sequence_lengths(),
            attributes_.dropout()};
  }

  // The error where sizes are larger than what can be counted.
  absl::Status TooLarge() const;

  const rnn::RnnConfig& config() const { return config_; }
  const rnn::RnnSize& size() const { return size_; }
  const tensorflow::TensorShape& output_shape() const { return output_shape_; }
  std::int64_t output_width() const {
    return config_.num_directions * config_.output_size();
  }
  // [batch], or null where every sequence has all steps.
  const std::int32_t* sequence_lengths() const {
    return all_have_all_steps_ ? nullptr
                               : EngineData<std::int32_t>(sequence_lengths_);
  }

  const tensorflow::Tensor* input = nullptr;
  const tensorflow::Tensor* input_h = nullptr;
  const tensorflow::Tensor* input_c = nullptr;
  const tensorflow::Tensor* params = nullptr;

 private:
  // The sizes of the network and the sequence, from input, input_h and input_c.
  absl::Status ReadSizes();

  absl::Status MakeConfig(std::int64_t pseudo_layers, std::int64_t num_units,
                          std::int64_t input_size);

  absl::Status ReadSequenceLengths();

  absl::Status ReadState(const char* name, std::int64_t pseudo_layers,
                         const std::string& size_name, std::int64_t size,
                         const tensorflow::Tensor** tensor) const;

  // Reads what has a vector for each step, or pseudo-layer, and entry of the
  // batch.
  absl::Status ReadSequence(const char* name, const std::string& steps_name,
                            std::int64_t steps, const std::string& size_name,
                            std::int64_t size,
                            const tensorflow::Tensor** tensor) const;

  std::array<std::int64_t, 3> SequenceShape(std::int64_t steps,
                                            std::int64_t size) const;

  int step_axis() const { return attributes_.time_major() ? 0 : 1; }
  int batch_axis() const { return attributes_.time_major() ? 1 : 0; }
  const char* output_size_name() const {
    return attributes_.num_proj() > 0 ? "num_proj" : "num_units";
  }

  tensorflow::OpKernelContext* const ctx_;
  const CudnnRnnAttributes& attributes_;
  rnn::RnnConfig config_{};
  rnn::RnnSize size_{kAnySize, kAnySize};
  tensorflow::TensorShape output_shape_;
  tensorflow::Tensor sequence_lengths_;  // [batch], a copy in host memory
  bool all_have_all_steps_ = true;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_INPUTS_H_
