// The kernel of AlignTensor, for any device.

#ifndef TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_
#define TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_

#include "cc/kernels/device_kernels.h"
#include "cc/kernels/read_input.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// Copier: as cudnn_rnn_params.h says.
template <typename Copier>
class AlignTensorOp : public tensorflow::OpKernel {
 public:
  explicit AlignTensorOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor* tensor;
    OP_REQUIRES_OK(ctx, ReadInput(ctx, "tensor", &tensor));
    if (tensor->IsAligned()) {
      ctx->set_output(0, *tensor);
      return;
    }
    tensorflow::Tensor* aligned;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensor->shape(), &aligned));
    Copier copier;
    OP_REQUIRES_OK(ctx, copier.Init(ctx));
    OP_REQUIRES_OK(ctx, copier.Copy(tensor->data(), tensor->TotalBytes(),
                                    aligned->data()));
  }
};

// Registers the kernels that copy with a Copier.
template <typename Copier>
struct AlignTensorKernelsOn {
  template <typename T>
  using AlignTensor = AlignTensorOp<Copier>;

  static void Add(const DeviceKernels& kernels) {
    kernels.AddForEachFloat<AlignTensor>("AlignTensor");
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_ALIGN_TENSOR_H_
