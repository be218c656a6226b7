#include "cc/rnn/simd/network/kernels.h"

#include "cc/rnn/float16.h"
#include "cc/rnn/network.h"
#include "cc/rnn/simd/network/dropout.h"
#include "cc/rnn/simd/network/network_backward.h"
#include "cc/rnn/simd/network/network_backward_grad.h"
#include "cc/rnn/simd/network/network_forward.h"
#include "cc/rnn/simd/network/network_pass.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

template <typename T>
[[maybe_unused]] NetworkKernels<T> Kernels() {
  NetworkKernels<T> kernels{};
  SetForward<OperandType<T>>(&kernels);
  kernels.backward_workspace = &Workspace<BackwardPass<T>, NetworkBackward<T>>;
  kernels.backward = &Run<BackwardPass<T>, NetworkBackward<T>>;
  kernels.backward_grad_workspace =
      &Workspace<BackwardGradPass<T>, NetworkBackwardGrad<T>>;
  kernels.backward_grad = &Run<BackwardGradPass<T>, NetworkBackwardGrad<T>>;
  kernels.dropout_masks = &DropoutMasks<ComputeType<T>>;
  return kernels;
}

}  // namespace

#if defined(__AVX512BF16__)
template <>
NetworkKernels<BFloat16> GetKernels<BFloat16>() {
  return Kernels<BFloat16>();
}
#elif !defined(__AVX512VNNI__)
template <>
NetworkKernels<float> GetKernels<float>() {
  return Kernels<float>();
}
template <>
NetworkKernels<double> GetKernels<double>() {
  return Kernels<double>();
}
template <>
NetworkKernels<Half> GetKernels<Half>() {
  return Kernels<Half>();
}
template <>
NetworkKernels<BFloat16> GetKernels<BFloat16>() {
  return Kernels<BFloat16>();
}
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
