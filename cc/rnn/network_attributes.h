// What the attributes of the CudnnRNN ops say of a network: for the ops' shape
// functions and for their kernels.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

struct NetworkAttributes {
  std::string rnn_mode = "lstm";
  std::string input_mode = "linear_input";
  std::string direction = "unidirectional";
  float dropout = 0;
  std::int64_t num_proj = 0;

  // For names that the op definitions allow.
  RnnMode mode() const;
  std::int64_t num_directions() const {
    return direction == "bidirectional" ? 2 : 1;
  }

  // The network of these sizes, which fit the attributes. A projection to
  // num_units is none, as in cuDNN.
  RnnConfig Config(std::int64_t num_layers, std::int64_t num_units,
                   std::int64_t input_size) const;

  // What is wrong, in words; empty if nothing is: with the attributes alone,
  // and with sizes beside them.
  std::string Error() const;
  std::string NumUnitsError(std::int64_t num_units) const;
  std::string InputSizeError(std::int64_t num_units,
                             std::int64_t input_size) const;
  // Where CudnnRnnParamsSize is negative. Sizes in words: they may be unknown.
  std::string TooManyParams(const std::string& num_layers,
                            const std::string& num_units,
                            const std::string& input_size) const;
};

// Reads all but num_proj, which not every op has. get(name, pointer): returns a
// status.
template <typename Get>
auto ReadNetworkAttributes(const Get& get, NetworkAttributes* attributes) {
  auto status = get("rnn_mode", &attributes->rnn_mode);
  if (status.ok()) status = get("input_mode", &attributes->input_mode);
  if (status.ok()) status = get("direction", &attributes->direction);
  if (status.ok()) status = get("dropout", &attributes->dropout);
  return status;
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
