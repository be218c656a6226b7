#include "cc/kernels/cudnn_rnn_attributes.h"

#include "absl/strings/str_cat.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

// For a name that the op definition allows.
rnn::RnnMode RnnModeOf(const std::string& name) {
  if (name == "rnn_relu") return rnn::RnnMode::kRelu;
  if (name == "rnn_tanh") return rnn::RnnMode::kTanh;
  return name == "gru" ? rnn::RnnMode::kGru : rnn::RnnMode::kLstm;
}

}  // namespace

absl::Status CudnnRnnAttributes::Read(tensorflow::OpKernelConstruction* ctx) {
  std::string direction;
  TF_RETURN_IF_ERROR(ctx->GetAttr("rnn_mode", &rnn_mode_name_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("input_mode", &input_mode_));
  TF_RETURN_IF_ERROR(ctx->GetAttr("direction", &direction));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dropout", &dropout_));
  // Not every version of an op has these.
  if (ctx->HasAttr("num_proj")) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_proj", &num_proj_));
  }
  if (ctx->HasAttr("time_major")) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("time_major", &time_major_));
  }
  rnn_mode_ = RnnModeOf(rnn_mode_name_);
  num_directions_ = direction == "bidirectional" ? 2 : 1;
  return Check();
}

absl::Status CudnnRnnAttributes::Check() const {
  if (!(dropout_ >= 0 && dropout_ <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout must be between 0 and 1, but is ", dropout_));
  }
  if (num_proj_ < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must not be negative, but is ", num_proj_));
  }
  if (num_proj_ > 0 && rnn_mode_ != rnn::RnnMode::kLstm) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must be 0 unless rnn_mode is lstm, but is ",
                     num_proj_, " where rnn_mode is ", rnn_mode_name_));
  }
  return absl::OkStatus();
}

absl::Status CudnnRnnAttributes::MakeConfig(std::int64_t num_layers,
                                            std::int64_t num_units,
                                            std::int64_t input_size,
                                            rnn::RnnConfig* config) const {
  if (input_mode_ == "skip_input" && input_size != num_units) {
    return absl::InvalidArgumentError(
        absl::StrCat("input_size must be num_units = ", num_units,
                     " where input_mode is skip_input, but is ", input_size));
  }
  if (num_proj_ > num_units) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must be at most num_units = ", num_units,
                     ", but is ", num_proj_));
  }
  config->mode = rnn_mode_;
  config->skip_input = input_mode_ != "linear_input" && input_size == num_units;
  config->num_directions = num_directions_;
  config->num_layers = num_layers;
  config->input_size = input_size;
  config->num_units = num_units;
  // A projection to the same size is none, as in cuDNN.
  config->num_proj = num_proj_ < num_units ? num_proj_ : 0;
  if (rnn::CudnnRnnParamsSize(*config) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "params must have no more elements than can be counted, but num_layers "
      "is ",
      num_layers, ", num_units ", num_units, ", input_size ", input_size,
      " and num_proj ", num_proj_));
}

}  // namespace tf_rnn_ops
