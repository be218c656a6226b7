#include "cc/rnn/simd/network/cudnn_rnn.h"

#include <cassert>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/simd/network/dropout.h"
#include "cc/rnn/simd/network/network_backward.h"
#include "cc/rnn/simd/network/network_backward_grad.h"
#include "cc/rnn/simd/network/network_forward.h"
#include "cc/rnn/simd/network/network_pass.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// The bytes of scratch memory that a call needs.
template <typename Call, typename Arguments>
std::int64_t Workspace(const Arguments& arguments, int num_threads) {
  if (HasNoState(arguments.config, arguments.size)) return 0;
  Arena arena(nullptr);
  Call(arguments, num_threads, arena);
  return arena.used();
}

template <typename Call, typename Arguments>
void Run(const Arguments& arguments, Executor& executor) {
  Arena arena(arguments.workspace);
  const Call call(arguments, executor.num_threads(), arena);
  assert(HasNoState(arguments.config, arguments.size) ||
         arena.used() == Workspace<Call>(arguments, executor.num_threads()));
  call.Run(executor);
}

template <typename T>
CudnnRnnKernels<T> Kernels() {
  return {&Workspace<NetworkForward<T>, CudnnRnnForward<T>>,
          &Workspace<NetworkBackward<T>, CudnnRnnBackward<T>>,
          &Workspace<NetworkBackwardGrad<T>, CudnnRnnBackwardGrad<T>>,
          &Run<NetworkForward<T>, CudnnRnnForward<T>>,
          &Run<NetworkBackward<T>, CudnnRnnBackward<T>>,
          &Run<NetworkBackwardGrad<T>, CudnnRnnBackwardGrad<T>>,
          &DropoutMasks<ComputeType<T>>};
}

}  // namespace

#if defined(__AVX512BF16__)
template <>
CudnnRnnKernels<BFloat16> CudnnRnn<BFloat16>() {
  return Kernels<BFloat16>();
}
#else
template <>
CudnnRnnKernels<float> CudnnRnn<float>() {
  return Kernels<float>();
}
template <>
CudnnRnnKernels<double> CudnnRnn<double>() {
  return Kernels<double>();
}
template <>
CudnnRnnKernels<Half> CudnnRnn<Half>() {
  return Kernels<Half>();
}
template <>
CudnnRnnKernels<BFloat16> CudnnRnn<BFloat16>() {
  return Kernels<BFloat16>();
}
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
