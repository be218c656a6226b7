// Views of the weights of a network, or of their gradients.

#ifndef TF_RNN_OPS_CC_RNN_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_WEIGHTS_H_

#include <array>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The weights of an LSTM's peepholes, each [U], by Peephole; all null if there
// are none. E: the element type, possibly const.
template <typename E>
struct Peepholes {
  static constexpr int kCount = kNumPeepholes;
  E* arrays[kCount];

  bool any() const { return arrays[0] != nullptr; }
  // Those of the units from `unit` on.
  Peepholes At(std::int64_t unit) const {
    if (!any()) return *this;
    return {{arrays[0] + unit, arrays[1] + unit, arrays[2] + unit}};
  }
};

constexpr std::int64_t KerasBiasRows(RnnMode mode) {
  return mode == RnnMode::kGru ? 2 : 1;
}

// The place of a gate in Keras's order, where a GRU's update gate comes first.
constexpr std::int64_t KerasPlace(RnnMode mode, std::int64_t gate) {
  return TraitsOf(mode).gates == 3 && gate < 2 ? 1 - gate : gate;
}

// The format of the packed weights of a float32 network.
enum class WeightFormat { kFloat32, kBFloat16, kInt8 };

// The names in the ops' attributes, indexed by WeightFormat.
constexpr std::array<const char*, 3> WeightFormatNames() {
  return {"float32", "bfloat16", "int8"};
}

enum class WeightLayout {
  kCudnn,   // one buffer
  kKeras,   // matrices of one layer with one direction
  kPacked,  // in the form of NetworkKernels::pack_weights
};

// Sizes: see network.h; G = gates. The default is no weights: those are zeros,
// and such gradients are not computed.
template <typename E>
struct Weights {
  // The type of wide weights.
  using Wide = std::conditional_t<std::is_const_v<E>,
                                  const ComputeType<std::remove_const_t<E>>,
                                  ComputeType<E>>;

  // params: [CudnnRnnParamsSize(config)]
  static Weights Cudnn(E* params) {
    Weights weights;
    weights.params = params;
    return weights;
  }
  // See the members with these names.
  // W: E, or for wide weights their type.
  template <typename W>
  static Weights Keras(W* kernel, W* recurrent_kernel, W* bias) {
    constexpr bool kIsWide = !std::is_same_v<const W, const E>;
    static_assert(!kIsWide || std::is_same_v<const W, const Wide>);
    Weights weights;
    weights.layout = WeightLayout::kKeras;
    weights.is_wide = kIsWide;
    weights.kernel = reinterpret_cast<E*>(kernel);
    weights.recurrent_kernel = reinterpret_cast<E*>(recurrent_kernel);
    weights.bias = reinterpret_cast<E*>(bias);
    return weights;
  }
  // Those of TensorFlow's LSTM ops.
  // w: a kernel above a recurrent kernel, [I + U, 4 * U]; b: [4 * U]
  static Weights BlockLstm(E* w, E* b, const Peepholes<E>& peepholes,
                           bool has_new_cell_second, std::int64_t input_size,
                           std::int64_t num_units) {
    Weights weights = Keras(w, w + input_size * (4 * num_units), b);
    weights.peepholes = peepholes;
    weights.has_new_cell_second = has_new_cell_second;
    return weights;
  }
  static Weights Packed(const void* packed) {
    Weights weights;
    weights.layout = WeightLayout::kPacked;
    weights.packed = packed;
    return weights;
  }

  bool is_keras() const { return layout == WeightLayout::kKeras; }
  bool is_packed() const { return layout == WeightLayout::kPacked; }
  // Whether the matrices are present, in a network with U > 0.
  bool any() const {
    return params != nullptr || recurrent_kernel != nullptr ||
           packed != nullptr;
  }

  WeightLayout layout = WeightLayout::kCudnn;
  // Whether the matrices and biases are of type Wide, for example float32
  // beside 16-bit sequences. Their pointers are then cast.
  bool is_wide = false;
  E* params = nullptr;
  // The matrices are the transposes of cuDNN's, with the gates side by side in
  // cuDNN's order, except that a GRU's update gate comes first.
  E* kernel = nullptr;            // [I, G * U]
  E* recurrent_kernel = nullptr;  // [U, G * U]
  // [KerasBiasRows(mode), G * U], or null for zeros. The second row, of mode
  // gru, is the recurrent bias.
  E* bias = nullptr;
  // Whether an LSTM's new cell precedes the forget gate.
  bool has_new_cell_second = false;
  Peepholes<E> peepholes{};
  const void* packed = nullptr;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_WEIGHTS_H_
