#include "cc/kernels/cudnn_rnn.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

template <typename T>
class CpuCudnnRnn {
 public:
  using E = EngineType<T>;

  static constexpr bool kNeedsInputBackprop = false;

  explicit CpuCudnnRnn(const CudnnRnnAttributes&) {}

  struct Plan {
    explicit Plan(OpKernelContext*) {}

    std::int64_t reserve_space_size = 0;
  };

  absl::Status MakePlan(OpKernelContext*, const CudnnRnnInputs& inputs,
                        bool is_training, Plan* plan) const {
    if (is_training) {
      plan->reserve_space_size =
          rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
    }
    return absl::OkStatus();
  }

  // What TensorFlow's own ops leave where cuDNN runs its default algorithm.
  absl::Status MakeHostReserved(OpKernelContext* ctx, const Plan&, int version,
                                bool is_training,
                                const rnn::RandomStream&) const {
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
                       Plan*, rnn::CudnnRnnForward<E>* pass) const {
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.forward_workspace, kernels.forward,
                   pass);
  }

  absl::Status Backward(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                        Plan*, rnn::CudnnRnnBackward<E>* pass) const {
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.backward_workspace, kernels.backward,
                   pass);
  }

  absl::Status FindReserveSpaceMismatch(OpKernelContext* ctx,
                                        const CudnnRnnInputs& inputs, Plan*,
                                        int, Tensor* reserve_space,
                                        rnn::ReserveSpaceHeader* header,
                                        std::string* mismatch) const {
    TF_RETURN_IF_ERROR(AlignReserveSpace(ctx, reserve_space));
    *mismatch =
        tf_rnn_ops::FindReserveSpaceMismatch<E>(inputs, *reserve_space, header);
    return absl::OkStatus();
  }

  absl::Status SetZero(const Plan&, Tensor* tensor) const {
    tf_rnn_ops::SetZero(tensor);
    return absl::OkStatus();
  }
};

}  // namespace

void AddCudnnRnnKernels(const DeviceKernels& kernels) {
  CudnnRnnKernelsOn<CpuCudnnRnn>::Add(kernels);
}

}  // namespace tf_rnn_ops
