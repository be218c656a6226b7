// Activation functions of cells.
//
// An activation has
//   Activate(z) of a vector;
//   Gradient(d, y), the gradient with respect to z, of vectors or duals:
//     y is the result of Activate, d the gradient with respect to y.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_ACTIVATION_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_ACTIVATION_H_

#include "cc/rnn/simd/cells/dual.h"
#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

template <typename T>
struct TanhActivation {
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
struct SigmoidActivation {
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
struct PiecewiseLinear : Of {
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

// Applies an activation to a dual number.
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE Dual<T> Activate(const Activation& activation,
                                          const Dual<T>& z) {
  const Vector<T> y = activation.Activate(z.value);
  return {y, activation.Gradient(z.tangent, y)};
}
template <typename T, typename Activation>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Activate(const Activation& activation,
                                            Vector<T> z) {
  return activation.Activate(z);
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
