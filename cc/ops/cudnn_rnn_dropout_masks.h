// CudnnRNNDropoutMasks, for any device.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_DROPOUT_MASKS_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_DROPOUT_MASKS_H_

#include <cstdint>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The engine of a device is the class Engines::DropoutMasks. It has the
// lifetime of the op, and like the op several threads may use it at once. Its
// members:
//
//   // As that of the engine of CudnnRNNBackpropGrad.
//   Status ReadHeader(CallFrame*, Array* reserve_space,
//                     rnn::ReserveSpaceHeader*) const;
//   // Fills the masks, [num_layers - 1, time, batch, output width].
//   // M: float or double.
//   template <typename M>
//   Status Fill(CallFrame*, const CudnnRnnInputs&, float dropout,
//               const rnn::RandomStream&, M* masks) const;
template <typename Engines, typename E>
class CudnnRnnDropoutMasksOp {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    CudnnRnnInputs inputs(frame, attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      return inputs.ReadForwardInputs(/*has_sequence_lengths=*/true);
    }));
    Array reserve_space, masks;
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadReserveSpace(&reserve_space));
    rnn::ReserveSpaceHeader header;
    if (frame->has_values()) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          engine_.ReadHeader(frame, &reserve_space, &header));
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs.CheckReserveSpaceOfAnyDevice<E>(header, reserve_space));
    }
    const Shape shape = inputs.masks_shape();
    if (shape.NumElements() < 0) return inputs.TooLarge();
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput("masks", shape, &masks));
    if (!frame->has_values()) return Status();

    const auto stream = rnn::ReserveSpaceStream(header);
    const float dropout = attributes_.dropout();
    return masks.num_bytes == masks.num_elements * std::int64_t{sizeof(double)}
               ? engine_.Fill(frame, inputs, dropout, stream,
                              masks.As<double>())
               : engine_.Fill(frame, inputs, dropout, stream,
                              masks.As<float>());
  }

 private:
  CudnnRnnAttributes attributes_;
  typename Engines::DropoutMasks engine_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_DROPOUT_MASKS_H_
