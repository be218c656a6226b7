// Dual numbers: values with their tangents, which are the derivatives of the
// values in one direction. A function written over a type that is a vector or a
// dual number gives, of vectors, the function and, of dual numbers, its
// derivative, too.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_

#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

template <typename T>
struct Dual {
  Vector<T> value;
  Vector<T> tangent;
};

// The tangent of a value that is known otherwise, or not needed.
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

// o * tanh(c)
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> TimesTanh(Vector<T> o, Vector<T> c) {
  return o * Tanh<T>(c);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> TimesTanh(const Dual<T>& o, const Dual<T>& c) {
  const Vector<T> tanh_c = Tanh<T>(c.value);
  return {o.value * tanh_c,
          SumOfProducts<T>(o.tangent, tanh_c, o.value * TanhSlope<T>(tanh_c),
                           c.tangent)};
}

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> Tanh(const Dual<T>& x) {
  const Vector<T> t = Tanh<T>(x.value);
  return {t, TanhSlope<T>(t) * x.tangent};
}

// Not a maximum: that would hide what is not a number.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Relu(Vector<T> x) {
  return Select<T>(x < T(0), Vector<T>{}, x);
}

// The gradient through an activation: d is that with respect to the result,
// which is s = sigmoid(z), t = tanh(z) or h = relu(z).
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> SigmoidGradient(Vector<T> d, Vector<T> s) {
  return d * s * (T(1) - s);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> SigmoidGradient(const Dual<T>& d,
                                                 const Dual<T>& s) {
  const Vector<T> slope = s.value * (T(1) - s.value);
  return {d.value * slope,
          SumOfProducts<T>(d.tangent, slope,
                           d.value * (T(1) - (s.value + s.value)), s.tangent)};
}

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> TanhGradient(Vector<T> d, Vector<T> t) {
  return d * TanhSlope<T>(t);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> TanhGradient(const Dual<T>& d,
                                              const Dual<T>& t) {
  const Vector<T> slope = TanhSlope<T>(t.value);
  return {d.value * slope,
          SumOfProducts<T>(d.tangent, slope, d.value * (t.value * T(-2)),
                           t.tangent)};
}

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> ReluGradient(Vector<T> d, Vector<T> h) {
  return Select<T>(h > T(0), d, Vector<T>{});
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> ReluGradient(const Dual<T>& d,
                                              const Dual<T>& h) {
  return {ReluGradient<T>(d.value, h.value),
          ReluGradient<T>(d.tangent, h.value)};
}

// sum + TanhGradient(d, t)
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> AddTanhGradient(Vector<T> sum, Vector<T> d,
                                                   Vector<T> t) {
  return MultiplyAdd<T>(d, TanhSlope<T>(t), sum);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Dual<T> AddTanhGradient(const Dual<T>& sum,
                                                 const Dual<T>& d,
                                                 const Dual<T>& t) {
  return TanhGradient<T>(d, t) + sum;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_DUAL_H_
