// What every kernel for GPUs needs to call the engine in cc/gpu.

#ifndef TF_RNN_OPS_CC_KERNELS_GPU_ENGINE_H_
#define TF_RNN_OPS_CC_KERNELS_GPU_ENGINE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "cc/calls/array.h"
#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"
#include "cc/gpu/arrays.h"
#include "cc/gpu/call.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/status.h"
#include "cc/kernels/tensorflow_frame.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_rnn_ops {

// A call's status for one of the engine's.
Status ToStatus(const gpu::Status& status);

// Memory of TensorFlow's. TensorFlow does not give it to anyone whose work
// would come before what is on the device's stream.
class OpMemory : public gpu::ScratchAllocator {
 public:
  explicit OpMemory(tensorflow::OpKernelContext* ctx) : ctx_(ctx) {}

  gpu::Status Allocate(std::size_t num_bytes, void** memory) override;

 private:
  tensorflow::OpKernelContext* const ctx_;
  std::vector<tensorflow::Tensor> scratch_;
};

// What a kernel's Compute calls the engine with, on the stream that the op runs
// on.
class OpCall {
 public:
  explicit OpCall(tensorflow::OpKernelContext* ctx) : ctx_(ctx), memory_(ctx) {}

  Status Init();

  const gpu::Call& call() const { return call_; }

 private:
  tensorflow::OpKernelContext* const ctx_;
  OpMemory memory_;
  gpu::Call call_{};
  std::unique_ptr<gpu::ScopedContext> context_;
};

// Copies within a GPU's memory.
class GpuCopier {
 public:
  Status Init(CallFrame* frame) {
    call_ = std::make_unique<OpCall>(ContextOf(frame));
    return call_->Init();
  }

  Status Copy(const void* source, std::size_t num_bytes, void* target) {
    return ToStatus(gpu::CopyBytes(call_->call(), num_bytes, source, target));
  }

 private:
  std::unique_ptr<OpCall> call_;
};

// Copies the header of a reserve_space, for which it waits for the GPU; zeros
// where that is too short for one.
Status ReadReserveSpaceHeader(CallFrame* frame, const Array& reserve_space,
                              rnn::ReserveSpaceHeader* header);

// Whether the user lets products of float32 be rounded to 10 bits.
bool AllowsTf32();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_GPU_ENGINE_H_
