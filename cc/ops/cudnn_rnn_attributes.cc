#include "cc/ops/cudnn_rnn_attributes.h"

#include <string>

#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops {
namespace {

Status ToStatus(const std::string& error) {
  return error.empty() ? Status() : InvalidArgument(error);
}

}  // namespace

Status CudnnRnnAttributes::Read(const Attributes& attributes) {
  TF_RNN_OPS_RETURN_IF_ERROR(rnn::ReadNetworkAttributes(
      [&attributes](const char* name, auto* value) {
        return attributes.Get(name, value);
      },
      &network_));
  // Older versions of the ops do not have these.
  if (attributes.Has("num_proj")) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("num_proj", &network_.num_proj));
  }
  if (attributes.Has("time_major")) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("time_major", &time_major_));
  }
  return ToStatus(network_.Error());
}

Status CudnnRnnAttributes::MakeConfig(std::int64_t num_layers,
                                      std::int64_t num_units,
                                      std::int64_t input_size,
                                      rnn::RnnConfig* config) const {
  TF_RNN_OPS_RETURN_IF_ERROR(
      ToStatus(network_.InputSizeError(num_units, input_size)));
  TF_RNN_OPS_RETURN_IF_ERROR(ToStatus(network_.NumUnitsError(num_units)));
  *config = network_.Config(num_layers, num_units, input_size);
  if (rnn::CudnnRnnParamsSize(*config) >= 0) return Status();
  return InvalidArgument(network_.TooManyParams(std::to_string(num_layers),
                                                std::to_string(num_units),
                                                std::to_string(input_size)));
}

}  // namespace tf_rnn_ops
