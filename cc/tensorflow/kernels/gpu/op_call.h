// Shared by all GPU kernels: calls the engine in cc/gpu.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_OP_CALL_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_OP_CALL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "cc/gpu/arrays.h"
#include "cc/gpu/call.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_rnn_ops {

// Scratch memory from TensorFlow. It stays valid for the work already on the
// stream of the device, even after it is freed.
class OpMemory : public gpu::ScratchAllocator {
 public:
  explicit OpMemory(tensorflow::OpKernelContext* ctx) : ctx_(ctx) {}

  Status Allocate(std::size_t num_bytes, void** memory) override;

 private:
  tensorflow::OpKernelContext* const ctx_;
  std::vector<tensorflow::Tensor> scratch_;
};

// Calls the engine from Compute of a kernel, on the stream of the op.
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

// Copies within GPU memory.
class GpuCopier {
 public:
  Status Init(CallFrame* frame) {
    call_ = std::make_unique<OpCall>(ContextOf(frame));
    return call_->Init();
  }

  Status Copy(const void* source, std::size_t num_bytes, void* target) {
    return gpu::CopyBytes(call_->call(), num_bytes, source, target);
  }

 private:
  std::unique_ptr<OpCall> call_;
};

// Copies the header of a reserve_space to the host and waits for the GPU; zeros
// if the reserve_space is too short for a header.
Status ReadReserveSpaceHeader(CallFrame* frame, const Array& reserve_space,
                              rnn::ReserveSpaceHeader* header);

// Whether the user allows TensorFloat-32, which rounds the factors of float32
// products to 10 mantissa bits.
bool AllowsTf32();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_OP_CALL_H_
