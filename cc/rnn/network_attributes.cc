#include "cc/rnn/network_attributes.h"

#include <cstddef>
#include <string>

#include "cc/rnn/join.h"

namespace tf_rnn_ops::rnn {
RnnMode RnnModeOf(const std::string& name) {
  const auto modes = RnnModes();
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (name == modes[i].name) return static_cast<RnnMode>(i);
  }
  return RnnMode::kLstm;  // op definitions allow no other name
}

Activation ActivationOf(const std::string& name) {
  const auto names = ActivationNames();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Activation>(i);
  }
  return Activation::kTanh;  // op definitions allow no other name
}

std::string CellAttributes::Error() const {
  if (activations.are_standard() || TraitsOf(mode).gates > 1) return "";
  const auto name = [](Activation activation) {
    return ActivationNames()[static_cast<std::size_t>(activation)];
  };
  return Join(
      "activation must be tanh and recurrent_activation sigmoid unless "
      "rnn_mode is lstm or gru, but they are ",
      name(activations.state), " and ", name(activations.gate),
      " where rnn_mode is ", TraitsOf(mode).name);
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
  return Join(
      "params must have no more elements than can be counted, but num_layers "
      "is ",
      num_layers, ", num_units ", num_units, ", input_size ", input_size,
      " and num_proj ", num_proj);
}

}  // namespace tf_rnn_ops::rnn
