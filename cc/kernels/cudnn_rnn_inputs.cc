#include "cc/kernels/cudnn_rnn_inputs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

absl::Status CudnnRnnInputs::ReadForwardInputs(bool has_sequence_lengths) {
  TF_RETURN_IF_ERROR(ReadSizes());
  TF_RETURN_IF_ERROR(ReadParams("params", &params));
  const auto shape = SequenceShape(size_.time, output_width());
  if (!TensorShape::BuildTensorShape(shape, &output_shape_).ok()) {
    return TooLarge();
  }
  return has_sequence_lengths ? ReadSequenceLengths() : absl::OkStatus();
}

absl::Status CudnnRnnInputs::ReadNetworkInput(const char* name,
                                              const Tensor** tensor) const {
  return ReadSequence(name, "time", size_.time, "input_size",
                      config_.input_size, tensor);
}

absl::Status CudnnRnnInputs::ReadParams(const char* name,
                                        const Tensor** tensor) const {
  return ReadInput(ctx_, name, "[params_size]",
                   {rnn::CudnnRnnParamsSize(config_)}, tensor);
}

absl::Status CudnnRnnInputs::ReadOutput(const char* name,
                                        const Tensor** tensor) const {
  return ReadSequence(name, "time", size_.time,
                      absl::StrCat("num_directions * ", output_size_name()),
                      output_width(), tensor);
}

absl::Status CudnnRnnInputs::ReadHiddenState(const char* name,
                                             const Tensor** tensor) const {
  return ReadState(name, config_.num_pseudo_layers(), output_size_name(),
                   config_.output_size(), tensor);
}

absl::Status CudnnRnnInputs::ReadCellState(const char* name,
                                           const Tensor** tensor) const {
  if (!config_.has_cell_state()) return ReadInput(ctx_, name, tensor);
  return ReadState(name, config_.num_pseudo_layers(), "num_units",
                   config_.num_units, tensor);
}

absl::Status CudnnRnnInputs::TooLarge() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "input and input_h must take no more memory than can be counted, but "
      "input is ",
      input->shape().DebugString(), " and input_h is ",
      input_h->shape().DebugString()));
}

absl::Status CudnnRnnInputs::ReadSizes() {
  TF_RETURN_IF_ERROR(
      ReadSequence("input", "time", kAnySize, "input_size", kAnySize, &input));
  size_ = {AxisSize(*input, step_axis()), AxisSize(*input, batch_axis())};
  const bool projects = attributes_.num_proj() > 0;
  TF_RETURN_IF_ERROR(ReadState("input_h", kAnySize, output_size_name(),
                               projects ? attributes_.num_proj() : kAnySize,
                               &input_h));
  const std::int64_t pseudo_layers = AxisSize(*input_h, step_axis());
  std::int64_t num_units = AxisSize(*input_h, 2);
  TF_RETURN_IF_ERROR(ReadInput(ctx_, "input_c", &input_c));
  if (rnn::TraitsOf(attributes_.rnn_mode()).has_cell_state) {
    TF_RETURN_IF_ERROR(ReadState("input_c", pseudo_layers, "num_units",
                                 projects ? kAnySize : num_units, &input_c));
    num_units = AxisSize(*input_c, 2);
  }
  return MakeConfig(pseudo_layers, num_units, AxisSize(*input, 2));
}

absl::Status CudnnRnnInputs::MakeConfig(std::int64_t pseudo_layers,
                                        std::int64_t num_units,
                                        std::int64_t input_size) {
  const std::int64_t directions = attributes_.num_directions();
  if (pseudo_layers == 0 || pseudo_layers % directions != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input_h must be of num_layers * num_directions, a positive multiple "
        "of ",
        directions, ", pseudo-layers, but is ",
        input_h->shape().DebugString()));
  }
  const absl::Status status = attributes_.MakeConfig(
      pseudo_layers / directions, num_units, input_size, &config_);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), ": input is ", input->shape().DebugString(),
      ", input_h is ", input_h->shape().DebugString(), ", input_c is ",
      input_c->shape().DebugString()));
}

absl::Status CudnnRnnInputs::ReadSequenceLengths() {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(
      ReadInput(ctx_, "sequence_lengths", "[batch]", {size_.batch}, &tensor));
  // A copy: the caller may write to memory that it lends TensorFlow, and what
  // has been checked must stay so.
  tensorflow::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  TF_RETURN_IF_ERROR(ctx_->allocate_temp(tensor->dtype(), tensor->shape(),
                                         &sequence_lengths_, on_host));
  std::int32_t* const lengths = EngineData<std::int32_t>(&sequence_lengths_);
  std::copy_n(EngineData<std::int32_t>(*tensor), size_.batch, lengths);
  for (std::int64_t i = 0; i < size_.batch; ++i) {
    const std::int32_t length = lengths[i];
    if (length < 0 || length > size_.time) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence_lengths[", i, "] must be between 0 and time = ", size_.time,
          ", but is ", length));
    }
    all_have_all_steps_ = all_have_all_steps_ && length == size_.time;
  }
  return absl::OkStatus();
}

absl::Status CudnnRnnInputs::ReadState(const char* name,
                                       std::int64_t pseudo_layers,
                                       const std::string& size_name,
                                       std::int64_t size,
                                       const Tensor** tensor) const {
  return ReadSequence(name, "num_layers * num_directions", pseudo_layers,
                      size_name, size, tensor);
}

absl::Status CudnnRnnInputs::ReadSequence(const char* name,
                                          const std::string& steps_name,
                                          std::int64_t steps,
                                          const std::string& size_name,
                                          std::int64_t size,
                                          const Tensor** tensor) const {
  const std::string meaning =
      attributes_.time_major()
          ? absl::StrCat("[", steps_name, ", batch, ", size_name, "]")
          : absl::StrCat("[batch, ", steps_name, ", ", size_name, "]");
  return ReadInput(ctx_, name, meaning, SequenceShape(steps, size), tensor);
}

std::array<std::int64_t, 3> CudnnRnnInputs::SequenceShape(
    std::int64_t steps, std::int64_t size) const {
  std::array<std::int64_t, 3> shape;
  shape[step_axis()] = steps;
  shape[batch_axis()] = size_.batch;
  shape[2] = size;
  return shape;
}

}  // namespace tf_rnn_ops
