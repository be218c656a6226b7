// What the attributes of the CudnnRNN ops say of a network: for the ops' shape
// functions and for their kernels.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

struct NetworkAttributes {
  RnnMode mode = RnnMode::kLstm;
  std::string input_mode = "linear_input";
  std::int64_t num_directions = 1;
  float dropout = 0;
  std::int64_t num_proj = 0;

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

// The mode of a name in RnnModes().
RnnMode RnnModeOf(const std::string& name);
// The activation of a name in ActivationNames().
Activation ActivationOf(const std::string& name);

// What the cell of a Keras layer is.
struct CellAttributes {
  RnnMode mode = RnnMode::kLstm;
  Activations activations{};

  // What is wrong, in words; empty if nothing is.
  std::string Error() const;
};

// get(name, pointer): returns a status.
template <typename Get>
auto ReadCellAttributes(const Get& get, CellAttributes* attributes) {
  std::string rnn_mode, state, gate;
  auto status = get("rnn_mode", &rnn_mode);
  if (status.ok()) status = get("activation", &state);
  if (status.ok()) status = get("recurrent_activation", &gate);
  attributes->mode = RnnModeOf(rnn_mode);
  attributes->activations = {ActivationOf(state), ActivationOf(gate)};
  return status;
}

// Reads all but num_proj, which not every op has. get(name, pointer): returns a
// status.
template <typename Get>
auto ReadNetworkAttributes(const Get& get, NetworkAttributes* attributes) {
  std::string rnn_mode, direction;
  auto status = get("rnn_mode", &rnn_mode);
  if (status.ok()) status = get("input_mode", &attributes->input_mode);
  if (status.ok()) status = get("direction", &direction);
  if (status.ok()) status = get("dropout", &attributes->dropout);
  attributes->mode = RnnModeOf(rnn_mode);
  attributes->num_directions = direction == "bidirectional" ? 2 : 1;
  return status;
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
