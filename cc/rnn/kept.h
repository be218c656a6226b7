// A view of what a forward pass keeps for its backward passes.

#ifndef TF_RNN_OPS_CC_RNN_KEPT_H_
#define TF_RNN_OPS_CC_RNN_KEPT_H_

#include <cstdint>

#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::rnn {

// What the cells of TensorFlow's LSTM ops compute: i, f, g, o, tanh(c) and c,
// each [S, B, U]; null if not needed. Or gradients with respect to these; null
// for zeros. E: the element type, possibly const.
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

enum class KeptForm { kNothing, kReserveSpace, kActivations };

// E: const in backward passes, which read what is kept. The default is nothing.
template <typename E>
struct Kept {
  // data: [ReserveSpaceSize<E>(config, size)]
  // header: in backward passes, a copy of the header of `data` that
  //   ReserveSpaceMismatch accepts.
  static Kept ReserveSpace(E* data,
                           const ReserveSpaceHeader* header = nullptr) {
    Kept kept;
    kept.form = KeptForm::kReserveSpace;
    kept.data = data;
    kept.header = header;
    return kept;
  }
  // The outputs of TensorFlow's LSTM ops (RnnConfig::block_lstm). Backward
  // passes read all of them.
  static Kept Activations(const LstmActivations<E>& activations) {
    Kept kept;
    kept.form = KeptForm::kActivations;
    kept.activations = activations;
    return kept;
  }

  bool is_reserve_space() const { return form == KeptForm::kReserveSpace; }
  bool are_activations() const { return form == KeptForm::kActivations; }

  KeptForm form = KeptForm::kNothing;
  E* data = nullptr;
  const ReserveSpaceHeader* header = nullptr;
  LstmActivations<E> activations{};
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_KEPT_H_
