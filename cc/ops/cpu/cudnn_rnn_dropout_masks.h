// The CPU engine of CudnnRNNDropoutMasks.

#ifndef TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_DROPOUT_MASKS_H_
#define TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_DROPOUT_MASKS_H_

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

class CpuDropoutMasksEngine {
 public:
  Status ReadHeader(CallFrame* frame, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(frame, reserve_space, header);
  }

  template <typename M>
  Status Fill(CallFrame* frame, const CudnnRnnInputs& inputs, float dropout,
              const rnn::RandomStream& stream, M* masks) const {
    rnn::PoolExecutor executor = MakeExecutor(frame->FindThreads());
    KernelsFor<M>(inputs).dropout_masks(inputs.config(), inputs.size(), dropout,
                                        stream, masks, executor);
    return CheckNotCancelled(executor);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_DROPOUT_MASKS_H_
