// Networks with WeightFormat::kInt8, compiled for each instruction set. Only
// for inference.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_INT8_KERNELS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_INT8_KERNELS_H_

#include "cc/rnn/network.h"

namespace tf_rnn_ops::rnn {

namespace baseline {
NetworkKernels<float> GetInt8WeightKernels();
}  // namespace baseline

namespace avx2 {
NetworkKernels<float> GetInt8WeightKernels();
}  // namespace avx2

namespace avx512 {
NetworkKernels<float> GetInt8WeightKernels();
}  // namespace avx512

namespace avx512_vnni {
NetworkKernels<float> GetInt8WeightKernels();
}  // namespace avx512_vnni

namespace amx {
NetworkKernels<float> GetInt8WeightKernels();
}  // namespace amx

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_INT8_KERNELS_H_
