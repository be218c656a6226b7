// Which of cuDNN's algorithms runs a network: those that PyTorch takes, where
// the GPU gains by them, and otherwise the standard one, which has everything.
//
// A persistent algorithm keeps the recurrent weights on chip over all steps.
// Forward and backward pass of a step must take the same one, and what it
// leaves in the reserve space differs.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_

#include <cudnn.h>

#include <string>

#include "cc/gpu/call.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/status.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::gpu {

// What of a GPU decides.
struct GpuTraits {
  int major;  // of the compute capability
  int minor;
  int num_multiprocessors;
};

// Those of the GPU of the calling thread's context.
Status ReadGpuTraits(const CudaDriver& driver, GpuTraits* traits);

// The algorithm for sequences of one length, and for tensors that cuDNN
// computes with in a type. A pass for training and its backward pass get the
// same.
cudnnRNNAlgo_t ChooseAlgorithm(const rnn::ReserveSpaceKey& key,
                               bool is_training, DataType type,
                               const GpuTraits& gpu);

// What a value of the environment variable TF_RNN_OPS_CUDNN_ALGORITHM says:
// `standard`, that no other algorithm may be taken, or `auto`.
Status ParseAlgorithm(const std::string& value, bool* is_standard_only);

// What the variable says when this is first called: `auto` if it is not set.
Status ReadAlgorithmVariable(bool* is_standard_only);

// A name for messages and reports.
const char* AlgorithmName(cudnnRNNAlgo_t algorithm);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_ALGORITHM_H_
