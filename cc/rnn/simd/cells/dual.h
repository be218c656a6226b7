// Dual numbers: values with their tangents (directional derivatives). A
// function template over the number type computes the function for vectors, and
// also its derivative for dual numbers.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_

#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

template <typename T>
struct Dual {
  Vector<T> value;
  Vector<T> tangent;
};

// The tangent of a value that is known otherwise or not needed.
template <typename T>
struct Tangent {
  Vector<T> tangent;
};

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> operator+(const Dual<T>& a, const Dual<T>& b) {
  return {a.value + b.value, a.tangent + b.tangent};
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> operator-(const Dual<T>& a, const Dual<T>& b) {
  return {a.value - b.value, a.tangent - b.tangent};
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> operator-(T a, const Dual<T>& b) {
  return {a - b.value, -b.tangent};
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> operator*(const Dual<T>& a, const Dual<T>& b) {
  return {a.value * b.value,
          SumOfProducts<T>(a.tangent, b.value, a.value, b.tangent)};
}

// a * b + c
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Tangent<T> MultiplyAdd(const Dual<T>& a,
                                                const Dual<T>& b,
                                                const Tangent<T>& c) {
  return {c.tangent + SumOfProducts<T>(a.tangent, b.value, a.value, b.tangent)};
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> MultiplyAdd(const Dual<T>& a, const Dual<T>& b,
                                             const Dual<T>& c) {
  return a * b + c;
}

// a * b + c * d
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> SumOfProducts(const Dual<T>& a,
                                               const Dual<T>& b,
                                               const Dual<T>& c,
                                               const Dual<T>& d) {
  return {SumOfProducts<T>(a.value, b.value, c.value, d.value),
          SumOfProducts<T>(a.tangent, b.value, a.value, b.tangent) +
              SumOfProducts<T>(c.tangent, d.value, c.value, d.tangent)};
}

// (1 - u) * a + u * b
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Interpolate(Vector<T> u, Vector<T> a,
                                               Vector<T> b) {
  return SumOfProducts<T>(T(1) - u, a, u, b);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> Interpolate(const Dual<T>& u, const Dual<T>& a,
                                             const Dual<T>& b) {
  return {Interpolate<T>(u.value, a.value, b.value),
          MultiplyAdd<T>(
              u.tangent, b.value - a.value,
              SumOfProducts<T>(T(1) - u.value, a.tangent, u.value, b.tangent))};
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_
