// The kernel of AlignTensor, for any device.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_ALIGN_TENSOR_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_ALIGN_TENSOR_H_

#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// Not a CallKernel, since a frame cannot forward an aligned input tensor as the
// output.
// DeviceCopier: an engine for copies (cc/ops/cudnn_rnn_params.h).
template <typename DeviceCopier>
class AlignTensorKernel final : public tensorflow::OpKernel {
 public:
  explicit AlignTensorKernel(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx,
                   CatchInKernel(type_string(), [&] { return Align(ctx); }));
  }

 private:
  static Status Align(tensorflow::OpKernelContext* ctx) {
    TensorFlowFrame frame(ctx);
    Array array;
    TF_RNN_OPS_RETURN_IF_ERROR(frame.FindInput("tensor", &array));
    const tensorflow::Tensor* tensor;
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(
        ctx->input("tensor", &tensor)));  // NOLINT(accessors): status
    if (tensor->IsAligned()) {
      ctx->set_output(0, *tensor);
      return Status();
    }
    Array aligned;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame.MakeOutput("aligned", array.shape, &aligned));
    DeviceCopier copier;
    TF_RNN_OPS_RETURN_IF_ERROR(copier.Init(&frame));
    return copier.Copy(array.data, array.num_bytes, aligned.data);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_ALIGN_TENSOR_H_
