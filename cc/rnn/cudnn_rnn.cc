#include "cc/rnn/cudnn_rnn.h"

#include <type_traits>

#include "cc/rnn/instruction_set.h"
#include "cc/rnn/simd/cudnn_rnn.h"

namespace tf_rnn_ops::rnn {

namespace {

#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)

// AMX rounds the states that products take to bfloat16. That is as accurate as
// the type, but where a ReLU is near its kink: there, the gradient could turn
// out to be that of the other side.
CudnnRnnKernels<BFloat16> AmxKernels(const RnnConfig& config) {
  return config.mode == RnnMode::kRelu ? avx512::CudnnRnn<BFloat16>()
                                       : amx::CudnnRnn<BFloat16>();
}

CudnnRnnKernels<BFloat16> AmxKernels() {
  using Forward = CudnnRnnForward<BFloat16>;
  using Backward = CudnnRnnBackward<BFloat16>;
  using BackwardGrad = CudnnRnnBackwardGrad<BFloat16>;
  return {[](const Forward& a, int num_threads) {
            return AmxKernels(a.config).forward_workspace(a, num_threads);
          },
          [](const Backward& a, int num_threads) {
            return AmxKernels(a.config).backward_workspace(a, num_threads);
          },
          [](const BackwardGrad& a, int num_threads) {
            return AmxKernels(a.config).backward_grad_workspace(a, num_threads);
          },
          [](const Forward& a, Executor& executor) {
            AmxKernels(a.config).forward(a, executor);
          },
          [](const Backward& a, Executor& executor) {
            AmxKernels(a.config).backward(a, executor);
          },
          [](const BackwardGrad& a, Executor& executor) {
            AmxKernels(a.config).backward_grad(a, executor);
          }};
}

#endif

}  // namespace

template <typename T>
CudnnRnnKernels<T> GetCudnnRnnKernels(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) return AmxKernels();
      [[fallthrough]];
    case InstructionSet::kAvx512:
      return avx512::CudnnRnn<T>();
    case InstructionSet::kAvx2:
      return avx2::CudnnRnn<T>();
#endif
    default:
      return baseline::CudnnRnn<T>();
  }
}

#define INSTANTIATE(T) \
  template CudnnRnnKernels<T> GetCudnnRnnKernels<T>(InstructionSet)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
