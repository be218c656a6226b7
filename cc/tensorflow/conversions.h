// Conversions between our types and TensorFlow's.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_CONVERSIONS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_CONVERSIONS_H_

#include <new>
#include <string_view>

#include "absl/status/status.h"
#include "cc/ops/array.h"
#include "cc/ops/op.h"
#include "cc/rnn/status.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.pb.h"

namespace tf_rnn_ops {

Status FromAbslStatus(const absl::Status& status);
absl::Status ToAbslStatus(const Status& status);

// CatchExceptions for code that TensorFlow calls.
template <typename Body>
absl::Status CatchInKernel(std::string_view name, const Body& body) {
  const Status status = CatchExceptions(name, body);
  try {
    return ToAbslStatus(status);
  } catch (const std::bad_alloc&) {
    // Without a message, a status needs no memory.
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

tensorflow::DataType ToDataType(ElementType type);

// A view of a tensor. It does not own the memory.
Array ToArray(const tensorflow::Tensor& tensor);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_CONVERSIONS_H_
