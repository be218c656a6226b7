// The cell of an LSTM.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
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
//   d_o_bar  = d_h ∘ tanh(c) ∘ o ∘ (1 - o)
//   d_c     += d_h ∘ o ∘ (1 - tanh(c)²)
//   d_i_bar  = d_c ∘ g ∘ i ∘ (1 - i)
//   d_f_bar  = d_c ∘ c_prev ∘ f ∘ (1 - f)
//   d_g_bar  = d_c ∘ i ∘ (1 - g²)
//   d_c_prev = d_c ∘ f
//
// TensorFlow's LSTM ops also have i, f, g, o, tanh(c) and c as outputs, whose
// gradients are added. With peepholes, the sums of i, f and o also get wci ∘
// c_prev, wcf ∘ c_prev and wco ∘ c, and the gradients flow back through these.
// The gradient of the clipping of c is that of the identity, as in TensorFlow.
//
// kIsBlock: whether this is the cell of TensorFlow's LSTM ops, which may have
// peepholes and clip c.
template <typename T, bool kIsBlock = false>
struct LstmCell {
  static constexpr std::int64_t kGates = 4;
  static constexpr std::int64_t kRecurrentGates = kGates;
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kKept = kIsBlock ? 6 : 5;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;
  static constexpr bool kHasCellState = true;
  static constexpr bool kReadsPreviousHidden = false;
  static constexpr bool kIsBlockLstm = kIsBlock;

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Forward(const Run& run) {
    const auto c_prev = run.CellState();
    auto i_bar = run.Sum(0);
    auto f_bar = run.Sum(1);
    if constexpr (kIsBlock) {
      if (run.has_peepholes()) {
        i_bar = MultiplyAdd<T>(run.Weight(kInputPeephole), c_prev, i_bar);
        f_bar = MultiplyAdd<T>(run.Weight(kForgetPeephole), c_prev, f_bar);
      }
    }
    const auto i = run.Gate(0, i_bar);
    const auto f = run.Gate(1, f_bar);
    const auto g = run.State(2, run.Sum(2));
    auto o_bar = run.Sum(3);
    auto c = run.Recall(kCellState,
                        SumOfProducts<T>(f.value, c_prev, i.value, g.value));
    if constexpr (kIsBlock) {
      c = run.Clip(c);
      if (run.has_peepholes()) {
        o_bar = MultiplyAdd<T>(run.Weight(kOutputPeephole), c, o_bar);
      }
    }
    const auto o = run.Gate(3, o_bar);
    run.StoreCellState(c);
    run.Keep(0, i.kept);
    run.Keep(1, f.kept);
    run.Keep(2, g.kept);
    run.Keep(3, o.kept);
    run.Keep(kCellState, c);
    const auto tanh_c = Activate<T>(run.activations.state, c);
    if constexpr (kIsBlock) run.Keep(kTanh, tanh_c.kept);
    return o.value * tanh_c.value;
  }

  template <typename Run>
  static TF_RNN_OPS_VECTOR_INLINE auto Backward(const Run& run) {
    const auto [state, gate] = run.activations;
    const auto i = FromKept<T>(gate, run.Kept(0));
    const auto f = FromKept<T>(gate, run.Kept(1));
    const auto g = FromKept<T>(state, run.Kept(2));
    const auto o = FromKept<T>(gate, run.Kept(3));
    const auto c = run.Kept(kCellState);
    const auto c_prev = run.PreviousCellState();
    const auto tanh_c =
        kIsBlock ? FromKept<T>(state, run.Kept(kTanh)) : Activate<T>(state, c);
    const auto d_h = run.HiddenGradient();
    const auto d_o_bar =
        gate.Gradient(Total(run, 3, d_h * tanh_c.value), o.kept);
    auto d_c = Total(run, kCellState, run.CellStateGradient()) +
               state.Gradient(Total(run, kTanh, d_h * o.value), tanh_c.kept);
    if constexpr (kIsBlock) {
      if (run.has_peepholes()) {
        d_c = MultiplyAdd<T>(run.Weight(kOutputPeephole), d_o_bar, d_c);
      }
    }
    const auto d_i_bar = gate.Gradient(Total(run, 0, d_c * g.value), i.kept);
    const auto d_f_bar = gate.Gradient(Total(run, 1, d_c * c_prev), f.kept);
    auto d_c_prev = d_c * f.value;
    if constexpr (kIsBlock) {
      if (run.has_peepholes()) {
        d_c_prev =
            MultiplyAdd<T>(run.Weight(kInputPeephole), d_i_bar, d_c_prev);
        d_c_prev =
            MultiplyAdd<T>(run.Weight(kForgetPeephole), d_f_bar, d_c_prev);
        run.StoreBlock(kBlocks + kInputPeephole, d_i_bar * c_prev);
        run.StoreBlock(kBlocks + kForgetPeephole, d_f_bar * c_prev);
        run.StoreBlock(kBlocks + kOutputPeephole, d_o_bar * c);
      }
    }
    run.StoreBlock(0, d_i_bar);
    run.StoreBlock(1, d_f_bar);
    run.StoreBlock(2, state.Gradient(Total(run, 2, d_c * i.value), g.kept));
    run.StoreBlock(3, d_o_bar);
    run.StoreCellStateGradient(d_c_prev);
    if (run.has_cell_output()) run.StoreCellOutput(o.value * tanh_c.value);
    return decltype(d_h){};
  }

 private:
  // Indices among the kept values.
  static constexpr std::int64_t kTanh = 4;  // of TensorFlow's LSTM ops
  static constexpr std::int64_t kCellState = kKept - 1;

  // The gradient with respect to a value that is also an output of TensorFlow's
  // LSTM ops. index: of the value among those kept.
  template <typename Run, typename V>
  static TF_RNN_OPS_VECTOR_INLINE V Total(const Run& run, std::int64_t index,
                                          V gradient) {
    if constexpr (kIsBlock) return run.AddOutputGradient(index, gradient);
    return gradient;
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_LSTM_CELL_H_
