#include "cc/ops/network_sizes.h"

#include <algorithm>
#include <string>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/join.h"

namespace tf_rnn_ops {
namespace {

std::string TextOf(const Size& size) {
  return size.is_known() ? std::to_string(size.value()) : "?";
}

Status ReadSize(CallFrame* frame, std::int32_t minimum, Size* size) {
  Array array;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput(size->name(), &array));
  if (!array.shape.Fits(Shape())) {
    return InvalidArgument(size->name(),
                           " must be a scalar, but has the shape ",
                           array.shape.ToString());
  }
  if (array.data == nullptr) return Status();  // not yet known
  const std::int32_t value = *array.As<std::int32_t>();
  if (value < minimum) {
    return InvalidArgument(size->name(), " must be at least ", minimum,
                           ", but is ", value);
  }
  size->set(value);
  return Status();
}

}  // namespace

Status NetworkSizes::Read(CallFrame* frame) {
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, 1, &num_layers));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, 0, &num_units));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, 0, &input_size));
  return Complete();
}

Status NetworkSizes::Complete() {
  const rnn::NetworkAttributes& network = attributes_.network();
  if (network.input_mode == "skip_input") {
    if (input_size.is_known() && num_units.is_known()) {
      TF_RNN_OPS_RETURN_IF_ERROR(ToStatus(
          network.InputSizeError(num_units.value(), input_size.value())));
    } else if (input_size.is_known()) {
      num_units.set(input_size.value());
    } else if (num_units.is_known()) {
      input_size.set(num_units.value());
    }
  }
  // Made only when needed: every call comes here.
  const auto too_many_params = [&] {
    return InvalidArgument(network.TooManyParams(
        TextOf(num_layers), TextOf(num_units), TextOf(input_size)));
  };
  if (OutputWidth().value() == Dimension::kTooLarge) return too_many_params();
  if (!num_units.is_known()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(
      ToStatus(network.NumUnitsError(num_units.value())));
  // Replaces unknown sizes by their minimum.
  const std::int64_t least = rnn::CudnnRnnParamsSize(network.Config(
      std::max<std::int64_t>(num_layers.value(), 1), num_units.value(),
      std::max<std::int64_t>(input_size.value(), 0)));
  if (least < 0) return too_many_params();
  if (is_complete() || num_units.value() == 0) params_size.set(least);
  return Status();
}

rnn::RnnConfig NetworkSizes::config() const {
  return attributes_.network().Config(num_layers.value(), num_units.value(),
                                      input_size.value());
}

std::optional<bool> NetworkSizes::has_projection() const {
  if (attributes_.num_proj() == 0) return false;
  if (!num_units.is_known()) return std::nullopt;
  return attributes_.num_proj() < num_units.value();
}

std::int64_t NetworkSizes::FirstInputColumns() const {
  const std::string& input_mode = attributes_.network().input_mode;
  if (input_mode == "linear_input") return input_size.value();
  if (input_mode == "skip_input") return 0;
  if (!input_size.is_known() || !num_units.is_known()) return kAnySize;
  return input_size.value() == num_units.value() ? 0 : input_size.value();
}

Status NetworkSizes::CheckCounts(std::int64_t num_weights,
                                 std::int64_t num_biases) const {
  const std::int64_t directions = attributes_.num_directions();
  const std::int64_t gates = rnn::TraitsOf(attributes_.rnn_mode()).gates;
  const std::int64_t per_layer = directions * 2 * gates;
  if (num_biases % per_layer != 0 ||
      (num_layers.is_known() && num_biases / per_layer != num_layers.value())) {
    return InvalidArgument(
        "biases must be a list of num_layers * num_directions * 2 * num_gates "
        "= ",
        TextOf(num_layers), " * ", directions, " * 2 * ", gates,
        " vectors, but has ", num_biases);
  }
  // A pseudo-layer has more matrices than biases only with a projection.
  const std::int64_t pseudo_layers = num_biases / (2 * gates);
  const bool projects = has_projection().value_or(num_weights != num_biases);
  if (num_weights == num_biases + (projects ? pseudo_layers : 0)) {
    return Status();
  }
  return InvalidArgument(
      "weights must be a list of num_layers * num_directions * ",
      projects ? "(2 * num_gates + 1) = " : "2 * num_gates = ", pseudo_layers,
      projects ? " * (2 * " : " * 2 * ", gates, projects ? " + 1)" : "",
      " matrices, but has ", num_weights);
}

Shape NetworkSizes::WeightShape(std::int64_t index, std::int64_t num_weights,
                                std::int64_t num_biases) {
  const std::int64_t gates = rnn::TraitsOf(attributes_.rnn_mode()).gates;
  const std::int64_t per_pseudo_layer =
      num_weights / (num_biases / (2 * gates));
  const bool is_of_first_layer =
      index / per_pseudo_layer < attributes_.num_directions();
  const std::int64_t place = index % per_pseudo_layer;
  if (place < gates) {
    return {num_units.value(),
            is_of_first_layer ? FirstInputColumns() : OutputWidth().value()};
  }
  if (place < 2 * gates) return ShapeOf({num_units, output_size()});
  return ShapeOf({output_size(), num_units});
}

}  // namespace tf_rnn_ops
