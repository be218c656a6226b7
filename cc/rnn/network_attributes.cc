#include "cc/rnn/network_attributes.h"

#include <cstddef>
#include <string>
#include <vector>

#include "cc/rnn/join.h"

namespace tf_rnn_ops::rnn {

std::string Describe(const RnnConfig& config) {
  return Join("rnn_mode ", TraitsOf(config.mode).name, ", ",
              config.num_directions == 2 ? "bidirectional" : "unidirectional",
              config.skip_input ? ", skip_input" : "", ", num_layers ",
              config.num_layers, ", input_size ", config.input_size,
              ", num_units ", config.num_units, ", num_proj ", config.num_proj);
}

RnnMode RnnModeOf(const std::string& name, bool is_of_cudnn,
                  std::string* error) {
  std::vector<const char*> names;
  for (std::size_t i = 0; i < RnnModes().size(); ++i) {
    const auto mode = static_cast<RnnMode>(i);
    if (is_of_cudnn && !IsOfCudnn(mode)) continue;
    if (name == TraitsOf(mode).name) return mode;
    names.push_back(TraitsOf(mode).name);
  }
  CheckName("rnn_mode", name, names, error);
  return RnnMode::kLstm;
}

Activation ActivationOf(const char* attribute, const std::string& name,
                        std::string* error) {
  const auto names = ActivationNames();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Activation>(i);
  }
  CheckName(attribute, name, {names.begin(), names.end()}, error);
  return Activation::kTanh;
}

void CheckName(const char* attribute, const std::string& name,
               const std::vector<const char*>& names, std::string* error) {
  std::string list;
  for (const char* each : names) {
    if (name == each) return;
    list += (list.empty() ? "" : ", ") + std::string(each);
  }
  if (!error->empty()) return;
  *error = Join(attribute, " must be one of ", list, ", but is ", name);
}

std::string CellAttributes::Error() const {
  if (!name_error.empty()) return name_error;
  const auto error = [this](const char* rule, Activation activation) {
    return Join(rule, ActivationNames()[static_cast<std::size_t>(activation)],
                " where rnn_mode is ", TraitsOf(mode).name);
  };
  const bool has_gates = TraitsOf(mode).gates > 1;
  if (activations.state != Activation::kTanh && !has_gates &&
      mode != RnnMode::kRnn) {
    return error(
        "activation must be tanh where rnn_mode is rnn_relu or rnn_tanh; use "
        "rnn for a choice of activations, but it is ",
        activations.state);
  }
  if (activations.gate != Activation::kSigmoid && !has_gates) {
    return error(
        "recurrent_activation must be sigmoid unless rnn_mode is lstm, gru or "
        "gru_reset_before, but it is ",
        activations.gate);
  }
  return "";
}

RnnConfig NetworkAttributes::Config(std::int64_t num_layers,
                                    std::int64_t num_units,
                                    std::int64_t input_size) const {
  return {mode,
          input_mode != "linear_input" && input_size == num_units,
          num_directions,
          num_layers,
          input_size,
          num_units,
          num_proj < num_units ? num_proj : 0};
}

std::string NetworkAttributes::Error() const {
  if (!name_error.empty()) return name_error;
  if (!(dropout >= 0 && dropout <= 1)) {
    return Join("dropout must be between 0 and 1, but is ", dropout);
  }
  if (num_proj < 0) {
    return Join("num_proj must not be negative, but is ", num_proj);
  }
  if (num_proj > 0 && mode != RnnMode::kLstm) {
    return Join("num_proj must be 0 unless rnn_mode is lstm, but is ", num_proj,
                " where rnn_mode is ", TraitsOf(mode).name);
  }
  return "";
}

std::string NetworkAttributes::NumUnitsError(std::int64_t num_units) const {
  if (num_proj <= num_units) return "";
  return Join("num_proj must be at most num_units = ", num_units, ", but is ",
              num_proj);
}

std::string NetworkAttributes::InputSizeError(std::int64_t num_units,
                                              std::int64_t input_size) const {
  if (input_mode != "skip_input" || input_size == num_units) return "";
  return Join("input_size must be num_units = ", num_units,
              " where input_mode is skip_input, but is ", input_size);
}

std::string NetworkAttributes::TooManyParams(
    const std::string& num_layers, const std::string& num_units,
    const std::string& input_size) const {
  return Join("params must have a size that fits in int64, but num_layers is ",
              num_layers, ", num_units ", num_units, ", input_size ",
              input_size, " and num_proj ", num_proj);
}

}  // namespace tf_rnn_ops::rnn
