#include "cc/kernels/cudnn_rnn_dropout_masks.h"

#include <cstdint>

#include "absl/status/status.h"
#include "cc/gpu/arrays.h"
#include "cc/gpu/data_type.h"
#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class GpuDropoutMasks {
 public:
  absl::Status ReadHeader(OpKernelContext* ctx, Tensor* reserve_space,
                          rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(ctx, *reserve_space, header);
  }

  template <typename M>
  absl::Status Fill(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                    float dropout, const rnn::RandomStream& stream,
                    Tensor* masks) const {
    if (masks->NumElements() == 0) return absl::OkStatus();  // of any layers
    OpCall call(ctx);
    TF_RETURN_IF_ERROR(call.Init());
    const auto [time, batch] = inputs.size();
    const std::int64_t width = inputs.output_width();
    const gpu::RowStrides strides = {batch * width, width};
    const std::int64_t layer_samples =
        rnn::NumLayerDropoutSamples(inputs.config(), inputs.size());
    for (std::int64_t i = 0; i < inputs.config().num_layers - 1; ++i) {
      const gpu::MaskRows rows = {
          gpu::MakeDropoutMask(dropout, stream, i * layer_samples),
          /*offset=*/0, strides};
      TF_RETURN_IF_ERROR(ToAbslStatus(gpu::ApplyDropout(
          call.call(), gpu::DataTypeOf<M>, {time, batch, width}, rows,
          /*source=*/nullptr, strides,
          EngineData<M>(masks) + i * time * batch * width)));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void AddGpuCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels) {
  CudnnRnnDropoutMasksKernelsOn<GpuDropoutMasks>::Add(kernels);
}

}  // namespace tf_rnn_ops
