// The adapter to TensorFlow: attributes, tensors and threads of an OpKernel.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_TENSORFLOW_FRAME_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_TENSORFLOW_FRAME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/deep_stack.h"
#include "cc/ops/op.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_rnn_ops {

class TensorFlowAttributes final : public Attributes {
 public:
  explicit TensorFlowAttributes(tensorflow::OpKernelConstruction* ctx)
      : ctx_(ctx) {}

  bool Has(const char* name) const override { return ctx_->HasAttr(name); }
  Status Get(const char* name, bool* value) const override;
  Status Get(const char* name, std::int64_t* value) const override;
  Status Get(const char* name, float* value) const override;
  Status Get(const char* name, std::string* value) const override;
  Status Get(const char* name, std::vector<std::string>* values) const override;
  Status MakeSeeds(std::uint64_t* seed, std::uint64_t* seed2) const override;

 private:
  tensorflow::OpKernelConstruction* const ctx_;
};

// A call of Compute of a kernel. Unlike many accessors of TensorFlow, it never
// aborts on a user's tensors or on sizes derived from them.
class TensorFlowFrame final : public CallFrame {
 public:
  explicit TensorFlowFrame(tensorflow::OpKernelContext* ctx) : ctx_(ctx) {}

  Status FindInput(const char* name, Array* array) override;
  const void* FindOwnMemory(const char* input) override;
  std::shared_ptr<const void> Hold(const char* input) override;
  Status FindInputs(const char* name, std::vector<Array>* arrays) override;
  Status MakeOutput(const char* name, const Shape& shape,
                    Array* array) override;
  int NumOutputs(const char* name) const override;
  Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                     std::vector<Array>* arrays) override;
  bool IsWanted(const char* output) const override;
  Status MakeScratch(std::int64_t num_bytes, void** memory) override;
  // The threads of TensorFlow's intra-op pool. Their number is limited by the
  // pool and by the limit of the calling thread, which tf.data may have
  // lowered. is_cancelled: whether TensorFlow cancelled the current step.
  Threads FindThreads() override;

  tensorflow::OpKernelContext* context() const { return ctx_; }

 private:
  tensorflow::OpKernelContext* const ctx_;
  std::vector<tensorflow::Tensor> scratch_;
};

// The context of a call. The frame must be a TensorFlowFrame.
inline tensorflow::OpKernelContext* ContextOf(CallFrame* frame) {
  return static_cast<TensorFlowFrame*>(frame)->context();
}

// A kernel that calls an op.
class CallKernel final : public tensorflow::OpKernel {
 public:
  CallKernel(tensorflow::OpKernelConstruction* ctx, std::unique_ptr<Op> op)
      : tensorflow::OpKernel(ctx), op_(std::move(op)) {
    OP_REQUIRES_OK(ctx, CatchInKernel(type_string(), [&] {
                     return op_->Init(TensorFlowAttributes(ctx));
                   }));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    TensorFlowFrame frame(ctx);
    OP_REQUIRES_OK(ctx, CatchInKernel(type_string(), [&] {
                     return OnDeepStack(type_string(),
                                        [&] { return op_->Run(&frame); });
                   }));
  }

 private:
  const std::unique_ptr<Op> op_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_TENSORFLOW_FRAME_H_
