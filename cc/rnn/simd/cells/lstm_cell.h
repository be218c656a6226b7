// The cell of an LSTM.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_

#include <cstdint>

#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

//   i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), and likewise f and o
//   g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
//   c = f ∘ c_prev + i ∘ g
//   h = o ∘ tanh(c), which a projection multiplies by P
//
// Keras layers may use other activations than tanh and sigmoid.
//
//   d_c     += d_h ∘ o ∘ (1 - tanh(c)²)
//   d_i_bar  = d_c ∘ g ∘ i ∘ (1 - i)
//   d_f_bar  = d_c ∘ c_prev ∘ f ∘ (1 - f)
//   d_g_bar  = d_c ∘ i ∘ (1 - g²)
//   d_o_bar  = d_h ∘ tanh(c) ∘ o ∘ (1 - o)
//   d_c_prev = d_c ∘ f
template <typename T>
struct LstmCell {
  static constexpr std::int64_t kGates = 4;
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kKept = 5;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;
  static constexpr bool kHasCellState = true;
  static constexpr bool kReadsPreviousHidden = false;

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Forward(const Run& run) {
    const auto i = run.Gate(0, run.Sum(0));
    const auto f = run.Gate(1, run.Sum(1));
    const auto g = run.State(2, run.Sum(2));
    const auto o = run.Gate(3, run.Sum(3));
    const auto c = run.Recall(4, SumOfProducts<T>(f, run.CellState(), i, g));
    run.StoreCellState(c);
    run.Keep(0, i);
    run.Keep(1, f);
    run.Keep(2, g);
    run.Keep(3, o);
    run.Keep(4, c);
    return o * Activate<T>(run.activations.state, c);
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Backward(const Run& run) {
    const auto i = run.Kept(0);
    const auto f = run.Kept(1);
    const auto g = run.Kept(2);
    const auto o = run.Kept(3);
    const auto [state, gate] = run.activations;
    const auto tanh_c = Activate<T>(state, run.Kept(4));
    const auto d_h = run.HiddenGradient();
    const auto d_c = run.CellStateGradient() + state.Gradient(d_h * o, tanh_c);
    run.StoreBlock(0, gate.Gradient(d_c * g, i));
    run.StoreBlock(1, gate.Gradient(d_c * run.PreviousCellState(), f));
    run.StoreBlock(2, state.Gradient(d_c * i, g));
    run.StoreBlock(3, gate.Gradient(d_h * tanh_c, o));
    run.StoreCellStateGradient(d_c * f);
    if (run.has_cell_output()) run.StoreCellOutput(o * tanh_c);
    return decltype(d_h){};
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_
