#include "cc/kernels/cudnn_rnn_backprop_grad.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

template <typename E>
bool IsZero(E x) {
  if constexpr (sizeof(E) == 2) {
    return (x.bits & 0x7fff) == 0;
  } else {
    return x == 0;
  }
}

template <typename T>
class CpuBackpropGrad {
 public:
  using E = EngineType<T>;

  explicit CpuBackpropGrad(const CudnnRnnAttributes&) {}

  // What is not zeros soon shows it.
  absl::Status FindZeros(OpKernelContext*, const Tensor& tensor,
                         bool* are_zeros) const {
    constexpr std::int64_t kAtOnce = 1024;  // without a branch for each
    const E* const elements = EngineData<T>(tensor);
    const std::int64_t size = tensor.NumElements();
    *are_zeros = true;
    for (std::int64_t i = 0; i < size && *are_zeros; i += kAtOnce) {
      for (std::int64_t j = i; j < std::min(i + kAtOnce, size); ++j) {
        *are_zeros &= IsZero(elements[j]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadHeader(OpKernelContext* ctx, Tensor* reserve_space,
                          rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(ctx, reserve_space, header);
  }

  // A forward pass that ran on a GPU runs again.
  absl::Status BackwardGrad(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                            rnn::CudnnRnnBackwardGrad<E>* pass) const {
    Tensor reserve_space, output;
    rnn::ReserveSpaceHeader header;
    const auto origin =
        rnn::FindReserveSpaceOrigin(*pass->reserve_space_header);
    if (origin.device == rnn::Device::kGpu) {
      TF_RETURN_IF_ERROR(RunForward(
          ctx, inputs, rnn::ReserveSpaceStream(*pass->reserve_space_header),
          &reserve_space, &output));
      header = CopyHeader(reserve_space);
      pass->reserve_space = EngineData<T>(reserve_space);
      pass->reserve_space_header = &header;
      pass->output = EngineData<T>(output);
    }
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.backward_grad_workspace,
                   kernels.backward_grad, pass);
  }

  absl::Status SetZero(OpKernelContext*, Tensor* tensor) const {
    tf_rnn_ops::SetZero(tensor);
    return absl::OkStatus();
  }

 private:
  // Runs the forward pass with the dropout masks of a stream.
  static absl::Status RunForward(OpKernelContext* ctx,
                                 const CudnnRnnInputs& inputs,
                                 const rnn::RandomStream& stream,
                                 Tensor* reserve_space, Tensor* output) {
    const auto dtype = tensorflow::DataTypeToEnum<T>::value;
    const std::int64_t size =
        rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
    if (size < 0) return inputs.TooLarge();
    Tensor output_h, output_c;
    TF_RETURN_IF_ERROR(MakeTemp(ctx, dtype, {size}, reserve_space));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.output_shape(), output));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.input_h->shape(), &output_h));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.input_c->shape(), &output_c));
    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.is_training = true;
    pass.stream = stream;
    pass.output = EngineData<T>(output);
    pass.output_h = EngineData<T>(&output_h);
    pass.output_c = EngineData<T>(&output_c);
    pass.reserve_space = EngineData<T>(reserve_space);
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.forward_workspace, kernels.forward,
                   &pass);
  }
};

}  // namespace

void AddCudnnRnnBackpropGradKernels(const DeviceKernels& kernels) {
  CudnnRnnBackpropGradKernelsOn<CpuBackpropGrad>::Add(kernels);
}

}  // namespace tf_rnn_ops
