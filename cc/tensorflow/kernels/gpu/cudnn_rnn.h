// The GPU engine of CudnnRNN, its versions and their gradients.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/network.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/gpu/op_call.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_rnn_ops {

// The networks of a kernel. Opens cuDNN when the first network runs.
template <typename E>
class KernelNetworks {
 public:
  Status Find(gpu::CudnnRnn<E>** networks) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (networks_ == nullptr) {
      const gpu::Cudnn* cudnn;
      gpu::CudnnHandlePool* handles;
      TF_RNN_OPS_RETURN_IF_ERROR(gpu::CudnnHandlePool::Get(&cudnn, &handles));
      networks_ = std::make_unique<gpu::CudnnRnn<E>>(*cudnn, *handles);
    }
    *networks = networks_.get();
    return Status();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<gpu::CudnnRnn<E>> networks_;
};

template <typename E>
struct GpuNetworkPlan : NetworkPlan {
  explicit GpuNetworkPlan(CallFrame* frame) : call(ContextOf(frame)) {}

  OpCall call;
  gpu::CudnnRnn<E>* networks = nullptr;
  gpu::CudnnRnnPlan cudnn_plan;
};

template <typename E>
class GpuNetworkEngine {
 public:
  using Plan = GpuNetworkPlan<E>;

  Status Init(const Attributes&) { return Status(); }

  Status MakePlan(const CudnnRnnInputs& inputs, bool is_training, Plan* plan) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan->call.Init());
    TF_RNN_OPS_RETURN_IF_ERROR(networks_.Find(&plan->networks));
    TF_RNN_OPS_RETURN_IF_ERROR(plan->networks->Plan(
        {plan->call.call(), AllowsTf32()}, inputs.MakeReserveSpaceKey(),
        is_training, &plan->cudnn_plan));
    plan->key = plan->cudnn_plan.key();
    plan->reserve_space_size =
        (plan->cudnn_plan.reserve_space_bytes() + sizeof(E) - 1) / sizeof(E);
    return Status();
  }

  // A copy of the header of reserve_space, so that the backward pass does not
  // wait for the GPU to read it.
  Shape HostReservedShape(int, bool is_training) const {
    return {is_training ? rnn::kReserveSpaceHeaderBytes : 0};
  }
  void FillHostReserved(const Plan& plan, const rnn::RandomStream& stream,
                        const Array& host_reserved) const {
    const gpu::ReserveSpaceHeader header = MakeHeader(plan, stream);
    std::copy_n(header.data(), host_reserved.num_bytes,
                host_reserved.As<char>());
  }

  bool needs_input_backprop() const { return true; }

  Status Forward(CallFrame*, const CudnnRnnInputs&, Plan* plan,
                 rnn::NetworkForward<E>* pass) const {
    if (pass->is_training()) {
      TF_RNN_OPS_RETURN_IF_ERROR(gpu::WriteReserveSpaceHeader(
          plan->call.call(), MakeHeader(*plan, pass->stream), pass->kept.data));
    }
    return plan->networks->Forward(*pass, &plan->cudnn_plan);
  }

  Status Backward(CallFrame* frame, const CudnnRnnInputs&, Plan* plan,
                  rnn::NetworkBackward<E>* pass) const {
    std::unique_ptr<tensorflow::Tensor> taken;
    TF_RNN_OPS_RETURN_IF_ERROR(TakeReserveSpace(ContextOf(frame), &taken));
    return plan->networks->Backward(*pass, &plan->cudnn_plan, taken != nullptr);
  }

  Status ReadHeader(CallFrame* frame, int version, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    *header = {};
    Array host_reserved;
    if (version >= 2) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          frame->FindInput("host_reserved", &host_reserved));
    }
    if (host_reserved.num_elements == 0) {
      return ReadReserveSpaceHeader(frame, *reserve_space, header);
    }
    if (host_reserved.shape.Fits({rnn::kReserveSpaceHeaderBytes})) {
      // As FillHostReserved wrote it. Zeros are no valid header.
      std::copy_n(host_reserved.As<char>(), header->size(), header->data());
    }
    return Status();
  }

  Status SetZero(const Plan& plan, const Array& array) const {
    return gpu::ZeroBytes(plan.call.call(), array.num_bytes, array.data);
  }

 private:
  static gpu::ReserveSpaceHeader MakeHeader(const Plan& plan,
                                            const rnn::RandomStream& stream) {
    gpu::ReserveSpaceHeader header;
    rnn::WriteReserveSpaceHeader<E>(plan.cudnn_plan.key(), stream,
                                    header.data());
    return header;
  }

  // Takes the reserve_space so that the op may overwrite it. TensorFlow allows
  // this only if nothing else refers to the memory.
  // taken: the same memory; null if something else refers to it.
  static Status TakeReserveSpace(tensorflow::OpKernelContext* ctx,
                                 std::unique_ptr<tensorflow::Tensor>* taken) {
    int index, end;
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(
        ctx->op_kernel().InputRange("reserve_space", &index, &end)));
    const auto tensor = ctx->get_input(index);
    TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(tensor.status()));
    *taken = ctx->forward_input(
        index, tensorflow::OpKernelContext::Params::kNoReservation,
        (*tensor)->dtype(), (*tensor)->shape(), tensorflow::DEVICE_MEMORY,
        tensorflow::AllocatorAttributes());
    return Status();
  }

  KernelNetworks<E> networks_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_H_
