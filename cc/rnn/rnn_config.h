// The configuration of a stacked recurrent network.

#ifndef TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_
#define TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace tf_rnn_ops::rnn {

// Those that cuDNN lacks are kGruResetBefore, Keras's GRU with
// reset_after=False, and kRnn, its SimpleRNN with any activation.
enum class RnnMode { kRelu, kTanh, kLstm, kGru, kGruResetBefore, kRnn };

// Properties of the cell of a mode. See simd/cells for the formulas.
struct RnnModeTraits {
  const char* name;  // in the ops' attribute rnn_mode
  // Number of gates, each with its own weights and biases. In cuDNN's order:
  // LSTM input, forget, new cell, output; GRU reset, update, new.
  std::int64_t gates;
  // How many of the gates, the first ones, multiply R with h_prev. The others
  // multiply it with r ∘ h_prev, in a second half of the step.
  std::int64_t recurrent_gates;
  std::int64_t blocks;  // pre-activation sums: see simd/cells/cells.h
  std::int64_t kept;    // values kept for the backward pass, per unit and step
  bool has_cell_state;
};
// Indexed by RnnMode. A function, because an object would be defined once for
// each instruction set.
constexpr std::array<RnnModeTraits, 6> RnnModes() {
  return {{
      {"rnn_relu", 1, 1, 1, 0, false},
      {"rnn_tanh", 1, 1, 1, 0, false},
      {"lstm", 4, 4, 4, 5, true},
      {"gru", 3, 3, 4, 4, false},
      {"gru_reset_before", 3, 2, 3, 3, false},
      {"rnn", 1, 1, 1, 1, false},
  }};
}
constexpr RnnModeTraits TraitsOf(RnnMode mode) {
  return RnnModes()[static_cast<std::size_t>(mode)];
}
// Whether cuDNN has the mode.
constexpr bool IsOfCudnn(RnnMode mode) {
  return mode != RnnMode::kGruResetBefore && mode != RnnMode::kRnn;
}
constexpr std::int64_t kMostGates = 4;
constexpr std::int64_t MaxBlocks() {
  std::int64_t most = 0;
  for (const RnnModeTraits& each : RnnModes()) {
    if (each.blocks > most) most = each.blocks;
  }
  return most;
}

// Those of Keras 3, with its default arguments.
enum class Activation {
  kTanh,
  kSigmoid,
  kRelu,
  kLinear,
  kHardSigmoid,
  kElu,
  kSelu,
  kSoftplus,
  kSoftsign,
  kExponential,
  kLeakyRelu,
  kRelu6,
  kHardTanh,
  kLogSigmoid,
  kSquareplus,
  kHardShrink,
  kSoftShrink,
  kSparseSigmoid,
  kGelu,
  kGeluApproximate,  // Keras's gelu with approximate=True
  kSilu,
  kMish,
  kHardSilu,
  kTanhShrink,
  kSparsePlus
};

// The names in the ops' attributes, indexed by Activation.
constexpr std::array<const char*, 25> ActivationNames() {
  return {"tanh",        "sigmoid",          "relu",
          "linear",      "hard_sigmoid",     "elu",
          "selu",        "softplus",         "softsign",
          "exponential", "leaky_relu",       "relu6",
          "hard_tanh",   "log_sigmoid",      "squareplus",
          "hard_shrink", "soft_shrink",      "sparse_sigmoid",
          "gelu",        "gelu_approximate", "silu",
          "mish",        "hard_silu",        "tanh_shrink",
          "sparse_plus"};
}

// Whether the first or second derivative of an activation is discontinuous.
constexpr bool HasKinks(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
    case Activation::kHardSigmoid:
    case Activation::kElu:
    case Activation::kSelu:
    case Activation::kSoftsign:
    case Activation::kLeakyRelu:
    case Activation::kRelu6:
    case Activation::kHardTanh:
    case Activation::kHardShrink:
    case Activation::kSoftShrink:
    case Activation::kSparseSigmoid:
    case Activation::kHardSilu:
    case Activation::kSparsePlus:
      return true;
    default:
      return false;
  }
}

