// The gradient of a network's backward pass (rnn/network.h) on a GPU, with
// cuBLAS and our own kernels. All arrays except sequence_lengths and
// the header of what is kept are on the GPU, aligned to their elements.
//
// Recomputes the forward pass: uses only the random stream in the header, and
// ignores `output` and what else is kept. Requires weights in cuDNN's layout.
// Ignores `workspace`.
//
// Returns kUnimplemented if a size overflows cuBLAS's types or 64 bits.

#ifndef TF_RNN_OPS_CC_GPU_NETWORK_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_GPU_NETWORK_BACKWARD_GRAD_H_

#include <cstdint>

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/data_type.h"
#include "cc/rnn/network.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// T: Half, BFloat16 (both computed in float32), float or double.
// allow_tf32: whether float32 operands of products may be rounded to 10 bits.
template <typename T>
Status RunNetworkBackwardGrad(const Call& call, Cublas& cublas, bool allow_tf32,
                              const rnn::NetworkBackwardGrad<T>& pass);

// Whether all elements of an array are zero. If so, passing null instead saves
// time. Synchronizes the stream.
Status FindZeros(const Call& call, DataType type, std::int64_t count,
                 const void* array, bool* are_zeros);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_NETWORK_BACKWARD_GRAD_H_
