#include "cc/ops/cudnn_rnn_network.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::DimensionOrConstant;
using ::tensorflow::shape_inference::InferenceContext;

bool Known(DimensionHandle dim) { return InferenceContext::ValueKnown(dim); }
std::int64_t Value(DimensionHandle dim) { return InferenceContext::Value(dim); }

// Sums and products of sizes, known or not. Remembers whether one overflowed.
class SizeMath {
 public:
  explicit SizeMath(InferenceContext* c) : c_(c) {}

  DimensionHandle Add(DimensionHandle a, DimensionOrConstant b) {
    DimensionHandle sum = c_->UnknownDim();
    status_.Update(c_->Add(a, b, &sum));
    return sum;
  }
  DimensionHandle Subtract(DimensionHandle a, DimensionOrConstant b) {
    DimensionHandle difference = c_->UnknownDim();
    status_.Update(c_->Subtract(a, b, &difference));
    return difference;
  }
  DimensionHandle Multiply(DimensionHandle a, DimensionOrConstant b) {
    DimensionHandle product = c_->UnknownDim();
    status_.Update(c_->Multiply(a, b, &product));
    return product;
  }

  bool ok() const { return status_.ok(); }

 private:
  InferenceContext* const c_;
  absl::Status status_;
};

}  // namespace

CudnnRnnNetwork::CudnnRnnNetwork(InferenceContext* c)
    : c_(c),
      num_layers_(c->UnknownDim()),
      num_units_(c->UnknownDim()),
      input_size_(c->UnknownDim()) {}

absl::Status CudnnRnnNetwork::ReadAttributes() {
  std::string direction;
  TF_RETURN_IF_ERROR(c_->GetAttr("rnn_mode", &rnn_mode_));
  TF_RETURN_IF_ERROR(c_->GetAttr("input_mode", &input_mode_));
  TF_RETURN_IF_ERROR(c_->GetAttr("direction", &direction));
  TF_RETURN_IF_ERROR(c_->GetAttr("dropout", &dropout_));
  num_directions_ = direction == "bidirectional" ? 2 : 1;
  // The first versions of the ops have no projection.
  if (!c_->GetAttr("num_proj", &num_proj_).ok()) num_proj_ = 0;
  return CheckAttributes();
}

absl::Status CudnnRnnNetwork::CheckAttributes() const {
  if (!(dropout_ >= 0 && dropout_ <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout must be between 0 and 1, but is ", dropout_));
  }
  if (num_proj_ < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must not be negative, but is ", num_proj_));
  }
  if (num_proj_ > 0 && rnn_mode_ != "lstm") {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must be 0 unless rnn_mode is lstm, but is ",
                     num_proj_, " where rnn_mode is ", rnn_mode_));
  }
  return absl::OkStatus();
}

std::int64_t CudnnRnnNetwork::num_gates() const {
  return rnn_mode_ == "lstm" ? 4 : rnn_mode_ == "gru" ? 3 : 1;
}

DimensionHandle CudnnRnnNetwork::output_size() const {
  return num_proj_ > 0 ? c_->MakeDim(num_proj_) : num_units_;
}

const char* CudnnRnnNetwork::output_size_name() const {
  return num_proj_ > 0 ? "num_proj" : "num_units";
}

void CudnnRnnNetwork::set_output_size(DimensionHandle size) {
  if (num_proj_ == 0) num_units_ = size;
}

absl::Status CudnnRnnNetwork::Finish() {
  if (input_mode_ == "skip_input") {
    DimensionHandle size;
    if (!c_->Merge(input_size_, num_units_, &size).ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input_size must be num_units = ", Value(num_units_),
          " where input_mode is skip_input, but is ", Value(input_size_)));
    }
    input_size_ = num_units_ = size;
  }
  if (Known(num_units_) && num_proj_ > Value(num_units_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_proj must be at most num_units = ", Value(num_units_),
                     ", but is ", num_proj_));
  }
  return absl::OkStatus();
}

std::optional<bool> CudnnRnnNetwork::has_projection() const {
  if (num_proj_ == 0) return false;
  if (!Known(num_units_)) return std::nullopt;
  return num_proj_ < Value(num_units_);
}

DimensionHandle CudnnRnnNetwork::ProjectionRows() const {
  const std::optional<bool> projects = has_projection();
  if (!projects.has_value()) return c_->UnknownDim();
  return c_->MakeDim(*projects ? num_proj_ : 0);
}

DimensionHandle CudnnRnnNetwork::FirstInputColumns() const {
  if (input_mode_ == "linear_input") return input_size_;
  if (input_mode_ == "skip_input") return c_->MakeDim(0);
  if (!Known(input_size_) || !Known(num_units_)) return c_->UnknownDim();
  const bool skips = Value(input_size_) == Value(num_units_);
  return c_->MakeDim(skips ? 0 : Value(input_size_));
}

absl::Status CudnnRnnNetwork::OutputWidth(DimensionHandle* width) const {
  if (c_->Multiply(output_size(), num_directions_, width).ok()) {
    return absl::OkStatus();
  }
  return TooLarge();
}

absl::Status CudnnRnnNetwork::ParamsSize(DimensionHandle* size) const {
  SizeMath math(c_);
  const DimensionHandle rows = math.Multiply(num_units_, num_gates());
  const DimensionHandle projection =
      math.Multiply(num_units_, ProjectionRows());
  const auto pseudo_layer_size = [&](DimensionHandle input_columns) {
    // The recurrent matrix and two biases.
    const DimensionHandle recurrent =
        math.Multiply(rows, math.Add(output_size(), 2));
    // Not summed with those before: there may be more columns than can be
    // counted if there are no rows.
    const DimensionHandle input = math.Multiply(rows, input_columns);
    return math.Add(math.Add(input, recurrent), projection);
  };
  const DimensionHandle first_layer = pseudo_layer_size(FirstInputColumns());
  const DimensionHandle other_layer =
      pseudo_layer_size(math.Multiply(output_size(), num_directions_));
  const DimensionHandle other_layers =
      math.Multiply(other_layer, math.Subtract(num_layers_, 1));
  *size = math.Multiply(math.Add(first_layer, other_layers), num_directions_);
  return math.ok() ? absl::OkStatus() : TooLarge();
}

absl::Status CudnnRnnNetwork::TooLarge() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "params must have no more elements than can be counted, but num_layers "
      "is ",
      c_->DebugString(num_layers_), ", num_units ", c_->DebugString(num_units_),
      ", input_size ", c_->DebugString(input_size_), " and num_proj ",
      num_proj_));
}

}  // namespace tf_rnn_ops
