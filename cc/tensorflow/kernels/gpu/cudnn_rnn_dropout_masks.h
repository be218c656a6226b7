// The GPU engine of CudnnRNNDropoutMasks.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_DROPOUT_MASKS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_DROPOUT_MASKS_H_

#include <cstdint>

#include "cc/gpu/arrays.h"
#include "cc/gpu/data_type.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/gpu/op_call.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"

namespace tf_rnn_ops {

class GpuDropoutMasksEngine {
 public:
  Status ReadHeader(CallFrame* frame, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(frame, *reserve_space, header);
  }

  template <typename M>
  Status Fill(CallFrame* frame, const CudnnRnnInputs& inputs, float dropout,
              const rnn::RandomStream& stream, M* masks) const {
    const auto [time, batch] = inputs.size();
    const std::int64_t width = inputs.output_width();
    if (time == 0 || batch == 0 || width == 0) return Status();
    OpCall call(ContextOf(frame));
    TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
    const gpu::RowStrides strides = {batch * width, width};
    const std::int64_t layer_samples =
        rnn::NumLayerDropoutSamples(inputs.config(), inputs.size());
    for (std::int64_t i = 0; i < inputs.config().num_layers - 1; ++i) {
      const gpu::MaskRows rows = {
          gpu::MakeDropoutMask(dropout, stream, i * layer_samples),
          /*offset=*/0, strides};
      TF_RNN_OPS_RETURN_IF_ERROR(gpu::ApplyDropout(
          call.call(), gpu::DataTypeOf<M>, {time, batch, width}, rows,
          /*source=*/nullptr, strides, masks + i * time * batch * width));
    }
    return Status();
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_DROPOUT_MASKS_H_
