// The network of cc/rnn/network.h, compiled for each instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_

#include "cc/rnn/network.h"

namespace tf_rnn_ops::rnn {

namespace baseline {
template <typename T>
NetworkKernels<T> GetKernels();
}  // namespace baseline

namespace avx2 {
template <typename T>
NetworkKernels<T> GetKernels();
}  // namespace avx2

namespace avx512 {
template <typename T>
NetworkKernels<T> GetKernels();
}  // namespace avx512

// For bfloat16 only. Other types use the avx512 code.
namespace avx512_bf16 {
template <typename T>
NetworkKernels<T> GetKernels();
// Of networks with WeightFormat::kBFloat16. Only for inference.
NetworkKernels<float> GetBFloat16WeightKernels();
}  // namespace avx512_bf16

// For bfloat16 only.
namespace amx {
template <typename T>
NetworkKernels<T> GetKernels();
NetworkKernels<float> GetBFloat16WeightKernels();
}  // namespace amx

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_
