// The network of cc/rnn/cudnn_rnn.h, compiled for each instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_CUDNN_RNN_H_

#include "cc/rnn/cudnn_rnn.h"

namespace tf_rnn_ops::rnn {

namespace baseline {
template <typename T>
CudnnRnnKernels<T> CudnnRnn();
}  // namespace baseline

namespace avx2 {
template <typename T>
CudnnRnnKernels<T> CudnnRnn();
}  // namespace avx2

namespace avx512 {
template <typename T>
CudnnRnnKernels<T> CudnnRnn();
}  // namespace avx512

// For bfloat16 only. Other types use the avx512 code.
namespace avx512_bf16 {
template <typename T>
CudnnRnnKernels<T> CudnnRnn();
}  // namespace avx512_bf16

// For bfloat16 only.
namespace amx {
template <typename T>
CudnnRnnKernels<T> CudnnRnn();
}  // namespace amx

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_CUDNN_RNN_H_
