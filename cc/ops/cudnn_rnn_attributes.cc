#include "cc/ops/cudnn_rnn_attributes.h"

namespace tf_rnn_ops {
Status CudnnRnnAttributes::Read(const Attributes& attributes) {
  TF_RNN_OPS_RETURN_IF_ERROR(rnn::ReadNetworkAttributes(
      [&attributes](const char* name, auto* value) {
        return attributes.Get(name, value);
      },
      &network_));
  // Older versions of the ops do not have these.
  if (attributes.Has("num_proj")) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("num_proj", &network_.num_proj));
  }
  if (attributes.Has("time_major")) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("time_major", &time_major_));
  }
  return ToStatus(network_.Error());
}

}  // namespace tf_rnn_ops
