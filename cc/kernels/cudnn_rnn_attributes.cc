#include "cc/kernels/cudnn_rnn_attributes.h"

#include "absl/strings/str_cat.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

absl::Status ToStatus(const std::string& error) {
  return error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error);
}

}  // namespace

absl::Status CudnnRnnAttributes::Read(tensorflow::OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(rnn::ReadNetworkAttributes(
      [ctx](const char* name, auto* value) {
        return ctx->GetAttr(name, value);
      },
      &network_));
  // Not every version of an op has these.
  if (ctx->HasAttr("num_proj")) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_proj", &network_.num_proj));
  }
  if (ctx->HasAttr("time_major")) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("time_major", &time_major_));
  }
  return ToStatus(network_.Error());
}

absl::Status CudnnRnnAttributes::MakeConfig(std::int64_t num_layers,
                                            std::int64_t num_units,
                                            std::int64_t input_size,
                                            rnn::RnnConfig* config) const {
  TF_RETURN_IF_ERROR(ToStatus(network_.InputSizeError(num_units, input_size)));
  TF_RETURN_IF_ERROR(ToStatus(network_.NumUnitsError(num_units)));
  *config = network_.Config(num_layers, num_units, input_size);
  if (rnn::CudnnRnnParamsSize(*config) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      network_.TooManyParams(absl::StrCat(num_layers), absl::StrCat(num_units),
                             absl::StrCat(input_size)));
}

}  // namespace tf_rnn_ops
