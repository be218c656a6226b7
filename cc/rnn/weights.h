// The weights of a network, or their gradients.

#ifndef TF_RNN_OPS_CC_RNN_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_WEIGHTS_H_

#include <array>
#include <cstdint>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The weights of a Keras layer, with I = input_size, U = num_units and G =
// gates. The matrices are the transposes of cuDNN's, with the gates
// concatenated in cuDNN's order, except that a GRU's update gate comes first.
// E: the element type, possibly const.
template <typename E>
struct KerasWeights {
  E* kernel;            // [I, G * U]
  E* recurrent_kernel;  // [U, G * U]
  // [KerasBiasRows(mode), G * U], or null for zeros. Only a GRU has a second
  // row, the recurrent bias.
  E* bias;
};

constexpr std::int64_t KerasBiasRows(RnnMode mode) {
  return mode == RnnMode::kGru ? 2 : 1;
}

// The format of the packed weights of a float32 network.
enum class WeightFormat { kFloat32, kBFloat16, kInt8 };

// The names in the ops' attributes, indexed by WeightFormat.
constexpr std::array<const char*, 3> WeightFormatNames() {
  return {"float32", "bfloat16", "int8"};
}

// Null weights are zeros; null gradients are not computed.
template <typename E>
struct Weights {
  E* params;              // cuDNN's buffer, [CudnnRnnParamsSize(config)], or
  KerasWeights<E> keras;  // used if config.has_keras_weights

  // Whether the weights are present, in a network with num_units > 0.
  bool any() const {
    return params != nullptr || keras.recurrent_kernel != nullptr;
  }
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_WEIGHTS_H_
