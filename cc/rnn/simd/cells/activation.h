// Activation functions of cells.
//
// The derivatives of most activations y = act(z) follow from y, those of others
// only from z. Cells keep that of the two for the backward pass, k.
//
// An activation has
//   keeps_sum(): whether k is z, the sum that it activates;
//   Activate(z) of a vector;
//   Gradient(d, k), the gradient with respect to z, of vectors or duals:
//     d is the gradient with respect to y.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_ACTIVATION_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_ACTIVATION_H_

#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

struct KeepsResult {
  static constexpr bool keeps_sum() { return false; }
};
struct KeepsSum {
  static constexpr bool keeps_sum() { return true; }
};

template <typename T>
struct TanhActivation : KeepsResult {
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> z) {
    return Tanh<T>(z);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return d * TanhSlope<T>(y);
  }
  static TF_RNN_OPS_VECTOR_INLINE Dual<T> Gradient(const Dual<T>& d,
                                                   const Dual<T>& y) {
    const Vector<T> slope = TanhSlope<T>(y.value);
    return {d.value * slope,
            SumOfProducts<T>(d.tangent, slope, d.value * (y.value * T(-2)),
                             y.tangent)};
  }
};

template <typename T>
struct SigmoidActivation : KeepsResult {
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> z) {
    return Sigmoid<T>(z);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return d * y * (T(1) - y);
  }
  static TF_RNN_OPS_VECTOR_INLINE Dual<T> Gradient(const Dual<T>& d,
                                                   const Dual<T>& y) {
    const Vector<T> slope = y.value * (T(1) - y.value);
    return {
        d.value * slope,
        SumOfProducts<T>(d.tangent, slope,
                         d.value * (T(1) - (y.value + y.value)), y.tangent)};
  }
};

// An activation with a constant slope between kinks. `Of` has Activate(z) and
// Gradient(d, y) of vectors.
template <typename T, typename Of>
struct PiecewiseLinear : Of, KeepsResult {
  using Of::Gradient;
  static TF_RNN_OPS_VECTOR_INLINE Dual<T> Gradient(const Dual<T>& d,
                                                   const Dual<T>& y) {
    return {Of::Gradient(d.value, y.value), Of::Gradient(d.tangent, y.value)};
  }
};

template <typename T>
struct Relu {
  // Not a maximum, which would hide NaN.
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> z) {
    return Select<T>(z < T(0), Vector<T>{}, z);
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    return Select<T>(y > T(0), d, Vector<T>{});
  }
};
template <typename T>
using ReluActivation = PiecewiseLinear<T, Relu<T>>;

template <typename T>
struct Identity {
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> z) { return z; }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> d, Vector<T>) {
    return d;
  }
};
template <typename T>
using LinearActivation = PiecewiseLinear<T, Identity<T>>;

// Keras's hard sigmoid: z / 6 + 1 / 2, clipped to [0, 1].
template <typename T>
struct HardSigmoid {
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(Vector<T> z) {
    const Vector<T> y =
        MultiplyAdd<T>(z, Broadcast(T(1) / 6), Broadcast(T(0.5)));
    return Select<T>(y < T(0), Vector<T>{},
                     Select<T>(y > T(1), Broadcast(T(1)), y));
  }
  static TF_RNN_OPS_VECTOR_INLINE Vector<T> Gradient(Vector<T> d, Vector<T> y) {
    const Vector<T> above = Select<T>(y > T(0), d * (T(1) / 6), Vector<T>{});
    return Select<T>(y < T(1), above, Vector<T>{});
  }
};
template <typename T>
using HardSigmoidActivation = PiecewiseLinear<T, HardSigmoid<T>>;

// The result of an activation, and what the cell keeps.
template <typename T>
struct Activated {
  Vector<T> value;
  Vector<T> kept;
};
template <typename T>
struct ActivatedDual {
  Dual<T> value;
  Dual<T> kept;
};

template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE Activated<T> Activate(const Activation& activation,
                                               Vector<T> z) {
  const Vector<T> y = activation.Activate(z);
  return {y, activation.keeps_sum() ? z : y};
}
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE ActivatedDual<T> Activate(const Activation& activation,
                                                   const Dual<T>& z) {
  const Activated<T> y = Activate<T>(activation, z.value);
  const Dual<T> dual = {y.value, activation.Gradient(z.tangent, y.kept)};
  return {dual, activation.keeps_sum() ? z : dual};
}

// The same from what was kept.
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE Activated<T> FromKept(const Activation& activation,
                                               Vector<T> kept) {
  if (activation.keeps_sum()) return Activate<T>(activation, kept);
  return {kept, kept};
}
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE ActivatedDual<T> FromKept(const Activation& activation,
                                                   const Dual<T>& kept) {
  if (activation.keeps_sum()) return Activate<T>(activation, kept);
  return {kept, kept};
}
// The same from the value that was kept and the tangent of the sum.
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE ActivatedDual<T> FromKept(const Activation& activation,
                                                   Vector<T> kept,
                                                   const Tangent<T>& z) {
  if (activation.keeps_sum()) {
    return Activate<T>(activation, Dual<T>{kept, z.tangent});
  }
  const Dual<T> dual = {kept, activation.Gradient(z.tangent, kept)};
  return {dual, dual};
}

// The activations of a cell.
template <typename T>
struct StandardActivations {
  TanhActivation<T> state;
  SigmoidActivation<T> gate;
};
// Those of rnn_relu, which has no gates.
template <typename T>
struct ReluActivations {
  ReluActivation<T> state;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_ACTIVATION_H_
