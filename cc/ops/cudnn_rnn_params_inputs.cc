#include "cc/ops/cudnn_rnn_params_inputs.h"

#include <cstdint>
#include <string>

#include "cc/ops/array.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops {
namespace {

Status ReadSize(CallFrame* frame, const char* name, std::int32_t minimum,
                std::int64_t* size) {
  Array array;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput(name, &array));
  if (array.shape.rank() != 0) {
    return InvalidArgument(name, " must be a scalar, but has the shape ",
                           array.shape.ToString());
  }
  *size = *array.As<std::int32_t>();
  if (*size >= minimum) return Status();
  return InvalidArgument(name, " must be at least ", minimum, ", but is ",
                         *size);
}

}  // namespace

Status ReadConfig(CallFrame* frame, const CudnnRnnAttributes& attributes,
                  rnn::RnnConfig* config) {
  std::int64_t num_layers, num_units, input_size;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, "num_layers", 1, &num_layers));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, "num_units", 0, &num_units));
  TF_RNN_OPS_RETURN_IF_ERROR(ReadSize(frame, "input_size", 0, &input_size));
  return attributes.MakeConfig(num_layers, num_units, input_size, config);
}

Status CheckCounts(const rnn::RnnConfig& config, std::int64_t num_weights,
                   std::int64_t num_biases) {
  const rnn::CudnnRnnParamsLayout layout(config);
  const std::string pseudo_layers =
      rnn::Join(config.num_layers, " * ", config.num_directions);
  if (num_biases != layout.num_biases()) {
    return InvalidArgument(
        "biases must be a list of num_layers * num_directions * 2 * num_gates "
        "= ",
        pseudo_layers, " * 2 * ", config.num_gates(), " vectors, but has ",
        num_biases);
  }
  if (num_weights != layout.num_weights()) {
    const bool projects = config.num_proj > 0;
    return InvalidArgument(
        "weights must be a list of num_layers * num_directions * ",
        projects ? "(2 * num_gates + 1) = " : "2 * num_gates = ", pseudo_layers,
        projects ? " * (2 * " : " * 2 * ", config.num_gates(),
        projects ? " + 1)" : "", " matrices, but has ", num_weights);
  }
  return Status();
}

}  // namespace tf_rnn_ops
