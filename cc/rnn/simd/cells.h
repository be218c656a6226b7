// The point-wise mathematics of one step of each cell, on runs of neighbouring
// units of one sample.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/lanes.h"
#include "cc/rnn/simd/panel_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// `count` <= kLanes<T> neighbouring units in a forward step. Where there are
// several blocks, each is of one gate and of num_units elements.
template <typename T>
struct ForwardRun {
  std::int64_t num_units;
  std::int64_t count;
  const T* projected;       // W x and biases; a block for each gate
  const T* product;         // R h_prev; kPanelCols elements for each gate
  const T* recurrent_bias;  // GRU: bR_n
  const T* h_prev;          // GRU
  T* c;                     // LSTM: c_prev, replaced by c
  T* kept;                  // for the backward pass, in blocks; or null

  TF_RNN_OPS_INLINE Lanes<T> Projected(std::int64_t gate) const {
    return Load(projected + gate * num_units, count);
  }
  TF_RNN_OPS_INLINE Lanes<T> Product(std::int64_t gate) const {
    return Load(product + gate * kPanelCols<T>, count);
  }
  TF_RNN_OPS_INLINE Lanes<T> Gate(std::int64_t gate) const {
    return Projected(gate) + Product(gate);
  }
  TF_RNN_OPS_INLINE void Keep(std::int64_t block, const Lanes<T>& value) const {
    if (kept != nullptr) Store<T>(value, kept + block * num_units, count);
  }
};

// The same units in a backward step.
template <typename T>
struct BackwardRun {
  std::int64_t num_units;
  std::int64_t count;
  const T* kept;    // by the forward pass, in blocks
  const T* h_prev;  // GRU
  const T* c_prev;  // LSTM
  const T* h;       // rnn_relu, rnn_tanh
  Lanes<T> d_h;     // gradient with respect to what the forward step returned
  T* d_c;           // LSTM: that with respect to c, replaced by c_prev's
  T* d_gates;       // that with respect to the cell's gates, in blocks
  T* cell_output;   // LSTM: o ∘ tanh(c), where a projection needs it; or null

  TF_RNN_OPS_INLINE Lanes<T> Kept(std::int64_t block) const {
    return Load(kept + block * num_units, count);
  }
  TF_RNN_OPS_INLINE void StoreGate(std::int64_t block,
                                   const Lanes<T>& value) const {
    Store<T>(value, d_gates + block * num_units, count);
  }
};

// A cell has
//   kGates: the gates that W x and R h_prev are made for;
//   kGradients: the blocks of d_gates. Those from kFirstRecurrent on, kGates of
//     them, are the gradient of R h_prev + bR. The first kGates are that of
//     W x + bW, where block i is of gate (i + kFirstInputGate) % kGates;
//   Forward: returns h, or for an LSTM what a projection makes h of;
//   Backward: returns what h_prev gets other than through R h_prev.

// h = act(W x + bW + R h_prev + bR). Derived: Activate(x), and the gradient
// through it given its result.
template <typename T, typename Derived>
struct PlainCell {
  static constexpr std::int64_t kGates = 1;
  static constexpr std::int64_t kGradients = 1;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;

  static TF_RNN_OPS_INLINE Lanes<T> Forward(const ForwardRun<T>& run) {
    return Derived::Activate(run.Gate(0));
  }

  static TF_RNN_OPS_INLINE Lanes<T> Backward(const BackwardRun<T>& run) {
    run.StoreGate(0, Derived::Gradient(Load(run.h, run.count), run.d_h));
    return Lanes<T>::Zero();
  }
};

template <typename T>
struct TanhCell : PlainCell<T, TanhCell<T>> {
  static TF_RNN_OPS_INLINE Lanes<T> Activate(const Lanes<T>& x) {
    return x.tanh();
  }
  static TF_RNN_OPS_INLINE Lanes<T> Gradient(const Lanes<T>& h,
                                             const Lanes<T>& d_h) {
    return d_h * (T(1) - h * h);
  }
};

template <typename T>
struct ReluCell : PlainCell<T, ReluCell<T>> {
  // Not a maximum: that would hide what is not a number.
  static TF_RNN_OPS_INLINE Lanes<T> Activate(const Lanes<T>& x) {
    return (x < T(0)).select(Lanes<T>::Zero(), x);
  }
  static TF_RNN_OPS_INLINE Lanes<T> Gradient(const Lanes<T>& h,
                                             const Lanes<T>& d_h) {
    return (h > T(0)).select(d_h, Lanes<T>::Zero());
  }
};

