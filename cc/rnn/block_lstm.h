// Arrays of TensorFlow's LSTM ops (RnnConfig::block_lstm). Sizes: see
// network.h.

#ifndef TF_RNN_OPS_CC_RNN_BLOCK_LSTM_H_
#define TF_RNN_OPS_CC_RNN_BLOCK_LSTM_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// The weights of the peepholes, each [U], by Peephole; all null if there are
// none.
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

// What the cells compute: i, f, g, o, tanh(c) and c, each [S, B, U]; null if
// not needed. Or gradients with respect to these; null for zeros.
template <typename E>
struct LstmActivations {
  static constexpr int kCount = 6;
  E* arrays[kCount];

  // The elements from `index` on.
  LstmActivations At(std::int64_t index) const {
    LstmActivations at = *this;
    for (E*& array : at.arrays) {
      if (array != nullptr) array += index;
    }
    return at;
  }
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_BLOCK_LSTM_H_
