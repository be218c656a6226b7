#include "cc/ops/cudnn_rnn_inputs.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/join.h"
#include "cc/rnn/network_attributes.h"

namespace tf_rnn_ops {

Status CudnnRnnInputs::ReadForwardInputs(bool has_sequence_lengths) {
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSizes());
  TF_RNN_OPS_RETURN_IF_ERROR(ReadParams("params", &params));
  output_shape_ = SequenceShape(size_.time, output_width());
  if (output_shape_.NumElements() < 0) return TooLarge();
  if (size_.batch > 0 && config_.num_units > 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(CheckNumSteps("input", size_.time, input));
  }
  return has_sequence_lengths ? ReadSequenceLengths() : Status();
}

Status CudnnRnnInputs::ReadNetworkInput(const char* name, Array* array) const {
  return ReadSequence(name, "time", size_.time, "input_size",
                      config_.input_size, array);
}

Status CudnnRnnInputs::ReadParams(const char* name, Array* array) const {
  const Status status = ReadInput(frame_, name, "[params_size]",
                                  {rnn::CudnnRnnParamsSize(config_)}, array);
  if (status.ok()) return status;
  return Status(status.code(),
                rnn::Join(status.message(), " for ", rnn::Describe(config_)));
}

Status CudnnRnnInputs::ReadOutput(const char* name, Array* array) const {
  return ReadSequence(name, "time", size_.time,
                      attributes_.num_proj() > 0 ? "num_directions * num_proj"
                                                 : "num_directions * num_units",
                      output_width(), array);
}

Status CudnnRnnInputs::ReadHiddenState(const char* name, Array* array) const {
  return ReadState(name, config_.num_pseudo_layers(), output_size_name(),
                   config_.output_size(), array);
}

Status CudnnRnnInputs::ReadCellState(const char* name, Array* array) const {
  if (!config_.has_cell_state()) return frame_->FindInput(name, array);
  return ReadState(name, config_.num_pseudo_layers(), "num_units",
                   config_.num_units, array);
}

Status CudnnRnnInputs::TooLarge() const {
  return InvalidArgument(
      "input and input_h must be smaller: the memory size of the op overflows "
      "int64 for input of shape ",
      input.shape.ToString(), " and input_h of shape ",
      input_h.shape.ToString());
}

Status CudnnRnnInputs::ReadSizes() {
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadSequence("input", "time", kAnySize, "input_size", kAnySize, &input));
  size_ = {input.shape[step_axis()], input.shape[batch_axis()]};
  const bool projects = attributes_.num_proj() > 0;
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadState("input_h", kAnySize, output_size_name(),
                projects ? attributes_.num_proj() : kAnySize, &input_h));
  const std::int64_t pseudo_layers = input_h.shape[step_axis()];
  std::int64_t num_units = input_h.shape[2];
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput("input_c", &input_c));
  if (rnn::TraitsOf(attributes_.rnn_mode()).has_cell_state) {
    TF_RNN_OPS_RETURN_IF_ERROR(ReadState("input_c", pseudo_layers, "num_units",
                                         projects ? kAnySize : num_units,
                                         &input_c));
    num_units = input_c.shape[2];
  }
  return MakeConfig(pseudo_layers, num_units, input.shape[2]);
}

Status CudnnRnnInputs::MakeConfig(std::int64_t pseudo_layers,
                                  std::int64_t num_units,
                                  std::int64_t input_size) {
  const std::int64_t directions = attributes_.num_directions();
  if (pseudo_layers == 0 || pseudo_layers % directions != 0) {
    return InvalidArgument(
        "input_h must have a positive multiple of num_directions = ",
        directions, " as dimension ", step_axis(),
        " (num_layers * num_directions), but has the shape ",
        input_h.shape.ToString());
  }
  const Status status = attributes_.MakeConfig(pseudo_layers / directions,
                                               num_units, input_size, &config_);
  if (status.ok()) return status;
  return InvalidArgument(status.message(), " (input has the shape ",
                         input.shape.ToString(), ", input_h ",
                         input_h.shape.ToString(), ", input_c ",
                         input_c.shape.ToString(), ")");
}

Status CudnnRnnInputs::ReadSequenceLengths() {
  Array given;
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "sequence_lengths", "[batch]", {size_.batch}, &given));
  if (!frame_->has_values()) return Status();
  // Copies the lengths, since another thread may change the input after the
  // check.
  void* copy;
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->MakeScratch(given.num_bytes, &copy));
  std::int32_t* const lengths = static_cast<std::int32_t*>(copy);
  std::copy_n(given.As<std::int32_t>(), size_.batch, lengths);
  bool have_all_steps = true;
  for (std::int64_t i = 0; i < size_.batch; ++i) {
    const std::int32_t length = lengths[i];
    if (length < 0 || length > size_.time) {
      return InvalidArgument("sequence_lengths[", i,
                             "] must be between 0 and time = ", size_.time,
                             ", but is ", length);
    }
    have_all_steps = have_all_steps && length == size_.time;
  }
  if (!have_all_steps) sequence_lengths_ = lengths;
  return Status();
}

Status CudnnRnnInputs::ReadState(const char* name, std::int64_t pseudo_layers,
                                 const char* size_name, std::int64_t size,
                                 Array* array) const {
  return ReadSequence(name, "num_layers * num_directions", pseudo_layers,
                      size_name, size, array);
}

Status CudnnRnnInputs::ReadSequence(const char* name, const char* steps_name,
                                    std::int64_t steps, const char* size_name,
                                    std::int64_t size, Array* array) const {
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput(name, array));
  const Shape expected = SequenceShape(steps, size);
  if (array->shape.Fits(expected)) return Status();
  const std::string meaning =
      attributes_.time_major()
          ? rnn::Join("[", steps_name, ", batch, ", size_name, "]")
          : rnn::Join("[batch, ", steps_name, ", ", size_name, "]");
  return CheckShape(name, meaning, expected, *array);
}

Shape CudnnRnnInputs::SequenceShape(std::int64_t steps,
                                    std::int64_t size) const {
  return attributes_.time_major() ? Shape{steps, size_.batch, size}
                                  : Shape{size_.batch, steps, size};
}

}  // namespace tf_rnn_ops
