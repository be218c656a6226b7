#include "cc/rnn/simd/network/kernels.h"

#include <cassert>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/network.h"
#include "cc/rnn/simd/network/dropout.h"
#include "cc/rnn/simd/network/network_backward.h"
#include "cc/rnn/simd/network/network_backward_grad.h"
#include "cc/rnn/simd/network/network_forward.h"
#include "cc/rnn/simd/network/network_pass.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

template <typename Arguments>
bool IsEmpty(const Arguments& arguments) {
  return HasNoState(arguments.config, arguments.size);
}
template <typename T>
bool IsEmpty(const WeightPacking<T>& arguments) {
  return arguments.config.num_units == 0;
}

// The bytes of scratch memory that a call needs.
template <typename Call, typename Arguments>
std::int64_t Workspace(const Arguments& arguments, int num_threads) {
  if (IsEmpty(arguments)) return 0;
  Arena arena(nullptr);
  Call(arguments, num_threads, arena);
  return arena.used();
}

template <typename Call, typename Arguments>
void Run(const Arguments& arguments, Executor& executor) {
  Arena arena(arguments.workspace);
  const Call call(arguments, executor.num_threads(), arena);
  assert(IsEmpty(arguments) ||
         arena.used() == Workspace<Call>(arguments, executor.num_threads()));
  call.Run(executor);
}

template <typename T>
NetworkKernels<T> Kernels() {
  return {&Workspace<ForwardPass<T>, NetworkForward<T>>,
          &Workspace<BackwardPass<T>, NetworkBackward<T>>,
          &Workspace<BackwardGradPass<T>, NetworkBackwardGrad<T>>,
          &Run<ForwardPass<T>, NetworkForward<T>>,
          &Run<BackwardPass<T>, NetworkBackward<T>>,
          &Run<BackwardGradPass<T>, NetworkBackwardGrad<T>>,
          &WeightPackingPass<T>::Bytes,
          &Workspace<WeightPackingPass<T>, WeightPacking<T>>,
          &Run<WeightPackingPass<T>, WeightPacking<T>>,
          &DropoutMasks<ComputeType<T>>};
}

}  // namespace

#if defined(__AVX512BF16__)
template <>
NetworkKernels<BFloat16> GetKernels<BFloat16>() {
  return Kernels<BFloat16>();
}
#else
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
