// The cell without gates.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_PLAIN_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_PLAIN_CELL_H_

#include <cstdint>

#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

//   h = act(W x + bW + R h_prev + bR)
//
//   d_h_bar = d_h ∘ act'(h)
//
// The activation says what is kept, h or its sum. rnn_tanh and rnn_relu keep h,
// and only as the output of the layer.
template <typename T>
struct PlainCell {
  static constexpr std::int64_t kGates = 1;
  static constexpr std::int64_t kRecurrentGates = kGates;
  static constexpr std::int64_t kBlocks = 1;
  static constexpr std::int64_t kKept = 0;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsPreviousHidden = false;
  static constexpr bool kIsBlockLstm = false;

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Forward(const Run& run) {
    const auto h = run.State(0, run.Sum(0));
    run.Keep(0, h.kept);
    return h.value;
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Backward(const Run& run) {
    const auto d_h = run.HiddenGradient();
    run.StoreBlock(0, run.activations.state.Gradient(d_h, run.Kept(0)));
    return decltype(d_h){};
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_PLAIN_CELL_H_
