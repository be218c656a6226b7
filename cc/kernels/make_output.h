// How kernels make tensors of sizes that follow from a user's: sizes that no
// tensor has are refused, where TensorShape's constructors would abort.

#ifndef TF_RNN_OPS_CC_KERNELS_MAKE_OUTPUT_H_
#define TF_RNN_OPS_CC_KERNELS_MAKE_OUTPUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// Allocates an output.
// output: its name or its index.
template <typename Output>
absl::Status MakeOutput(tensorflow::OpKernelContext* ctx, Output output,
                        absl::Span<const std::int64_t> sizes,
                        tensorflow::Tensor** tensor) {
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(sizes, &shape));
  return ctx->allocate_output(output, shape, tensor);
}

// Allocates a tensor that lives as long as someone holds it.
inline absl::Status MakeTemp(tensorflow::OpKernelContext* ctx,
                             tensorflow::DataType dtype,
                             absl::Span<const std::int64_t> sizes,
                             tensorflow::Tensor* tensor) {
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(sizes, &shape));
  return ctx->allocate_temp(dtype, shape, tensor);
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_MAKE_OUTPUT_H_
