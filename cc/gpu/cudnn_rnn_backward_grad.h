// The gradient of a network's backward pass (rnn/cudnn_rnn.h) on a GPU, by
// cuBLAS and kernels of our own. The pass's arrays are on the GPU, aligned to
// their elements, but for sequence_lengths and reserve_space_header.
//
// The forward pass is computed anew: of what it left, only the header's random
// stream is looked at, and `output` and `reserve_space` are not. A pass has
// params, not Keras's weights, and its workspace is not used.
//
// Sizes that cuBLAS or 64 bits cannot count are kUnimplemented.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_BACKWARD_GRAD_H_

#include <cstdint>

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/status.h"
#include "cc/rnn/cudnn_rnn.h"

namespace tf_rnn_ops::gpu {

// T: Half, BFloat16, float or double. The 16-bit types are computed in float32.
// allow_tf32: the products' float32 operands may be rounded to 10 bits of
// fraction.
template <typename T>
Status RunCudnnRnnBackwardGrad(const Call& call, Cublas& cublas,
                               bool allow_tf32,
                               const rnn::CudnnRnnBackwardGrad<T>& pass);

// Whether all elements of an array are zeros, which then cost nothing where the
// pass is given null. Waits for the stream.
Status FindZeros(const Call& call, DataType type, std::int64_t count,
                 const void* array, bool* are_zeros);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_BACKWARD_GRAD_H_
