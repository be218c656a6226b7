// The attributes of the CudnnRNN ops.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "cc/ops/call_frame.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The status of an error message; OK if it is empty.
inline Status ToStatus(const std::string& error) {
  return error.empty() ? Status() : InvalidArgument(error);
}

class CudnnRnnAttributes {
 public:
  // Reads those that the op has. Rejects invalid ones.
  Status Read(const Attributes& attributes);

  rnn::RnnMode rnn_mode() const { return network_.mode; }
  std::int64_t num_directions() const { return network_.num_directions; }
  // The value of the attribute: 0 to num_units. 0 and num_units mean no
  // projection.
  std::int64_t num_proj() const { return network_.num_proj; }
  float dropout() const { return network_.dropout; }
  bool time_major() const { return time_major_; }

  const rnn::NetworkAttributes& network() const { return network_; }

 private:
  rnn::NetworkAttributes network_;
  bool time_major_ = true;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_
