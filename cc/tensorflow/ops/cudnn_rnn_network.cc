#include "cc/tensorflow/ops/cudnn_rnn_network.h"

#include "cc/rnn/cudnn_rnn_params.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;

bool Known(DimensionHandle dim) { return InferenceContext::ValueKnown(dim); }
std::int64_t Value(DimensionHandle dim) { return InferenceContext::Value(dim); }

absl::Status ToStatus(const std::string& error) {
  return error.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error);
}

}  // namespace

CudnnRnnNetwork::CudnnRnnNetwork(InferenceContext* c)
    : c_(c),
      num_layers_(c->UnknownDim()),
      num_units_(c->UnknownDim()),
      input_size_(c->UnknownDim()) {}

absl::Status CudnnRnnNetwork::ReadAttributes() {
  TF_RETURN_IF_ERROR(rnn::ReadNetworkAttributes(
      [this](const char* name, auto* value) {
        return c_->GetAttr(name, value);
      },
      &attributes_));
  // Older versions of the ops do not have the attribute num_proj.
  if (!c_->GetAttr("num_proj", &attributes_.num_proj).ok()) {
    attributes_.num_proj = 0;
  }
  return ToStatus(attributes_.Error());
}

DimensionHandle CudnnRnnNetwork::output_size() const {
  return attributes_.num_proj > 0 ? c_->MakeDim(attributes_.num_proj)
                                  : num_units_;
}

const char* CudnnRnnNetwork::output_size_name() const {
  return attributes_.num_proj > 0 ? "num_proj" : "num_units";
}

void CudnnRnnNetwork::set_output_size(DimensionHandle size) {
  if (attributes_.num_proj == 0) num_units_ = size;
}

absl::Status CudnnRnnNetwork::Finish() {
  if (attributes_.input_mode == "skip_input") {
    if (Known(input_size_) && Known(num_units_)) {
      TF_RETURN_IF_ERROR(ToStatus(
          attributes_.InputSizeError(Value(num_units_), Value(input_size_))));
    }
    DimensionHandle size;
    TF_RETURN_IF_ERROR(c_->Merge(input_size_, num_units_, &size));
    input_size_ = num_units_ = size;
  }
  if (!Known(num_units_)) return absl::OkStatus();
  return ToStatus(attributes_.NumUnitsError(Value(num_units_)));
}

std::optional<bool> CudnnRnnNetwork::has_projection() const {
  if (attributes_.num_proj == 0) return false;
  if (!Known(num_units_)) return std::nullopt;
  return attributes_.num_proj < Value(num_units_);
}

DimensionHandle CudnnRnnNetwork::FirstInputColumns() const {
  if (attributes_.input_mode == "linear_input") return input_size_;
  if (attributes_.input_mode == "skip_input") return c_->MakeDim(0);
  if (!Known(input_size_) || !Known(num_units_)) return c_->UnknownDim();
  const bool skips = Value(input_size_) == Value(num_units_);
  return c_->MakeDim(skips ? 0 : Value(input_size_));
}

absl::Status CudnnRnnNetwork::OutputWidth(DimensionHandle* width) const {
  if (c_->Multiply(output_size(), num_directions(), width).ok()) {
    return absl::OkStatus();
  }
  return TooLarge();
}

absl::Status CudnnRnnNetwork::ParamsSize(DimensionHandle* size) const {
  *size = c_->UnknownDim();
  if (Known(num_layers_) && Value(num_layers_) < 1) return TooLarge();
  if (!Known(num_units_)) return absl::OkStatus();
  // Replaces unknown sizes by their minimum.
  const std::int64_t least = rnn::CudnnRnnParamsSize(attributes_.Config(
      Known(num_layers_) ? Value(num_layers_) : 1, Value(num_units_),
      Known(input_size_) ? Value(input_size_) : 0));
  if (least < 0) return TooLarge();
  const bool is_exact = Known(num_layers_) && Known(input_size_);
  if (is_exact || Value(num_units_) == 0) *size = c_->MakeDim(least);
  return absl::OkStatus();
}

absl::Status CudnnRnnNetwork::TooLarge() const {
  return absl::InvalidArgumentError(attributes_.TooManyParams(
      c_->DebugString(num_layers_), c_->DebugString(num_units_),
      c_->DebugString(input_size_)));
}

}  // namespace tf_rnn_ops
