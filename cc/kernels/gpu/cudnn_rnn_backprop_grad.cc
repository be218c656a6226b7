#include "cc/kernels/cudnn_rnn_backprop_grad.h"

#include "absl/status/status.h"
#include "cc/gpu/arrays.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/cudnn_rnn_backward_grad.h"
#include "cc/gpu/data_type.h"
#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

template <typename T>
class GpuBackpropGrad {
 public:
  using E = EngineType<T>;

  explicit GpuBackpropGrad(const CudnnRnnAttributes&) {}

  absl::Status FindZeros(OpKernelContext* ctx, const Tensor& tensor,
                         bool* are_zeros) const {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    return ToAbslStatus(gpu::FindZeros(call.call(), gpu::DataTypeOf<E>,
                                       tensor.NumElements(), tensor.data(),
                                       are_zeros));
  }

  absl::Status ReadHeader(OpKernelContext* ctx, Tensor* reserve_space,
                          rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(ctx, *reserve_space, header);
  }

  absl::Status BackwardGrad(OpKernelContext* ctx, const CudnnRnnInputs&,
                            rnn::CudnnRnnBackwardGrad<E>* pass) const {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    gpu::Cublas* cublas;
    TF_RETURN_IF_ERROR(ToAbslStatus(gpu::Cublas::Get(&cublas)));
    return ToAbslStatus(gpu::RunCudnnRnnBackwardGrad(call.call(), *cublas,
                                                     AllowsTf32(), *pass));
  }

  absl::Status SetZero(OpKernelContext* ctx, Tensor* tensor) const {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    return ToAbslStatus(
        gpu::ZeroBytes(call.call(), tensor->TotalBytes(), tensor->data()));
  }
};

}  // namespace

void AddGpuCudnnRnnBackpropGradKernels(const DeviceKernels& kernels) {
  CudnnRnnBackpropGradKernelsOn<GpuBackpropGrad>::Add(kernels);
}

}  // namespace tf_rnn_ops
