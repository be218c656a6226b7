// The inputs of the ops on the params buffer of CudnnRNN.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_INPUTS_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_INPUTS_H_

#include <cstdint>

#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/status.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {

// Reads num_layers, num_units and input_size.
Status ReadConfig(CallFrame* frame, const CudnnRnnAttributes& attributes,
                  rnn::RnnConfig* config);

// Rejects a number of weights or biases that does not fit the network.
Status CheckCounts(const rnn::RnnConfig& config, std::int64_t num_weights,
                   std::int64_t num_biases);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_INPUTS_H_
