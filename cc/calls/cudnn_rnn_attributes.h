// What the attributes of the CudnnRNN ops say of a network.

#ifndef TF_RNN_OPS_CC_CALLS_CUDNN_RNN_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_CALLS_CUDNN_RNN_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {

class CudnnRnnAttributes {
 public:
  // Reads those that the op has, and refuses those that no network has.
  Status Read(const Attributes& attributes);

  rnn::RnnMode rnn_mode() const { return network_.mode; }
  std::int64_t num_directions() const { return network_.num_directions; }
  // As the attribute says: 0, or what may be num_units.
  std::int64_t num_proj() const { return network_.num_proj; }
  float dropout() const { return network_.dropout; }
  bool time_major() const { return time_major_; }

  // The network of these sizes. Refuses sizes that do not fit the attributes or
  // one another, and networks whose params cannot be counted.
  Status MakeConfig(std::int64_t num_layers, std::int64_t num_units,
                    std::int64_t input_size, rnn::RnnConfig* config) const;

 private:
  rnn::NetworkAttributes network_;
  bool time_major_ = true;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CUDNN_RNN_ATTRIBUTES_H_
