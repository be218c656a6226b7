#include "cc/kernels/cudnn_rnn.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
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

// A kernel's stream of random numbers, which its calls share.
class DropoutGenerator {
 public:
  absl::Status Init(OpKernelConstruction* ctx) { return generator_.Init(ctx); }

  // The place of the next `num_samples` values of the stream's counter, which
  // no other call is given.
  rnn::RandomStream Reserve(std::int64_t num_samples) {
    const tensorflow::random::PhiloxRandom random =
        generator_.ReserveSamples128(num_samples);
    const auto& key = random.key();
    const auto& counter = random.counter();
    return {Join(key[0], key[1]), Join(counter[0], counter[1]),
            Join(counter[2], counter[3])};
  }

 private:
  static std::uint64_t Join(std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  }

  tensorflow::GuardedPhiloxRandom generator_;
};

template <typename T>
class CpuCudnnRnn {
 public:
  using E = EngineType<T>;

  static constexpr bool kNeedsInputBackprop = false;

  explicit CpuCudnnRnn(const CudnnRnnAttributes&) {}

  absl::Status InitDropout(OpKernelConstruction* ctx) {
    return generator_.Init(ctx);
  }

  absl::Status PlanReserveSpace(OpKernelContext*, const CudnnRnnInputs& inputs,
                                ReserveSpacePlan* plan) const {
    plan->size = rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
    return absl::OkStatus();
  }

  // What TensorFlow's own ops leave where cuDNN runs its default algorithm.
  absl::Status MakeHostReserved(OpKernelContext* ctx, const ReserveSpacePlan&,
                                int version, bool is_training) const {
    Tensor* host_reserved;
    if (version > 2 || !is_training) {
      TF_RETURN_IF_ERROR(MakeOutput(ctx, "host_reserved", {}, &host_reserved));
      *EngineData<std::int8_t>(host_reserved) = 0;
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(MakeOutput(ctx, "host_reserved", {2}, &host_reserved));
    EngineData<std::int8_t>(host_reserved)[0] = -1;
    EngineData<std::int8_t>(host_reserved)[1] = 0;
    return absl::OkStatus();
  }

  absl::Status Forward(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                       const ReserveSpacePlan&, rnn::CudnnRnnForward<E>* pass) {
    if (pass->is_training && pass->dropout > 0) {
      pass->stream = generator_.Reserve(
          rnn::NumDropoutSamples(pass->config, pass->size, pass->dropout));
    }
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.forward_workspace, kernels.forward,
                   pass);
  }

  absl::Status Backward(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                        rnn::CudnnRnnBackward<E>* pass) const {
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.backward_workspace, kernels.backward,
                   pass);
  }

  absl::Status FindReserveSpaceMismatch(OpKernelContext* ctx,
                                        const CudnnRnnInputs& inputs, int,
                                        Tensor* reserve_space,
                                        rnn::ReserveSpaceHeader* header,
                                        std::string* mismatch) const {
    TF_RETURN_IF_ERROR(AlignReserveSpace(ctx, reserve_space));
    *mismatch =
        tf_rnn_ops::FindReserveSpaceMismatch<E>(inputs, *reserve_space, header);
    return absl::OkStatus();
  }

  absl::Status SetZero(OpKernelContext*, Tensor* tensor) const {
    tf_rnn_ops::SetZero(tensor);
    return absl::OkStatus();
  }

 private:
  DropoutGenerator generator_;
};

}  // namespace

void AddCudnnRnnKernels(const DeviceKernels& kernels) {
  CudnnRnnKernelsOn<CpuCudnnRnn>::Add(kernels);
}

}  // namespace tf_rnn_ops
