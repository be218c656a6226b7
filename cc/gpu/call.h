// The context of a call of the GPU engine.

#ifndef TF_RNN_OPS_CC_GPU_CALL_H_
#define TF_RNN_OPS_CC_GPU_CALL_H_

#include <cuda.h>

#include <cstddef>

#include "cc/gpu/cuda_driver.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Allocates scratch memory on the GPU for a call.
class ScratchAllocator {
 public:
  virtual ~ScratchAllocator() = default;

  // Returns memory aligned to 256 bytes, reserved until the work enqueued by
  // the call has run on its stream. Null if num_bytes is 0.
  virtual Status Allocate(std::size_t num_bytes, void** memory) = 0;
};

// Calls are asynchronous: work is enqueued on the stream, whose context must be
// current in the calling thread. Unless noted otherwise, pointers to tensors
// are pointers to memory on the stream's GPU.
struct Call {
  const CudaDriver* driver;
  CUstream stream;
  ScratchAllocator* scratch;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CALL_H_
