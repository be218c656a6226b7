#include "cc/kernels/cudnn_rnn.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// The networks of a kernel. cuDNN is opened when the first of them runs.
template <typename T>
class KernelNetworks {
 public:
  absl::Status Find(gpu::CudnnRnn<T>** networks) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (networks_ == nullptr) {
      const gpu::Cudnn* cudnn;
      gpu::CudnnHandlePool* handles;
      TF_RETURN_IF_ERROR(
          ToAbslStatus(gpu::CudnnHandlePool::Get(&cudnn, &handles)));
      networks_ = std::make_unique<gpu::CudnnRnn<T>>(*cudnn, *handles);
    }
    *networks = networks_.get();
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<gpu::CudnnRnn<T>> networks_;
};

template <typename T>
class GpuCudnnRnn {
 public:
  using E = EngineType<T>;

  static constexpr bool kNeedsInputBackprop = true;

  explicit GpuCudnnRnn(const CudnnRnnAttributes&) {}

  struct Plan {
    explicit Plan(OpKernelContext* ctx) : call(ctx) {}

    OpCall call;
    gpu::CudnnRnn<E>* networks = nullptr;
    gpu::CudnnRnnPlan pass;
    std::int64_t reserve_space_size = 0;
    bool owns_reserve_space = false;  // of a backward pass
  };

  absl::Status MakePlan(OpKernelContext*, const CudnnRnnInputs& inputs,
                        bool is_training, Plan* plan) {
    TF_RETURN_IF_ERROR(plan->call.Init());
    TF_RETURN_IF_ERROR(networks_.Find(&plan->networks));
    TF_RETURN_IF_ERROR(ToAbslStatus(plan->networks->Plan(
        {plan->call.call(), AllowsTf32()}, inputs.MakeReserveSpaceKey(),
        is_training, &plan->pass)));
    plan->reserve_space_size =
        (plan->pass.reserve_space_bytes() + sizeof(T) - 1) / sizeof(T);
    return absl::OkStatus();
  }

  // The header of reserve_space, so that the pass backward need not wait for
  // the GPU to see it.
  absl::Status MakeHostReserved(OpKernelContext* ctx, const Plan& plan, int,
                                bool is_training,
                                const rnn::RandomStream& stream) const {
    const gpu::ReserveSpaceHeader header = MakeHeader(plan, stream);
    Tensor* host_reserved;
    const std::int64_t size = is_training ? header.size() : 0;
    TF_RETURN_IF_ERROR(
        MakeOutput(ctx, "host_reserved", {size}, &host_reserved));
    std::copy_n(header.data(), size, static_cast<char*>(host_reserved->data()));
    return absl::OkStatus();
  }

  absl::Status Forward(OpKernelContext*, const CudnnRnnInputs&, Plan* plan,
                       rnn::CudnnRnnForward<E>* pass) const {
    if (pass->is_training) {
      TF_RETURN_IF_ERROR(ToAbslStatus(gpu::WriteReserveSpaceHeader(
          plan->call.call(), MakeHeader(*plan, pass->stream),
          pass->reserve_space)));
    }
    return ToAbslStatus(plan->networks->Forward(*pass, &plan->pass));
  }

  absl::Status Backward(OpKernelContext*, const CudnnRnnInputs&, Plan* plan,
                        rnn::CudnnRnnBackward<E>* pass) const {
    return ToAbslStatus(
        plan->networks->Backward(*pass, &plan->pass, plan->owns_reserve_space));
  }

  absl::Status FindReserveSpaceMismatch(OpKernelContext* ctx,
                                        const CudnnRnnInputs& inputs,
                                        Plan* plan, int version,
                                        Tensor* reserve_space,
                                        rnn::ReserveSpaceHeader* header,
                                        std::string* mismatch) const {
    *header = {};
    TF_RETURN_IF_ERROR(
        version >= 2 ? ReadHostReserved(ctx, header)
                     : ReadReserveSpaceHeader(ctx, *reserve_space, header));
    *mismatch = rnn::ReserveSpaceMismatch<E>(plan->pass.key(), header->data(),
                                             reserve_space->NumElements(),
                                             plan->reserve_space_size);
    if (!mismatch->empty()) return absl::OkStatus();
    return TakeReserveSpace(ctx, inputs, reserve_space,
                            &plan->owns_reserve_space);
  }

  absl::Status SetZero(const Plan& plan, Tensor* tensor) const {
    return ToAbslStatus(gpu::ZeroBytes(
        plan.call.call(), tensor->NumElements() * sizeof(T), tensor->data()));
  }

 private:
  static gpu::ReserveSpaceHeader MakeHeader(const Plan& plan,
                                            const rnn::RandomStream& stream) {
    gpu::ReserveSpaceHeader header;
    rnn::WriteReserveSpaceHeader<E>(plan.pass.key(), stream, header.data());
    return header;
  }

  // Finds whether the op alone refers to its reserve_space, whose memory
  // TensorFlow then lets it write to. reserve_space remains the same tensor.
  static absl::Status TakeReserveSpace(OpKernelContext* ctx,
                                       const CudnnRnnInputs& inputs,
                                       Tensor* reserve_space, bool* is_taken) {
    int index, end;
    TF_RETURN_IF_ERROR(
        ctx->op_kernel().InputRange("reserve_space", &index, &end));
    const tensorflow::TensorShape shape = reserve_space->shape();
    *reserve_space = Tensor();  // was another reference
    const std::unique_ptr<Tensor> taken = ctx->forward_input(
        index, OpKernelContext::Params::kNoReservation,
        tensorflow::DataTypeToEnum<T>::value, shape, tensorflow::DEVICE_MEMORY,
        tensorflow::AllocatorAttributes());
    *is_taken = taken != nullptr;
    if (!*is_taken) return inputs.ReadReserveSpace(reserve_space);
    *reserve_space = *taken;
    return absl::OkStatus();
  }

  // What MakeHostReserved made; zeros of anything else, which no header is.
  static absl::Status ReadHostReserved(OpKernelContext* ctx,
                                       gpu::ReserveSpaceHeader* header) {
    const Tensor* host_reserved;
    TF_RETURN_IF_ERROR(ReadInput(ctx, "host_reserved", &host_reserved));
    if (HasShape(*host_reserved, {rnn::kReserveSpaceHeaderBytes})) {
      std::copy_n(static_cast<const char*>(host_reserved->data()),
                  header->size(), header->data());
    }
    return absl::OkStatus();
  }

  KernelNetworks<E> networks_;
};

}  // namespace

void AddGpuCudnnRnnKernels(const DeviceKernels& kernels) {
  CudnnRnnKernelsOn<GpuCudnnRnn>::Add(kernels);
}

}  // namespace tf_rnn_ops
