// The cell of cuDNN's GRU, which applies the reset gate after the matrix
// product.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_CELL_H_

#include <cstdint>

#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

//   r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), and likewise u
//   q = R_n h_prev + bR_n
//   n = tanh(W_n x + bW_n + r ∘ q)
//   h = (1 - u) ∘ n + u ∘ h_prev
//
// Keras layers may use other activations than tanh and sigmoid.
//
//   d_n_bar  = d_h ∘ (1 - u) ∘ (1 - n²)
//   d_r_bar  = d_n_bar ∘ q ∘ r ∘ (1 - r)
//   d_u_bar  = d_h ∘ (h_prev - n) ∘ u ∘ (1 - u)
//   d_q      = d_n_bar ∘ r
//   d_h_prev = d_h ∘ u, plus the part through R h_prev
//
// The blocks are the input of n, then r, u and q. Kept values: r, u, n and q.
template <typename T>
struct GruCell {
  static constexpr std::int64_t kGates = 3;
  static constexpr std::int64_t kRecurrentGates = kGates;
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kKept = 4;
  static constexpr std::int64_t kFirstRecurrent = 1;
  static constexpr std::int64_t kFirstInputGate = 2;
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsPreviousHidden = true;
  static constexpr bool kIsBlockLstm = false;

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Forward(const Run& run) {
    const auto r = run.Gate(0, run.Sum(1));
    const auto u = run.Gate(1, run.Sum(2));
    const auto q = run.Recurrent(3, 3);
    const auto n = run.State(2, MultiplyAdd<T>(r.value, q, run.Sum(0)));
    run.Keep(0, r.kept);
    run.Keep(1, u.kept);
    run.Keep(2, n.kept);
    run.Keep(3, q);
    return Interpolate<T>(u.value, n.value, run.PreviousHidden());
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Backward(const Run& run) {
    const auto [state, gate] = run.activations;
    const auto r = FromKept<T>(gate, run.Kept(0));
    const auto u = FromKept<T>(gate, run.Kept(1));
    const auto n = FromKept<T>(state, run.Kept(2));
    const auto q = run.Kept(3);
    const auto d_h = run.HiddenGradient();
    const auto d_n = state.Gradient(d_h * (T(1) - u.value), n.kept);
    run.StoreBlock(0, d_n);
    run.StoreBlock(1, gate.Gradient(d_n * q, r.kept));
    run.StoreBlock(
        2, gate.Gradient(d_h * (run.PreviousHidden() - n.value), u.kept));
    run.StoreBlock(3, d_n * r.value);
    return d_h * u.value;
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_CELL_H_
