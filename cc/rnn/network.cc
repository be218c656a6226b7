#include "cc/rnn/network.h"

#include <type_traits>

#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/network/kernels.h"

namespace tf_rnn_ops::rnn {

template <typename T>
NetworkKernels<T> GetNetworkKernels(InstructionSet instruction_set,
                                    const RnnConfig& config) {
  // Products of bfloat16 round states to bfloat16. That is as accurate as the
  // type itself, except near a kink such as a ReLU's, where rounding could
  // select the gradient of the wrong side.
  [[maybe_unused]] const bool may_round_states = !config.has_kinks();
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (may_round_states) return amx::GetKernels<T>();
      }
      [[fallthrough]];
    case InstructionSet::kAvx512Bf16:
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (may_round_states) return avx512_bf16::GetKernels<T>();
      }
      [[fallthrough]];
    case InstructionSet::kAvx512:
      return avx512::GetKernels<T>();
    case InstructionSet::kAvx2:
      return avx2::GetKernels<T>();
#endif
    default:
      return baseline::GetKernels<T>();
  }
}

#define INSTANTIATE(T)                                            \
  template NetworkKernels<T> GetNetworkKernels<T>(InstructionSet, \
                                                  const RnnConfig&)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
