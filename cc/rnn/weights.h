// Where the weights of a network lie, or their gradients.

#ifndef TF_RNN_OPS_CC_RNN_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_WEIGHTS_H_

#include <cstdint>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The weights of a Keras layer, I = input_size, U = num_units and G = gates:
// the transposes of cuDNN's matrices, the gates beside one another in the same
// order, but for a GRU, whose update gate comes first.
// E: the type of the elements, or const that.
template <typename E>
struct KerasWeights {
  E* kernel;            // [I, G * U]
  E* recurrent_kernel;  // [U, G * U]
  // [KerasBiasRows(mode), G * U], or null for zeros. A GRU's second row is the
  // recurrent bias, which the others have not.
  E* bias;
};

constexpr std::int64_t KerasBiasRows(RnnMode mode) {
  return mode == RnnMode::kGru ? 2 : 1;
}

// What is null is not there: of weights, all are zeros; of gradients, none is
// wanted.
template <typename E>
struct Weights {
  E* params;              // cuDNN's buffer, [CudnnRnnParamsSize(config)], or
  KerasWeights<E> keras;  // where config.has_keras_weights

  // Whether they are there, in a network that has units.
  bool any() const {
    return params != nullptr || keras.recurrent_kernel != nullptr;
  }
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_WEIGHTS_H_
