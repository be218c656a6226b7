// The cell of a GRU that applies the reset gate before the matrix product.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_RESET_BEFORE_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_RESET_BEFORE_CELL_H_

#include <cstdint>

#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The first half of a step, and the second:
//
//   r = sigmoid(W_r x + b_r + R_r h_prev), and likewise u
//   m = r ∘ h_prev
//
//   n = tanh(W_n x + b_n + R_n m)
//   h = (1 - u) ∘ n + u ∘ h_prev
//
// Keras layers may use other activations than tanh and sigmoid. Backwards:
//
//   d_n_bar  = d_h ∘ (1 - u) ∘ (1 - n²)
//   d_u_bar  = d_h ∘ (h_prev - n) ∘ u ∘ (1 - u)
//   d_h_prev = d_h ∘ u, plus the part through R h_prev
//
//   d_m       = R_nᵀ d_n_bar
//   d_r_bar   = d_m ∘ h_prev ∘ r ∘ (1 - r)
//   d_h_prev += d_m ∘ r
//
// The blocks and the kept values are r, u and n.
template <typename T>
struct GruResetBeforeCell {
  static constexpr std::int64_t kGates = 3;
  static constexpr std::int64_t kRecurrentGates = 2;
  static constexpr std::int64_t kBlocks = 3;
  static constexpr std::int64_t kKept = 3;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;
  static constexpr bool kHasCellState = false;
  static constexpr bool kReadsPreviousHidden = true;
  static constexpr bool kIsBlockLstm = false;

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Forward(const Run& run) {
    const auto r = run.Gate(kReset, run.Sum(kReset));
    const auto u = run.Gate(kUpdate, run.Sum(kUpdate));
    run.Keep(kReset, r.kept);
    run.Carry(kUpdate, u.kept);
    return r.value * run.PreviousHidden();
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Finish(const Run& run) {
    const auto u = FromKept<T>(run.activations.gate, run.Carried(kUpdate));
    const auto n = run.State(kNew, run.Sum(kNew));
    run.Keep(kNew, n.kept);
    return Interpolate<T>(u.value, n.value, run.PreviousHidden());
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Backward(const Run& run) {
    const auto [state, gate] = run.activations;
    const auto u = FromKept<T>(gate, run.Kept(kUpdate));
    const auto n = FromKept<T>(state, run.Kept(kNew));
    const auto d_h = run.HiddenGradient();
    run.StoreBlock(kNew, state.Gradient(d_h * (T(1) - u.value), n.kept));
    run.StoreBlock(
        kUpdate, gate.Gradient(d_h * (run.PreviousHidden() - n.value), u.kept));
    return d_h * u.value;
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto FinishBackward(const Run& run) {
    const auto [state, gate] = run.activations;
    const auto r = FromKept<T>(gate, run.Kept(kReset));
    const auto h_prev = run.PreviousHidden();
    const auto d_m = run.HiddenGradient();
    run.StoreBlock(kReset, gate.Gradient(d_m * h_prev, r.kept));
    if (run.has_cell_output()) run.StoreCellOutput(r.value * h_prev);
    return d_m * r.value;
  }

 private:
  static constexpr std::int64_t kReset = 0;
  static constexpr std::int64_t kUpdate = 1;
  static constexpr std::int64_t kNew = 2;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_GRU_RESET_BEFORE_CELL_H_
