// Chooses cuDNN's algorithm for a network: a persistent one if it is faster on
// the GPU, as in PyTorch, else the standard one, which supports everything.
//
// Persistent algorithms keep the recurrent weights on chip across steps.
// Forward and backward pass must use the same algorithm, because the contents
// of the reserve space depend on it.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_

#include <cudnn.h>

#include <string>

#include "cc/gpu/call.h"
#include "cc/gpu/data_type.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Properties of a GPU that determine the algorithm.
struct GpuTraits {
  int major;  // compute capability
  int minor;
  int num_multiprocessors;
};

// Reads them for the GPU of the calling thread's context.
Status ReadGpuTraits(const CudaDriver& driver, GpuTraits* traits);

// Returns the algorithm for sequences of equal lengths. The same for a training
// pass and its backward pass.
// type: cuDNN's compute type. allow_tf32: whether float32 operands may be
// rounded to 10 bits of fraction.
cudnnRNNAlgo_t ChooseAlgorithm(const rnn::ReserveSpaceKey& key,
                               bool is_training, DataType type, bool allow_tf32,
                               const GpuTraits& gpu);

// Parses a value of the environment variable TF_RNN_OPS_CUDNN_ALGORITHM:
// `auto`, or `standard` to always use the standard algorithm.
Status ParseAlgorithm(const std::string& value, bool* is_standard_only);

// Reads the variable on the first call. `auto` if it is not set.
Status ReadAlgorithmVariable(bool* is_standard_only);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_
