// How kernels take their inputs: by name, and of the shape that they should be.
// No user's tensor makes these functions abort, as many of TensorFlow's would.

#ifndef TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_
#define TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// A dimension of an expected shape that may be of any size.
constexpr std::int64_t kAnySize = -1;

// Whether a tensor has a shape.
inline bool HasShape(const tensorflow::Tensor& tensor,
                     absl::Span<const std::int64_t> expected) {
  const auto sizes = tensor.shape().dim_sizes();
  return std::equal(sizes.begin(), sizes.end(), expected.begin(),
                    expected.end(), [](std::int64_t size, std::int64_t wanted) {
                      return wanted == kAnySize || wanted == size;
                    });
}

// The size of an axis of a tensor; 0 if it has no such axis.
inline std::int64_t AxisSize(const tensorflow::Tensor& tensor, int axis) {
  const auto sizes = tensor.shape().dim_sizes();
  return axis < static_cast<int>(sizes.size()) ? sizes[axis] : 0;
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

// Refuses a tensor whose elements lie at addresses that C++ has none of their
// type at. Other libraries lend TensorFlow memory that lies anywhere.
inline absl::Status CheckAddress(absl::string_view name,
                                 const tensorflow::Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data());
  const int size = tensorflow::DataTypeSize(tensor.dtype());
  if (address % size == 0 || tensor.NumElements() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must start at a multiple of ", size,
                   " bytes, the size of its elements, but starts ",
                   address % size, " past one"));
}

// Finds an input of any shape.
inline absl::Status ReadInput(tensorflow::OpKernelContext* ctx,
                              absl::string_view name,
                              const tensorflow::Tensor** tensor) {
  TF_RETURN_IF_ERROR(ctx->input(name, tensor));  // NOLINT(accessors): status
  return CheckAddress(name, **tensor);
}

// Finds an input, and refuses it if it has not the expected shape.
inline absl::Status ReadInput(tensorflow::OpKernelContext* ctx,
                              absl::string_view name, absl::string_view meaning,
                              absl::Span<const std::int64_t> expected,
                              const tensorflow::Tensor** tensor) {
  TF_RETURN_IF_ERROR(ReadInput(ctx, name, tensor));
  return CheckShape(name, meaning, expected, **tensor);
}

// Finds the tensors of an input that is a list.
inline absl::Status ReadInputs(
    tensorflow::OpKernelContext* ctx, absl::string_view name,
    std::vector<const tensorflow::Tensor*>* tensors) {
  int begin, end;
  TF_RETURN_IF_ERROR(ctx->op_kernel().InputRange(name, &begin, &end));
  for (int i = begin; i < end; ++i) {
    const auto tensor = ctx->get_input(i);
    if (!tensor.ok()) return tensor.status();
    TF_RETURN_IF_ERROR(
        CheckAddress(absl::StrCat(name, "[", i - begin, "]"), **tensor));
    tensors->push_back(*tensor);
  }
  return absl::OkStatus();
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_READ_INPUT_H_
