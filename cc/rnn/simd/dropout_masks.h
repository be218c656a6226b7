// The masks of a forward pass as an array.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_DROPOUT_MASKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_DROPOUT_MASKS_H_

#include "cc/rnn/executor.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// masks: what the input of each layer but the first is multiplied by,
// [num_layers - 1, time, batch, num_directions * output_size], in the caller's
// order of samples. T: float or double.
template <typename T>
void FillDropoutMasks(const RnnConfig& config, const RnnSize& size,
                      float dropout, const RandomStream& stream, T* masks,
                      Executor& executor);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_DROPOUT_MASKS_H_
