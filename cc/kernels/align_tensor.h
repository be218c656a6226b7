// The kernel of AlignTensor, for any device.

#ifndef TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_
#define TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_

#include "absl/status/status.h"
#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"
#include "cc/kernels/tensorflow_frame.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// Not a CallKernel, since a frame cannot forward an aligned input tensor as the
// output.
// Copier: see cc/calls/cudnn_rnn_params.h.
template <typename Copier>
class AlignTensorKernel final : public tensorflow::OpKernel {
 public:
  explicit AlignTensorKernel(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TensorFlowFrame frame(ctx);
    Array array;
    OP_REQUIRES_OK(ctx, ToAbslStatus(frame.FindInput("tensor", &array)));
    const tensorflow::Tensor* tensor;
    OP_REQUIRES_OK(ctx,
                   ctx->input("tensor", &tensor));  // NOLINT(accessors): status
    if (tensor->IsAligned()) {
      ctx->set_output(0, *tensor);
      return;
    }
    Array aligned;
    OP_REQUIRES_OK(
        ctx, ToAbslStatus(frame.MakeOutput("aligned", array.shape, &aligned)));
    Copier copier;
    OP_REQUIRES_OK(ctx, ToAbslStatus(copier.Init(&frame)));
    OP_REQUIRES_OK(ctx, ToAbslStatus(copier.Copy(array.data, array.num_bytes,
                                                 aligned.data)));
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_
