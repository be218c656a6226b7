// How kernels take their inputs: by name, and of the shape that they should be.

#ifndef TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_
#define TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// A dimension of an expected shape that may be of any size.
constexpr std::int64_t kAnySize = -1;

// Whether a tensor has a shape.
inline bool HasShape(const tensorflow::Tensor& tensor,
                     absl::Span<const std::int64_t> expected) {
  if (tensor.dims() != static_cast<int>(expected.size())) return false;
  for (int axis = 0; axis < tensor.dims(); ++axis) {
    const std::int64_t size = expected[axis];
    if (size != kAnySize && size != tensor.dim_size(axis)) return false;
  }
  return true;
}

// Refuses a tensor, the argument `name`, that has not the expected shape.
// meaning: what the shape's dimensions are.
inline absl::Status CheckShape(absl::string_view name,
                               absl::string_view meaning,
                               absl::Span<const std::int64_t> expected,
                               const tensorflow::Tensor& tensor) {
  if (HasShape(tensor, expected)) return absl::OkStatus();
  const auto append_size = [](std::string* out, std::int64_t size) {
    size == kAnySize ? absl::StrAppend(out, "?") : absl::StrAppend(out, size);
  };
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", meaning, " = [",
                   absl::StrJoin(expected, ",", append_size), "], but is ",
                   tensor.shape().DebugString()));
}

// Finds an input, and refuses it if it has not the expected shape.
inline absl::Status ReadInput(tensorflow::OpKernelContext* ctx,
                              absl::string_view name, absl::string_view meaning,
                              absl::Span<const std::int64_t> expected,
                              const tensorflow::Tensor** tensor) {
  TF_RETURN_IF_ERROR(ctx->input(name, tensor));
  return CheckShape(name, meaning, expected, **tensor);
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_
