// The attributes of the CudnnRNN ops.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "cc/ops/call_frame.h"
#include "cc/ops/status.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {

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

  // Makes the config of a network of these sizes. Rejects sizes that do not fit
  // the attributes or one another, and networks whose number of params
  // overflows.
  Status MakeConfig(std::int64_t num_layers, std::int64_t num_units,
                    std::int64_t input_size, rnn::RnnConfig* config) const;

 private:
  rnn::NetworkAttributes network_;
  bool time_major_ = true;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_ATTRIBUTES_H_
