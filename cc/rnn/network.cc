#include "cc/rnn/network.h"

#include <cstdint>
#include <type_traits>

#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/network/kernels.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn {

using Set = InstructionSet;

template <typename T>
NetworkKernels<T> GetNetworkKernels(InstructionSet instruction_set,
                                    [[maybe_unused]] const RnnConfig& config) {
  using GetKernels = NetworkKernels<T>();
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
  // Products of bfloat16 round states to bfloat16. That is as accurate as the
  // type itself, except near a kink such as a ReLU's, where rounding could
  // select the gradient of the wrong side.
  if constexpr (std::is_same_v<T, BFloat16>) {
    GetKernels* const get = HighestUpTo<GetKernels>(
        instruction_set, {{Set::kAvx512Bf16, &avx512_bf16::GetKernels<T>},
                          {Set::kAmx, &amx::GetKernels<T>}});
    if (get != nullptr && !config.has_kinks()) return get();
  }
#endif
  return HighestUpTo<GetKernels>(instruction_set,
                                 {
                                     {Set::kBaseline, &baseline::GetKernels<T>},
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
                                     {Set::kAvx2, &avx2::GetKernels<T>},
                                     {Set::kAvx512, &avx512::GetKernels<T>},
#endif
                                 })();
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

using GetFloatKernels = NetworkKernels<float>();

// The sums of products of 8-bit integers have 32 bits, which more terms of 127
// * 128 could exceed. A weight of the input is two terms.
bool FitsInt8(const RnnConfig& config) {
  constexpr std::int64_t kMostTerms = 132104;
  return config.largest_fan_in() <= kMostTerms / 2 &&
         config.output_size() <= kMostTerms;
}

// Returns null if the format is replaced by kFloat32.
GetFloatKernels* KernelsOfFormat(InstructionSet instruction_set,
                                 const RnnConfig& config, WeightFormat format) {
  constexpr auto kBFloat16 = WeightFormat::kBFloat16;
  constexpr auto kInt8 = WeightFormat::kInt8;
  if (format == kBFloat16) {
    return HighestUpTo<GetFloatKernels>(
        instruction_set,
        {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
            {Set::kAvx512Bf16, &avx512_bf16::GetInferenceKernels<kBFloat16>},
            {Set::kAmx, &amx::GetInferenceKernels<kBFloat16>},
#endif
        });
  }
  if (format == kInt8 && FitsInt8(config) && !config.drops_input() &&
      !config.drops_state()) {
    return HighestUpTo<GetFloatKernels>(
        instruction_set,
        {
            {Set::kBaseline, &baseline::GetInferenceKernels<kInt8>},
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
            {Set::kAvx2, &avx2::GetInferenceKernels<kInt8>},
            {Set::kAvx512, &avx512::GetInferenceKernels<kInt8>},
            {Set::kAvx512Vnni, &avx512_vnni::GetInferenceKernels<kInt8>},
            {Set::kAmx, &amx::GetInferenceKernels<kInt8>},
#endif
        });
  }
  return nullptr;
}

}  // namespace

NetworkKernels<float> GetInferenceKernels(InstructionSet instruction_set,
                                          const RnnConfig& config,
                                          WeightFormat format) {
  GetFloatKernels* const get = KernelsOfFormat(instruction_set, config, format);
  return get != nullptr ? get()
                        : GetNetworkKernels<float>(instruction_set, config);
}

}  // namespace tf_rnn_ops::rnn
