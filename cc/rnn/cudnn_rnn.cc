#include "cc/rnn/cudnn_rnn.h"

#include <type_traits>

#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/network/cudnn_rnn.h"

namespace tf_rnn_ops::rnn {

template <typename T>
CudnnRnnKernels<T> GetCudnnRnnKernels(InstructionSet instruction_set,
                                      const RnnConfig& config) {
  // Products of bfloat16 round states to bfloat16. That is as accurate as the
  // type itself, except near a kink such as a ReLU's, where rounding could
  // select the gradient of the wrong side.
  [[maybe_unused]] const bool may_round_states = !config.has_kinks();
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (may_round_states) return amx::CudnnRnn<T>();
      }
      [[fallthrough]];
    case InstructionSet::kAvx512Bf16:
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (may_round_states) return avx512_bf16::CudnnRnn<T>();
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

#define INSTANTIATE(T)                                              \
  template CudnnRnnKernels<T> GetCudnnRnnKernels<T>(InstructionSet, \
                                                    const RnnConfig&)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
