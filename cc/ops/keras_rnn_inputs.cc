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

Status MaskedSteps::Read(CallFrame* frame, const rnn::RnnSize& size,
                         bool go_backwards) {
  size_ = size;
  go_backwards_ = go_backwards;
  Array mask;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput("mask", &mask));
  if (mask.num_elements == 0) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(
      CheckShape("mask", "[batch, time]", {size.batch, size.time}, mask));
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
      ReadInput(frame_, "sequences", "[batch, time, features]",
                {kAnySize, kAnySize, kAnySize}, &sequences));
  size_ = {sequences.shape[1], sequences.shape[0]};
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "initial_h", "[batch, units]",
                                       {size_.batch, kAnySize}, &initial_h));
  units_ = initial_h.shape[1];
  TF_RNN_OPS_RETURN_IF_ERROR(ReadCellState("initial_c", &initial_c));
  if (units_ > std::numeric_limits<std::int64_t>::max() / 8) return TooLarge();
  TF_RNN_OPS_RETURN_IF_ERROR(ReadWeights());
  config_ = {attributes_.cell.mode,
             /*skip_input=*/false,
             /*num_directions=*/1,
             /*num_layers=*/1,
             sequences.shape[2],
             units_,
             /*num_proj=*/0,
             /*has_keras_weights=*/true,
             attributes_.cell.activations};
  if (outputs_shape().NumElements() < 0 ||
      !rnn::LayerOutputSize(config_, size_).valid() ||
      !rnn::LayerKeptSize(config_, size_).valid()) {
    return TooLarge();
  }
  // The steps of all samples, since outputs may be those of the last step only.
  if (units_ > 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckNumSteps("sequences", size_.batch * size_.time, sequences));
  }
  return steps_.Read(frame_, size_, attributes_.go_backwards);
}

Status KerasRnnInputs::ReadHiddenState(const char* name, Array* array) const {
  return ReadInput(frame_, name, "[batch, units]", {size_.batch, units_},
                   array);
}

Status KerasRnnInputs::ReadCellState(const char* name, Array* array) const {
  if (!attributes_.has_cell_state()) return frame_->FindInput(name, array);
  return ReadHiddenState(name, array);
}

Status KerasRnnInputs::ReadOutputs(const char* name, Array* array) const {
  if (!attributes_.return_sequences) return ReadHiddenState(name, array);
  return ReadInput(frame_, name, "[batch, time, units]", outputs_shape(),
                   array);
}

Status KerasRnnInputs::TooLarge() const {
  return InvalidArgument(
      "sequences and initial_h must be smaller: the memory size of the op "
      "overflows int64 for sequences of shape ",
      sequences.shape.ToString(), " and initial_h of shape ",
      initial_h.shape.ToString());
}

Status KerasRnnInputs::ReadWeights() {
  const std::int64_t gate_units = attributes_.num_gates() * units_;
  const std::string columns =
      std::to_string(attributes_.num_gates()) + " * units]";
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "kernel", "[features, " + columns,
                {sequences.shape[2], gate_units}, &kernel));
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadInput(frame_, "recurrent_kernel", "[units, " + columns,
                {units_, gate_units}, &recurrent_kernel));
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput("bias", &bias));
  if (bias.num_elements == 0) return Status();
  if (attributes_.cell.mode == rnn::RnnMode::kGru) {
    return CheckShape("bias", "[2, " + columns, {2, gate_units}, bias);
  }
  return CheckShape("bias", "[" + columns, {gate_units}, bias);
}

}  // namespace tf_rnn_ops
