#include "cc/rnn/network.h"

#include <type_traits>

#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/network/int8_kernels.h"
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
    case InstructionSet::kAvx512Vnni:
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

namespace {

NetworkKernels<float> GetInt8WeightKernels(
    [[maybe_unused]] InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      return amx::GetInt8WeightKernels();
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512Vnni:
      return avx512_vnni::GetInt8WeightKernels();
    case InstructionSet::kAvx512:
      return avx512::GetInt8WeightKernels();
    case InstructionSet::kAvx2:
      return avx2::GetInt8WeightKernels();
#endif
    default:
      return baseline::GetInt8WeightKernels();
  }
}

NetworkKernels<float> GetBFloat16WeightKernels(InstructionSet instruction_set,
                                               const RnnConfig& config) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
  if (instruction_set == InstructionSet::kAmx) {
    return amx::GetBFloat16WeightKernels();
  }
  if (instruction_set == InstructionSet::kAvx512Bf16) {
    return avx512_bf16::GetBFloat16WeightKernels();
  }
#endif
  return GetNetworkKernels<float>(instruction_set, config);
}

}  // namespace

NetworkKernels<float> GetInferenceKernels(InstructionSet instruction_set,
                                          const RnnConfig& config,
                                          WeightFormat format) {
  // More terms of 127 * 128 could exceed a sum of 32 bits. A weight of the
  // input is two terms.
  constexpr std::int64_t kMostInt8Terms = 132104;
  switch (format) {
    case WeightFormat::kInt8:
      if (config.largest_fan_in() > kMostInt8Terms / 2 ||
          config.output_size() > kMostInt8Terms) {
        break;
      }
      return GetInt8WeightKernels(instruction_set);
    case WeightFormat::kBFloat16:
      return GetBFloat16WeightKernels(instruction_set, config);
    case WeightFormat::kFloat32:
      break;
  }
  return GetNetworkKernels<float>(instruction_set, config);
}

}  // namespace tf_rnn_ops::rnn
