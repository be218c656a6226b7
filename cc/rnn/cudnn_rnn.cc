#include "cc/rnn/cudnn_rnn.h"

#include <type_traits>

#include "cc/rnn/instruction_set.h"
#include "cc/rnn/simd/cudnn_rnn.h"

namespace tf_rnn_ops::rnn {

namespace {

#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)

// kKernels: of an instruction set whose products take bfloat16, so that states
// are rounded to it. That is as accurate as the type, but where a ReLU is near
// its kink: there, the gradient could turn out to be that of the other side.
template <CudnnRnnKernels<BFloat16> (*kKernels)()>
CudnnRnnKernels<BFloat16> KernelsFor(const RnnConfig& config) {
  return config.mode == RnnMode::kRelu ? avx512::CudnnRnn<BFloat16>()
                                       : kKernels();
}

template <CudnnRnnKernels<BFloat16> (*kKernels)()>
CudnnRnnKernels<BFloat16> UnlessRelu() {
  using Forward = CudnnRnnForward<BFloat16>;
  using Backward = CudnnRnnBackward<BFloat16>;
  using BackwardGrad = CudnnRnnBackwardGrad<BFloat16>;
  return {[](const Forward& a, int num_threads) {
            return KernelsFor<kKernels>(a.config).forward_workspace(
                a, num_threads);
          },
          [](const Backward& a, int num_threads) {
            return KernelsFor<kKernels>(a.config).backward_workspace(
                a, num_threads);
          },
          [](const BackwardGrad& a, int num_threads) {
            return KernelsFor<kKernels>(a.config).backward_grad_workspace(
                a, num_threads);
          },
          [](const Forward& a, Executor& executor) {
            KernelsFor<kKernels>(a.config).forward(a, executor);
          },
          [](const Backward& a, Executor& executor) {
            KernelsFor<kKernels>(a.config).backward(a, executor);
          },
          [](const BackwardGrad& a, Executor& executor) {
            KernelsFor<kKernels>(a.config).backward_grad(a, executor);
          }};
}

#endif

}  // namespace

template <typename T>
CudnnRnnKernels<T> GetCudnnRnnKernels(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) {
        return UnlessRelu<&amx::CudnnRnn<BFloat16>>();
      }
      [[fallthrough]];
    case InstructionSet::kAvx512Bf16:
      if constexpr (std::is_same_v<T, BFloat16>) {
        return UnlessRelu<&avx512_bf16::CudnnRnn<BFloat16>>();
      }
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
