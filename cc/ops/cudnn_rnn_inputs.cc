#include "cc/ops/cudnn_rnn_inputs.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/join.h"
#include "cc/rnn/network_attributes.h"

namespace tf_rnn_ops {

Status CudnnRnnInputs::ReadForwardInputs(bool has_sequence_lengths) {
  TF_RNN_OPS_RETURN_IF_ERROR(ReadNetworkInput("input", &input));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadHiddenState("input_h", &input_h));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadCellState("input_c", &input_c));
  TF_RNN_OPS_RETURN_IF_ERROR(CompleteSizes());
  TF_RNN_OPS_RETURN_IF_ERROR(ReadParams("params", &params));
  output_shape_ = SequenceShape(time_, sizes_.OutputWidth());
  if (output_shape_.NumElements() < 0) return TooLarge();
  if (size_.batch > 0 && config_.num_units > 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(CheckNumSteps("input", size_.time, input));
  }
  return has_sequence_lengths ? ReadSequenceLengths() : Status();
}

Status CudnnRnnInputs::ReadNetworkInput(const char* name, Array* array) {
  return ReadSequence(name, time_, sizes_.input_size, array);
}

Status CudnnRnnInputs::ReadParams(const char* name, Array* array) {
  const Status status = ReadInput(frame_, name, {sizes_.params_size}, array);
  if (status.ok() || !is_complete()) return status;
  return Status(status.code(), rnn::Join(status.message(), " for ",
                                         rnn::Describe(sizes_.config())));
}

Status CudnnRnnInputs::ReadOutput(const char* name, Array* array) {
  return ReadSequence(name, time_, sizes_.OutputWidth(), array);
}

Status CudnnRnnInputs::ReadHiddenState(const char* name, Array* array) {
  return ReadState(name, sizes_.output_size(), array);
}

Status CudnnRnnInputs::ReadCellState(const char* name, Array* array) {
  if (!rnn::TraitsOf(attributes_.rnn_mode()).has_cell_state) {
    return frame_->FindInput(name, array);
  }
  return ReadState(name, sizes_.num_units, array);
}

Status CudnnRnnInputs::TooLarge() const {
  return InvalidArgument(
      "input and input_h must be smaller: the memory size of the op overflows "
      "int64 for input of shape ",
      input.shape.ToString(), " and input_h of shape ",
      input_h.shape.ToString());
}

Status CudnnRnnInputs::CompleteSizes() {
  if (pseudo_layers_.is_known()) {
    sizes_.num_layers.set(pseudo_layers_.value() /
                          attributes_.num_directions());
  }
  const Status status = sizes_.Complete();
  if (!status.ok()) {
    return InvalidArgument(status.message(), " (input has the shape ",
                           input.shape.ToString(), ", input_h ",
                           input_h.shape.ToString(), ", input_c ",
                           input_c.shape.ToString(), ")");
  }
  config_ = sizes_.config();
  size_ = {time_.value(), batch_.value()};
  return Status();
}

Status CudnnRnnInputs::ReadSequenceLengths() {
  Array given;
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "sequence_lengths", {batch_}, &given));
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

Status CudnnRnnInputs::ReadState(const char* name, Size& size, Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSequence(name, pseudo_layers_, size, array));
  const std::int64_t directions = attributes_.num_directions();
  const bool is_valid =
      !pseudo_layers_.is_known() ||
      (pseudo_layers_.value() > 0 && pseudo_layers_.value() % directions == 0);
  if (is_valid) return Status();
  return InvalidArgument(
      name, " must have a positive multiple of num_directions = ", directions,
      " as dimension ", attributes_.time_major() ? 0 : 1, " (",
      pseudo_layers_.name(), "), but has the shape ", array->shape.ToString());
}

Status CudnnRnnInputs::ReadSequence(const char* name, Size& steps,
                                    const Dimension& size, Array* array) {
  return attributes_.time_major()
             ? ReadInput(frame_, name, {steps, batch_, size}, array)
             : ReadInput(frame_, name, {batch_, steps, size}, array);
}

Shape CudnnRnnInputs::SequenceShape(Size& steps, const Dimension& size) {
  return attributes_.time_major() ? ShapeOf({steps, batch_, size})
                                  : ShapeOf({batch_, steps, size});
}

}  // namespace tf_rnn_ops