// The activations of a cell. Not of rnn_relu and rnn_tanh.
struct Activations {
  Activation state = Activation::kTanh;
  Activation gate = Activation::kSigmoid;

  bool are_standard() const {
    return state == Activation::kTanh && gate == Activation::kSigmoid;
  }
};

// The gates of an LSTM that may get the cell state through a peephole.
enum Peephole { kInputPeephole, kForgetPeephole, kOutputPeephole };
constexpr int kNumPeepholes = 3;

// What the cell of TensorFlow's LSTM ops has and other LSTMs lack.
struct BlockLstm {
  // Whether this is that cell, which also keeps tanh(c).
  bool is_used = false;
  float forget_bias = 0;  // added to the bias of the forget gate
  // The cell state is clipped to [-cell_clip, cell_clip]; 0 for no clipping.
  float cell_clip = 0;
};

// Whether products of a Keras layer read their left operand times a mask of
// their gate, and whether that is the same at all steps.
enum class GateDropout { kNone, kSameMasks, kMasksOfSteps };

// A stack of layers with one or two directions. A pseudo-layer is one direction
// of one layer: layer 0 forward, layer 0 backward, layer 1 forward, ...
struct RnnConfig {
  RnnMode mode;
  // Layer 0 has no input matrix: its input is added to every gate, and
  // input_size is num_units.
  bool skip_input;
  std::int64_t num_directions;  // 1 or 2: forward, backward
  std::int64_t num_layers;      // at least 1
  std::int64_t input_size;
  std::int64_t num_units;
  // LSTM only: the size of the projected hidden state, less than num_units, or
  // 0 for no projection.
  std::int64_t num_proj;
  // Whether reserve_space has the output of the last layer, too, so that
  // backward passes do not read it elsewhere: a Keras layer does not get it.
  bool keeps_output = false;
  // Standard except for a Keras layer.
  Activations activations{};
  BlockLstm block_lstm{};
  GateDropout input_dropout = GateDropout::kNone;
  GateDropout state_dropout = GateDropout::kNone;

  std::int64_t num_gates() const { return TraitsOf(mode).gates; }
  std::int64_t num_recurrent_gates() const {
    return TraitsOf(mode).recurrent_gates;
  }
  bool has_cell_state() const { return TraitsOf(mode).has_cell_state; }
  // Whether the cell ends in a second half of the step, after R of its last
  // gate has multiplied what it computed in the first half.
  bool has_finish() const { return num_recurrent_gates() < num_gates(); }
  // Whether a step has a second half: that, or the projection.
  bool has_second_half() const { return num_proj > 0 || has_finish(); }
  bool drops_input() const { return input_dropout != GateDropout::kNone; }
  bool drops_state() const { return state_dropout != GateDropout::kNone; }
  // The copies of the input or state that products read: with dropout, one for
  // each gate that multiplies it.
  std::int64_t num_input_copies() const {
    return drops_input() ? num_gates() : 1;
  }
  std::int64_t num_state_copies() const {
    return drops_state() ? num_recurrent_gates() : 1;
  }
  // Values kept for the backward pass, per unit and step.
  std::int64_t num_kept() const {
    return TraitsOf(mode).kept + (block_lstm.is_used ? 1 : 0);
  }
  // Whether an activation has kinks.
  bool has_kinks() const {
    return mode == RnnMode::kRelu || HasKinks(activations.state) ||
           HasKinks(activations.gate);
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
  // The largest fan_in of the layers that have an input matrix.
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

// The sizes of one step of TensorFlow's GRUBlockCell or LSTMBlockCell.
struct BlockCellSize {
  std::int64_t batch;
  std::int64_t input_size;
  std::int64_t cell_size;
};

// The order of the steps in the arrays of a Keras layer that are not
// time-major.
struct StepOrder {
  // [batch, time], the position of each step of each sample, a permutation of 0
  // to time - 1; null for the natural order.
  const std::int32_t* steps;
  // Whether positions in the input are counted from its end.
  bool is_input_reversed;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_RNN_CONFIG_H_
