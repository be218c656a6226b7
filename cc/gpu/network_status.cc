#include "cc/gpu/network_status.h"

#include "cc/rnn/join.h"
#include "cc/rnn/network_attributes.h"

namespace tf_rnn_ops::gpu {

Status WithNetwork(const Status& status, const rnn::RnnConfig& config,
                   const rnn::RnnSize& size) {
  if (status.ok()) return status;
  return Status(status.code(),
                rnn::Join(status.message(), ": ", rnn::Describe(config),
                          ", time ", size.time, ", batch ", size.batch));
}

}  // namespace tf_rnn_ops::gpu
