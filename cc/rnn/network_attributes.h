// What the attributes of the CudnnRNN ops say of a network: for the ops' shape
// functions and for their kernels.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

struct NetworkAttributes {
  RnnMode mode = RnnMode::kLstm;
  std::string input_mode = "linear_input";
  std::int64_t num_directions = 1;
  float dropout = 0;
  std::int64_t num_proj = 0;
  // Of the attributes that were read by their names.
  std::string name_error;

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

// The mode of a name in RnnModes(), and the activation of one in
// ActivationNames(). Of other names, which TensorFlow's op definitions refuse,
// they make an error unless there is one already.
RnnMode RnnModeOf(const std::string& name, std::string* error);
Activation ActivationOf(const char* attribute, const std::string& name,
                        std::string* error);
// Does so of a name that is none of `names`.
void CheckName(const char* attribute, const std::string& name,
               const std::vector<const char*>& names, std::string* error);

// What the cell of a Keras layer is.
struct CellAttributes {
  RnnMode mode = RnnMode::kLstm;
  Activations activations{};
  std::string name_error;

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
  if (!status.ok()) return status;
  std::string* const error = &attributes->name_error;
  attributes->mode = RnnModeOf(rnn_mode, error);
  attributes->activations = {ActivationOf("activation", state, error),
                             ActivationOf("recurrent_activation", gate, error)};
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
  if (!status.ok()) return status;
  std::string* const error = &attributes->name_error;
  attributes->mode = RnnModeOf(rnn_mode, error);
  CheckName("input_mode", attributes->input_mode,
            {"linear_input", "skip_input", "auto_select"}, error);
  CheckName("direction", direction, {"unidirectional", "bidirectional"}, error);
  attributes->num_directions = direction == "bidirectional" ? 2 : 1;
  return status;
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
