// What a call of the GPU's engine runs with.

#ifndef TF_RNN_OPS_CC_GPU_CALL_H_
#define TF_RNN_OPS_CC_GPU_CALL_H_

#include <cuda.h>

#include <cstddef>

#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/status.h"

namespace tf_rnn_ops::gpu {

// Where a call gets scratch memory on the GPU.
class ScratchAllocator {
 public:
  virtual ~ScratchAllocator() = default;

  // Memory for what the call enqueues, aligned to 256 bytes. It is not used by
  // anything else before that has run on the call's stream. Null if num_bytes
  // is 0.
  virtual Status Allocate(std::size_t num_bytes, void** memory) = 0;
};

// Work is enqueued on the stream, whose context is the calling thread's, and
// has not run yet when a call returns. All pointers to tensors that the engine
// is given are to memory on that stream's GPU unless said otherwise.
struct Call {
  const CudaDriver* driver;
  CUstream stream;
  ScratchAllocator* scratch;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CALL_H_
