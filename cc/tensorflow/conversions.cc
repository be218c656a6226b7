#include "cc/tensorflow/conversions.h"

#include <cstdint>
#include <string>

#include "tensorflow/core/framework/tensor_shape.h"

namespace tf_rnn_ops {

Status FromAbslStatus(const absl::Status& status) {
  if (status.ok()) return Status();
  return Status(static_cast<StatusCode>(status.code()),
                std::string(status.message()));
}

absl::Status ToAbslStatus(const Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.code()),
                      status.message());
}

Array ToArray(const tensorflow::Tensor& tensor) {
  const tensorflow::TensorShape& shape = tensor.shape();
  const auto sizes = shape.dim_sizes();
  return {Shape(sizes.data(), sizes.size()), tensor.data(),
          shape.num_elements(), static_cast<std::int64_t>(tensor.TotalBytes())};
}

tensorflow::DataType ToDataType(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return tensorflow::DT_FLOAT;
    case ElementType::kDouble:
      return tensorflow::DT_DOUBLE;
    case ElementType::kHalf:
      return tensorflow::DT_HALF;
    case ElementType::kBFloat16:
      return tensorflow::DT_BFLOAT16;
    case ElementType::kInt32:
      return tensorflow::DT_INT32;
    case ElementType::kInt64:
      return tensorflow::DT_INT64;
  }
  return tensorflow::DT_INVALID;
}

}  // namespace tf_rnn_ops
