// Errors that say what network they are about.

#ifndef TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_
#define TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_

#include "cc/gpu/status.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// The status, whose message describes the network, too.
Status Named(const Status& status, const rnn::RnnConfig& config,
             const rnn::RnnSize& size);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_NETWORK_STATUS_H_
