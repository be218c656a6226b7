#include "cc/ops/keras_rnn_inputs.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "cc/ops/arguments.h"
#include "cc/rnn/checked_math.h"

namespace tf_rnn_ops {
namespace {

Status MakeIntegers(CallFrame* frame, const rnn::CheckedInt& count,
                    std::int32_t** integers) {
  const rnn::CheckedInt num_bytes = count * std::int64_t{sizeof(**integers)};
  void* memory;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeScratch(num_bytes.value(), &memory));
  *integers = static_cast<std::int32_t*>(memory);
  return Status();
}

}  // namespace

Status KerasRnnAttributes::Read(const Attributes& attributes) {
  TF_RNN_OPS_RETURN_IF_ERROR(rnn::ReadCellAttributes(
      [&attributes](const char* name, auto* value) {
        return attributes.Get(name, value);
      },
      &cell));
  const std::string error = cell.Error();
  if (!error.empty()) return InvalidArgument(error);
  TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("go_backwards", &go_backwards));
  TF_RNN_OPS_RETURN_IF_ERROR(
      attributes.Get("return_sequences", &return_sequences));
  return attributes.Get("zero_output_for_mask", &zero_output_for_mask);
}

Status MaskedSteps::Read(CallFrame* frame, const Array& mask,
                         const rnn::RnnSize& size, bool go_backwards) {
  size_ = size;
  go_backwards_ = go_backwards;
  if (mask.num_elements == 0) return Status();
  if (size.time > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument(
        "sequences must have at most 2^31 - 1 steps if a mask is given, but "
        "has ",
        size.time);
  }
  if (!frame->has_values()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(MakeIntegers(frame, mask.num_elements, &places_));
  TF_RNN_OPS_RETURN_IF_ERROR(MakeIntegers(frame, size.batch, &lengths_));
  for (std::int64_t sample = 0; sample < size.batch; ++sample) {
    Order(mask.As<const unsigned char>() + sample * size.time, sample);
  }
  return Status();
}

void MaskedSteps::Order(const unsigned char* mask, std::int64_t sample) {
  const auto time = static_cast<std::int32_t>(size_.time);
  std::int32_t* const places = places_ + sample * size_.time;
  std::int32_t length = 0;
  std::int32_t first_left_out = time;
  // Reads each byte only once, since another thread may change the input.
  for (std::int32_t place = 0; place < time; ++place) {
    if (mask[go_backwards_ ? time - 1 - place : place] != 0) {
      places[length++] = place;
    } else {
      places[--first_left_out] = place;  // last place first
    }
  }
  std::reverse(places + length, places + time);
  lengths_[sample] = length;
  leaves_out_ = leaves_out_ || length < time;
  has_gaps_ = has_gaps_ || (length > 0 && places[length - 1] != length - 1);
}

Status KerasRnnInputs::Read() {
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "sequences", {batch_, time_, features_}, &sequences));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadHiddenState("initial_h", &initial_h));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadCellState("initial_c", &initial_c));
  if (units_.value() > std::numeric_limits<std::int64_t>::max() / 8) {
    return TooLarge();
  }
  TF_RNN_OPS_RETURN_IF_ERROR(ReadWeights());
  Array mask;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadOptional("mask", {batch_, time_}, &mask));
  size_ = {time_.value(), batch_.value()};
  config_ = {attributes_.cell.mode,
             /*skip_input=*/false,
             /*num_directions=*/1,
             /*num_layers=*/1,
             features_.value(),
             units_.value(),
             /*num_proj=*/0,
             /*has_keras_weights=*/true,
             attributes_.cell.activations};
  SetShapes();
  if (!is_complete()) return Status();
  if (outputs_shape().NumElements() < 0 ||
      !rnn::LayerOutputSize(config_, size_).valid() ||
      !rnn::LayerKeptSize(config_, size_).valid()) {
    return TooLarge();
  }
  // The steps of all samples, since outputs may be those of the last step only.
  if (config_.num_units > 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckNumSteps("sequences", size_.batch * size_.time, sequences));
  }
  return steps_.Read(frame_, mask, size_, attributes_.go_backwards);
}

void KerasRnnInputs::SetShapes() {
  if (frame_->has_values()) return;
  const Dimension gate_units(attributes_.num_gates(), units_);
  sequences.shape = ShapeOf({batch_, time_, features_});
  initial_h.shape = ShapeOf({batch_, units_});
  if (attributes_.has_cell_state()) initial_c.shape = initial_h.shape;
  kernel.shape = ShapeOf({features_, gate_units});
  recurrent_kernel.shape = ShapeOf({units_, gate_units});
}

Status KerasRnnInputs::ReadHiddenState(const char* name, Array* array) {
  return ReadInput(frame_, name, {batch_, units_}, array);
}

Status KerasRnnInputs::ReadCellState(const char* name, Array* array) {
  if (!attributes_.has_cell_state()) return frame_->FindInput(name, array);
  return ReadHiddenState(name, array);
}

Status KerasRnnInputs::ReadOutputs(const char* name, Array* array) {
  if (!attributes_.return_sequences) return ReadHiddenState(name, array);
  return ReadInput(frame_, name, {batch_, time_, units_}, array);
}

Status KerasRnnInputs::TooLarge() const {
  return InvalidArgument(
      "sequences and initial_h must be smaller: the memory size of the op "
      "overflows int64 for sequences of shape ",
      sequences.shape.ToString(), " and initial_h of shape ",
      initial_h.shape.ToString());
}

Status KerasRnnInputs::ReadWeights() {
  const Dimension gate_units(attributes_.num_gates(), units_);
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "kernel", {features_, gate_units}, &kernel));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(
      frame_, "recurrent_kernel", {units_, gate_units}, &recurrent_kernel));
  if (attributes_.cell.mode != rnn::RnnMode::kGru) {
    return ReadOptional("bias", {gate_units}, &bias);
  }
  Size two("2", 2);
  return ReadOptional("bias", {two, gate_units}, &bias);
}

Status KerasRnnInputs::ReadOptional(const char* name, Dimensions dimensions,
                                    Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput(name, array));
  if (array->num_elements == 0 || !array->shape.is_known()) return Status();
  return MatchShape(name, dimensions, *array);
}

}  // namespace tf_rnn_ops