// c = f ∘ c_prev + i ∘ g, and o ∘ tanh(c). Keeps i, f, g, o and c.
template <typename T>
struct LstmCell {
  static constexpr std::int64_t kGates = 4;
  static constexpr std::int64_t kGradients = 4;
  static constexpr std::int64_t kFirstRecurrent = 0;
  static constexpr std::int64_t kFirstInputGate = 0;

  static TF_RNN_OPS_INLINE Lanes<T> Forward(const ForwardRun<T>& run) {
    const Lanes<T> i = run.Gate(0).logistic();
    const Lanes<T> f = run.Gate(1).logistic();
    const Lanes<T> g = run.Gate(2).tanh();
    const Lanes<T> o = run.Gate(3).logistic();
    const Lanes<T> c = f * Load<T>(run.c, run.count) + i * g;
    Store<T>(c, run.c, run.count);
    run.Keep(0, i);
    run.Keep(1, f);
    run.Keep(2, g);
    run.Keep(3, o);
    run.Keep(4, c);
    return o * c.tanh();
  }

  static TF_RNN_OPS_INLINE Lanes<T> Backward(const BackwardRun<T>& run) {
    const Lanes<T> i = run.Kept(0);
    const Lanes<T> f = run.Kept(1);
    const Lanes<T> g = run.Kept(2);
    const Lanes<T> o = run.Kept(3);
    const Lanes<T> squashed = run.Kept(4).tanh();
    const Lanes<T> d_c = Load<T>(run.d_c, run.count) +
                         run.d_h * o * (T(1) - squashed * squashed);
    run.StoreGate(0, d_c * g * i * (T(1) - i));
    run.StoreGate(1, d_c * Load(run.c_prev, run.count) * f * (T(1) - f));
    run.StoreGate(2, d_c * i * (T(1) - g * g));
    run.StoreGate(3, run.d_h * squashed * o * (T(1) - o));
    Store<T>(d_c * f, run.d_c, run.count);
    if (run.cell_output != nullptr) {
      Store<T>(o * squashed, run.cell_output, run.count);
    }
    return Lanes<T>::Zero();
  }
};

// q = R_n h_prev + bR_n, n = tanh(W_n x + bW_n + r ∘ q), and
// h = (1 - u) ∘ n + u ∘ h_prev. Keeps r, u, n and q. The gradients are of n, r,
// u and q, in this order: those of W x and those of R h_prev are then
// neighbours.
template <typename T>
struct GruCell {
  static constexpr std::int64_t kGates = 3;
  static constexpr std::int64_t kGradients = 4;
  static constexpr std::int64_t kFirstRecurrent = 1;
  static constexpr std::int64_t kFirstInputGate = 2;

  static TF_RNN_OPS_INLINE Lanes<T> Forward(const ForwardRun<T>& run) {
    const Lanes<T> r = run.Gate(0).logistic();
    const Lanes<T> u = run.Gate(1).logistic();
    const Lanes<T> q = run.Product(2) + Load(run.recurrent_bias, run.count);
    const Lanes<T> n = (run.Projected(2) + r * q).tanh();
    run.Keep(0, r);
    run.Keep(1, u);
    run.Keep(2, n);
    run.Keep(3, q);
    return (T(1) - u) * n + u * Load(run.h_prev, run.count);
  }

  static TF_RNN_OPS_INLINE Lanes<T> Backward(const BackwardRun<T>& run) {
    const Lanes<T> r = run.Kept(0);
    const Lanes<T> u = run.Kept(1);
    const Lanes<T> n = run.Kept(2);
    const Lanes<T> q = run.Kept(3);
    const Lanes<T> d_n = run.d_h * (T(1) - u) * (T(1) - n * n);
    const Lanes<T> d_u = run.d_h * (Load(run.h_prev, run.count) - n);
    run.StoreGate(0, d_n);
    run.StoreGate(1, d_n * q * r * (T(1) - r));
    run.StoreGate(2, d_u * u * (T(1) - u));
    run.StoreGate(3, d_n * r);
    return run.d_h * u;
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_H_
