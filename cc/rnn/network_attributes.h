// The attributes of the ops that describe a network or a cell.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The configuration as text, for error messages.
std::string Describe(const RnnConfig& config);

struct NetworkAttributes {
  RnnMode mode = RnnMode::kLstm;
  std::string input_mode = "linear_input";
  std::int64_t num_directions = 1;
  float dropout = 0;
  std::int64_t num_proj = 0;
  // The first error that RnnModeOf, ActivationOf or CheckName found.
  std::string name_error;

  // The network with these sizes, which must fit the attributes. As in cuDNN,
  // num_proj == num_units means no projection.
  RnnConfig Config(std::int64_t num_layers, std::int64_t num_units,
                   std::int64_t input_size) const;

  // Error messages, empty if there is no error: about the attributes alone, and
  // about the attributes combined with sizes.
  std::string Error() const;
  std::string NumUnitsError(std::int64_t num_units) const;
  std::string InputSizeError(std::int64_t num_units,
                             std::int64_t input_size) const;
  // The error if CudnnRnnParamsSize is negative. Takes sizes as text because
  // they may be unknown.
  std::string TooManyParams(const std::string& num_layers,
                            const std::string& num_units,
                            const std::string& input_size) const;
};

// Convert a name from RnnModes() or ActivationNames(). For other names, which
// TensorFlow's op definitions reject, they set *error unless it is already set.
// is_of_cudnn: whether only cuDNN's modes are accepted.
RnnMode RnnModeOf(const std::string& name, bool is_of_cudnn,
                  std::string* error);
Activation ActivationOf(const char* attribute, const std::string& name,
                        std::string* error);
// Sets *error, unless it is already set, if `name` is not one of `names`.
void CheckName(const char* attribute, const std::string& name,
               const std::vector<const char*>& names, std::string* error);

// The attributes that describe the cell of a Keras layer.
struct CellAttributes {
  RnnMode mode = RnnMode::kLstm;
  Activations activations{};
  std::string name_error;

  // An error message, empty if there is no error.
  std::string Error() const;
};

// get(name, pointer) returns a status.
template <typename Get>
auto ReadCellAttributes(const Get& get, CellAttributes* attributes) {
  std::string rnn_mode, state, gate;
  auto status = get("rnn_mode", &rnn_mode);
  if (status.ok()) status = get("activation", &state);
  if (status.ok()) status = get("recurrent_activation", &gate);
  if (!status.ok()) return status;
  std::string* const error = &attributes->name_error;
  attributes->mode = RnnModeOf(rnn_mode, /*is_of_cudnn=*/false, error);
  attributes->activations = {ActivationOf("activation", state, error),
                             ActivationOf("recurrent_activation", gate, error)};
  return status;
}

// Reads all attributes except num_proj, which some ops do not have.
// get(name, pointer) returns a status.
template <typename Get>
auto ReadNetworkAttributes(const Get& get, NetworkAttributes* attributes) {
  std::string rnn_mode, direction;
  auto status = get("rnn_mode", &rnn_mode);
  if (status.ok()) status = get("input_mode", &attributes->input_mode);
  if (status.ok()) status = get("direction", &direction);
  if (status.ok()) status = get("dropout", &attributes->dropout);
  if (!status.ok()) return status;
  std::string* const error = &attributes->name_error;
  attributes->mode = RnnModeOf(rnn_mode, /*is_of_cudnn=*/true, error);
  CheckName("input_mode", attributes->input_mode,
            {"linear_input", "skip_input", "auto_select"}, error);
  CheckName("direction", direction, {"unidirectional", "bidirectional"}, error);
  attributes->num_directions = direction == "bidirectional" ? 2 : 1;
  return status;
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_ATTRIBUTES_H_
