// Errors that describe the network.

#ifndef TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_
#define TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Adds a description of the network to the message of an error.
Status WithNetwork(const Status& status, const rnn::RnnConfig& config,
                   const rnn::RnnSize& size);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_
