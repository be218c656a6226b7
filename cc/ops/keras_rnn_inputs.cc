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

Status KerasRnnInputs::Read() {
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSequences("sequences", &sequences));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInitialH("initial_h", &initial_h));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInitialC("initial_c", &initial_c));
  if (units_.value() > std::numeric_limits<std::int64_t>::max() / 8) {
    return TooLarge();
  }
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadWeights("", &kernel, &recurrent_kernel, &bias));
  Array mask;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadOptional("mask", {batch_, time_}, &mask));
  rnn::GateDropout input_dropout, state_dropout;
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadMasks("input_masks", features_, &input_masks, &input_dropout));
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadMasks("state_masks", units_, &state_masks, &state_dropout));
  size_ = {time_.value(), batch_.value()};
  config_ = {attributes_.cell.mode,
             /*skip_input=*/false,
             /*num_directions=*/1,
             /*num_layers=*/1,      features_.value(),           units_.value(),
             /*num_proj=*/0,
             /*keeps_output=*/true, attributes_.cell.activations};
  config_.input_dropout = input_dropout;
  config_.state_dropout = state_dropout;
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
  return ApplyMask(mask);
}

Status KerasRnnInputs::ReadSequences(const char* name, Array* array) {
  return ReadInput(frame_, name, {batch_, time_, features_}, array);
}

Status KerasRnnInputs::ReadInitialH(const char* name, Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput(name, array));
  const Shape& shape = array->shape;
  const bool may_be_absent =
      !shape.has_rank() || (shape.rank() == 2 && shape[0] <= 0);
  if (!may_be_absent) return ReadHiddenState(name, array);
  Size any("batch");
  return ReadInput(frame_, name, {any, units_}, array);
}

Status KerasRnnInputs::ReadInitialC(const char* name, Array* array) {
  return attributes_.has_cell_state() ? ReadInitialH(name, array)
                                      : frame_->FindInput(name, array);
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

Status KerasRnnInputs::ReadWeights(const char* suffix, Array* kernel,
                                   Array* recurrent_kernel, Array* bias) {
  const std::string end = suffix;
  const Dimension gate_units(attributes_.num_gates(), units_);
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, ("kernel" + end).c_str(),
                                       {features_, gate_units}, kernel));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_,
                                       ("recurrent_kernel" + end).c_str(),
                                       {units_, gate_units}, recurrent_kernel));
  const std::string name = "bias" + end;
  if (rnn::KerasBiasRows(attributes_.cell.mode) == 1) {
    return ReadOptional(name, {gate_units}, bias);
  }
  Size two("2", 2);
  return ReadOptional(name, {two, gate_units}, bias);
}

Status KerasRnnInputs::ReadMasks(const char* name, Size& width,
                                 std::vector<Array>* masks,
                                 rnn::GateDropout* dropout) {
  *dropout = rnn::GateDropout::kNone;
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInputs(name, masks));
  if (masks->empty()) return Status();
  const std::int64_t gates = attributes_.num_gates();
  const auto count = static_cast<std::int64_t>(masks->size());
  if (count != 1 && count != gates) {
    return InvalidArgument(name, " must have no tensor, 1 or ", gates,
                           ", one for each gate, but has ", count);
  }
  // Where shapes are not known, one may tell the rank of all.
  const bool has_steps =
      std::any_of(masks->begin(), masks->end(), [](const Array& mask) {
        return mask.shape.has_rank() && mask.shape.rank() == 3;
      });
  *dropout = has_steps ? rnn::GateDropout::kMasksOfSteps
                       : rnn::GateDropout::kSameMasks;
  for (std::int64_t i = 0; i < count; ++i) {
    const Array& mask = (*masks)[i];
    if (!mask.shape.has_rank()) continue;
    const std::string element = rnn::Join(name, "[", i, "]");
    TF_RNN_OPS_RETURN_IF_ERROR(
        has_steps ? MatchShape(element, {batch_, time_, width}, mask)
                  : MatchShape(element, {batch_, width}, mask));
  }
  return Status();
}

Status KerasRnnInputs::ReadOptional(const std::string& name,
                                    Dimensions dimensions, Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame_->FindInput(name.c_str(), array));
  if (array->num_elements == 0 || !array->shape.is_known()) return Status();
  return MatchShape(name, dimensions, *array);
}

Status KerasRnnInputs::TooLarge() const {
  return InvalidArgument(
      "sequences and initial_h must be smaller: the memory size of the op "
      "overflows int64 for sequences of shape ",
      sequences.shape.ToString(), " and initial_h of shape ",
      initial_h.shape.ToString());
}

Status KerasRnnInputs::ApplyMask(const Array& mask) {
  steps_ = rnn::StepMask(size_, attributes_.go_backwards);
  if (mask.num_elements == 0) return Status();
  if (size_.time > std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument(
        "sequences must have at most 2^31 - 1 steps if a mask is given, but "
        "has ",
        size_.time);
  }
  if (!frame_->has_values()) return Status();
  std::int32_t *places, *lengths;
  TF_RNN_OPS_RETURN_IF_ERROR(MakeIntegers(frame_, mask.num_elements, &places));
  TF_RNN_OPS_RETURN_IF_ERROR(MakeIntegers(frame_, size_.batch, &lengths));
  steps_.Apply(mask.As<const unsigned char>(), places, lengths);
  return Status();
}

}  // namespace tf_rnn_ops
