#include "cc/kernels/cudnn_rnn.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/util/guarded_philox_random.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// The networks of a kernel. cuDNN is opened when the first of them runs.
template <typename T>
class KernelNetworks {
 public:
  absl::Status Find(float dropout, std::uint64_t seed,
                    gpu::CudnnRnn<T>** networks) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (networks_ == nullptr) {
      const gpu::Cudnn* cudnn;
      gpu::CudnnHandlePool* handles;
      TF_RETURN_IF_ERROR(
          ToAbslStatus(gpu::CudnnHandlePool::Get(&cudnn, &handles)));
      networks_ =
          std::make_unique<gpu::CudnnRnn<T>>(*cudnn, *handles, dropout, seed);
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

  explicit GpuCudnnRnn(const CudnnRnnAttributes& attributes)
      : attributes_(attributes) {}

  // TensorFlow's rules for seeds: none means a fresh one, unless the program is
  // to be deterministic.
  absl::Status InitDropout(OpKernelConstruction* ctx) {
    tensorflow::GuardedPhiloxRandom generator;
    TF_RETURN_IF_ERROR(generator.Init(ctx));
    // Numbers that depend on seed as well as on seed2.
    tensorflow::random::PhiloxRandom random = generator.ReserveSamples128(1);
    const auto numbers = random();
    seed_ = std::uint64_t{numbers[1]} << 32 | numbers[0];
    return absl::OkStatus();
  }

  absl::Status PlanReserveSpace(OpKernelContext* ctx,
                                const CudnnRnnInputs& inputs,
                                ReserveSpacePlan* plan) {
    rnn::ReserveSpaceKey key = inputs.MakeReserveSpaceKey();
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    TF_RETURN_IF_ERROR(FindReserveSpaceSize(&call, gpu::Purpose::kTraining,
                                            &key, &plan->size));
    rnn::WriteReserveSpaceHeader<E>(key, /*stream=*/{}, plan->header.data());
    return absl::OkStatus();
  }

  // The header of reserve_space, so that the pass backward need not wait for
  // the GPU to see it.
  absl::Status MakeHostReserved(OpKernelContext* ctx,
                                const ReserveSpacePlan& plan, int,
                                bool is_training) const {
    Tensor* host_reserved;
    const std::int64_t size = is_training ? plan.header.size() : 0;
    TF_RETURN_IF_ERROR(
        MakeOutput(ctx, "host_reserved", {size}, &host_reserved));
    std::copy_n(plan.header.data(), size,
                static_cast<char*>(host_reserved->data()));
    return absl::OkStatus();
  }

  absl::Status Forward(OpKernelContext* ctx, const CudnnRnnInputs&,
                       const ReserveSpacePlan& plan,
                       rnn::CudnnRnnForward<E>* pass) {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    gpu::CudnnRnn<E>* networks;
    TF_RETURN_IF_ERROR(FindNetworks(&networks));
    if (pass->is_training) {
      TF_RETURN_IF_ERROR(ToAbslStatus(gpu::WriteReserveSpaceHeader(
          call.call(), plan.header, pass->reserve_space)));
    }
    return ToAbslStatus(networks->Forward(CallWith(&call), *pass));
  }

  absl::Status Backward(OpKernelContext* ctx, const CudnnRnnInputs&,
                        rnn::CudnnRnnBackward<E>* pass) {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    gpu::CudnnRnn<E>* networks;
    TF_RETURN_IF_ERROR(FindNetworks(&networks));
    return ToAbslStatus(networks->Backward(CallWith(&call), *pass));
  }

  absl::Status FindReserveSpaceMismatch(OpKernelContext* ctx,
                                        const CudnnRnnInputs& inputs,
                                        int version, Tensor* reserve_space,
                                        rnn::ReserveSpaceHeader* header,
                                        std::string* mismatch) {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    rnn::ReserveSpaceKey key = inputs.MakeReserveSpaceKey();
    std::int64_t size;
    TF_RETURN_IF_ERROR(
        FindReserveSpaceSize(&call, gpu::Purpose::kGradients, &key, &size));
    *header = {};
    TF_RETURN_IF_ERROR(
        version >= 2 ? ReadHostReserved(ctx, header)
                     : ReadReserveSpaceHeader(ctx, *reserve_space, header));
    *mismatch = rnn::ReserveSpaceMismatch<E>(
        key, header->data(), reserve_space->NumElements(), size);
    return absl::OkStatus();
  }

  absl::Status SetZero(OpKernelContext* ctx, Tensor* tensor) const {
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    return ToAbslStatus(gpu::ZeroBytes(
        call.call(), tensor->NumElements() * sizeof(T), tensor->data()));
  }

 private:
  absl::Status FindNetworks(gpu::CudnnRnn<E>** networks) {
    return networks_.Find(attributes_.dropout(), seed_, networks);
  }

  static gpu::CudnnRnnCall CallWith(OpCall* call) {
    return {call->call(), call->lasting(), AllowsTf32()};
  }

  // The number of a reserve space's elements. Completes the key.
  absl::Status FindReserveSpaceSize(OpCall* call, gpu::Purpose purpose,
                                    rnn::ReserveSpaceKey* key,
                                    std::int64_t* size) {
    gpu::CudnnRnn<E>* networks;
    TF_RETURN_IF_ERROR(FindNetworks(&networks));
    std::size_t num_bytes;
    TF_RETURN_IF_ERROR(ToAbslStatus(networks->DescribeReserveSpace(
        CallWith(call), purpose, key, &num_bytes)));
    *size = (num_bytes + sizeof(T) - 1) / sizeof(T);
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

  const CudnnRnnAttributes& attributes_;
  std::uint64_t seed_ = 0;
  KernelNetworks<E> networks_;
};

}  // namespace

void AddGpuCudnnRnnKernels(const DeviceKernels& kernels) {
  CudnnRnnKernelsOn<GpuCudnnRnn>::Add(kernels);
}

}  // namespace tf_rnn_ops
