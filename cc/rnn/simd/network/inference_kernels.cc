// The kernels of float32 networks with weights in another format.

#include "cc/rnn/float16.h"
#include "cc/rnn/network.h"
#include "cc/rnn/simd/layer/weight_formats.h"
#include "cc/rnn/simd/network/kernels.h"
#include "cc/rnn/simd/network/network_forward.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// P, Products: see ForwardPass.
template <typename P, typename Products>
NetworkKernels<float> Kernels() {
  NetworkKernels<float> kernels{};
  SetForward<P, Products>(&kernels);
  return kernels;
}

}  // namespace

#if defined(__AVX512BF16__)
template <>
NetworkKernels<float> GetInferenceKernels<WeightFormat::kBFloat16>() {
  return Kernels<BFloat16, PlainProducts<BFloat16>>();
}
#endif
// With AVX512 BF16 alone, the code would be that of AVX512 VNNI.
#if !defined(__AVX512BF16__) || defined(__AMX_INT8__)
template <>
NetworkKernels<float> GetInferenceKernels<WeightFormat::kInt8>() {
  return Kernels<float, QuantizedProducts>();
}
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
