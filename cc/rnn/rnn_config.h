// What a stacked recurrent network is made of.

#ifndef TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_
#define TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tf_rnn_ops::rnn {

enum class RnnMode { kRelu, kTanh, kLstm, kGru };

// What is to be known of a mode's cell. simd/cells has the mathematics.
struct RnnModeTraits {
  const char* name;  // in the ops' attribute rnn_mode
  // The gates, each with weights and biases of its own: in cuDNN's order, LSTM
  // input, forget, new cell, output; GRU reset, update, new.
  std::int64_t gates;
  std::int64_t blocks;  // sums that are activated: see simd/cells/cells.h
  std::int64_t kept;    // values for the backward pass, of a unit and step
  bool has_cell_state;
};
// By RnnMode. A function: an object would have a definition in each instruction
// set's code.
constexpr std::array<RnnModeTraits, 4> RnnModes() {
  return {{
      {"rnn_relu", 1, 1, 0, false},
      {"rnn_tanh", 1, 1, 0, false},
      {"lstm", 4, 4, 5, true},
      {"gru", 3, 4, 4, false},
  }};
}
constexpr RnnModeTraits TraitsOf(RnnMode mode) {
  return RnnModes()[static_cast<std::size_t>(mode)];
}
constexpr std::int64_t MostBlocks() {
  std::int64_t most = 0;
  for (const RnnModeTraits& each : RnnModes()) {
    if (each.blocks > most) most = each.blocks;
  }
  return most;
}

enum class Activation { kTanh, kSigmoid, kRelu, kLinear, kHardSigmoid };

// By Activation, in the ops' attributes.
constexpr std::array<const char*, 5> ActivationNames() {
  return {"tanh", "sigmoid", "relu", "linear", "hard_sigmoid"};
}

// What the cell of an LSTM or a GRU activates its state and its gates with.
struct Activations {
  Activation state = Activation::kTanh;
  Activation gate = Activation::kSigmoid;

  bool are_standard() const {
    return state == Activation::kTanh && gate == Activation::kSigmoid;
  }
};

// A stack of layers of one or two directions. One direction of one layer is a
// pseudo-layer: layer 0 forward, layer 0 backward, layer 1 forward, ...
struct RnnConfig {
  RnnMode mode;
  // Layer 0 has no input matrix: its input is added to every gate, and
  // input_size is num_units.
  bool skip_input;
  std::int64_t num_directions;  // 1 or 2: forward, backward
  std::int64_t num_layers;      // at least 1
  std::int64_t input_size;
  std::int64_t num_units;
  // LSTM only: the size that the hidden state is projected to, less than
  // num_units, or 0 for no projection.
  std::int64_t num_proj;
  // Whether it is a layer of Keras's: one layer of one direction, without a
  // projection and with an input matrix, whose weights lie as Keras has them,
  // and which keeps its output for the backward pass itself.
  bool has_keras_weights = false;
  // Standard unless it is a layer of Keras's.
  Activations activations{};

  std::int64_t num_gates() const { return TraitsOf(mode).gates; }
  bool has_cell_state() const { return TraitsOf(mode).has_cell_state; }
  // Whether the slope of an activation jumps.
  bool has_kinks() const {
    const auto is_smooth = [](Activation activation) {
      return activation != Activation::kRelu &&
             activation != Activation::kHardSigmoid;
    };
    return mode == RnnMode::kRelu || !is_smooth(activations.state) ||
           !is_smooth(activations.gate);
  }
  std::int64_t num_pseudo_layers() const { return num_layers * num_directions; }
  // The size of the hidden state.
  std::int64_t output_size() const {
    return num_proj > 0 ? num_proj : num_units;
  }
  // The size of a layer's input.
  std::int64_t fan_in(std::int64_t layer) const {
    return layer == 0 ? input_size : num_directions * output_size();
  }
  // That of the largest input that a layer has an input matrix for.
  std::int64_t largest_fan_in() const {
    const std::int64_t first = skip_input ? 0 : fan_in(0);
    const std::int64_t others = num_layers > 1 ? fan_in(1) : 0;
    return first > others ? first : others;
  }
};

struct RnnSize {
  std::int64_t time;
  std::int64_t batch;
};

// Where a Keras layer's steps lie in its caller's arrays that are not
// time-major.
struct StepOrder {
  // The place of each step of each sample, [batch, time], a permutation of 0 to
  // time - 1; null where each step has its own.
  const std::int32_t* steps;
  // Whether places in the input are counted from its end.
  bool is_input_reversed;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_
