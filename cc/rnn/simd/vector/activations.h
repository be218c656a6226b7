// Vectorized tanh and logistic function.
//
// The error is at most 2 units in the last place for float, 3 for double; a
// denormal result may be zero. NaN stays NaN. tanh(-x) == -tanh(x) exactly.
//
// Both are computed from e^y = s (1 + t), where s = 2^n for the n nearest to y
// / ln 2, and t = e^r - 1 for the remainder r = y - n ln 2, |r| <= ln(2) / 2.
// Products with s are exact, and the order of sums avoids rounding. If vectors
// have 16 elements, tanh of float uses a table instead.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_ACTIVATIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_ACTIVATIONS_H_

#if defined(TF_RNN_OPS_DEVICE_CODE)
#include "cc/rnn/simd/vector/scalar.h"
#else

#include <type_traits>

#include "cc/rnn/simd/vector/tanh_table.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The constants for an element type.
template <typename T>
struct ActivationConstants;

template <>
struct ActivationConstants<float> {
  // q in e^r - 1 ~ r + r^2 (q[0] + q[1] r + ...), the minimax polynomial of the
  // relative error for |r| <= 1.0005 ln(2) / 2, by Remez's algorithm in 50
  // digits. Before the coefficients are rounded, its error is 2^-26.2.
  static constexpr float kExpm1[] = {0x1.fffffep-2f, 0x1.5554bp-3f,
                                     0x1.555674p-5f, 0x1.1227bp-7f,
                                     0x1.6bebfep-10f};
  // Their sum is ln 2. Without fused multiply-add, the first has so few bits
  // that its product with n is exact.
  static constexpr float kLn2High = kFusedMultiplyAdd ? 0x1.62e43p-1f  //
                                                      : 0x1.62e4p-1f;
  static constexpr float kLn2Low =
      kFusedMultiplyAdd ? -0x1.05c61p-29f : 0x1.7f7d1cp-20f;
  static constexpr int kFractionBits = 23;
  // Adding this rounds to an integer; the lowest bits of the sum are the
  // exponent bits of 2^n.
  static constexpr float kShift = 0x1.8p23f + 127;
  // Below this, the logistic function is less than any normal number.
  static constexpr float kLeast = -0x1.5d589ep6f;
  // Above this, both functions round to 1.
  static constexpr float kMost = 18;
};

template <>
struct ActivationConstants<double> {
  // As above; the error is 2^-55.6.
  static constexpr double kExpm1[] = {
      0x1.0000000000005p-1,  0x1.5555555555539p-3,  0x1.555555555228ep-5,
      0x1.1111111119010p-7,  0x1.6c16c17ee7264p-10, 0x1.a01a0174fb315p-13,
      0x1.a019a74a73948p-16, 0x1.71de8824c1a46p-19, 0x1.28a206910d0a4p-22,
      0x1.ae6bac693af30p-26};
  static constexpr double kLn2High =
      kFusedMultiplyAdd ? 0x1.62e42fefa39efp-1 : 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low =
      kFusedMultiplyAdd ? 0x1.abc9e3b39803fp-56 : 0x1.ef35793c7673p-45;
  static constexpr int kFractionBits = 52;
  static constexpr double kShift = 0x1.8p52 + 1023;
  static constexpr double kLeast = -0x1.6232bdd7abcd2p9;
  static constexpr double kMost = 40;
};

constexpr double kLog2E = 1.4426950408889634;

// n = round(multiple * x), and 2^n if that is a normal number.
template <typename T>
struct PowerOfTwo {
  Vector<T> n;
  Vector<T> power;

  TF_RNN_OPS_VECTOR_INLINE PowerOfTwo(Vector<T> x, T multiple) {
    using Constants = ActivationConstants<T>;
    const Vector<T> shifted =
        MultiplyAdd<T>(x, Broadcast(multiple), Broadcast(Constants::kShift));
    n = shifted - Constants::kShift;
    power = FromBits<T>(ToBits<T>(shifted) << Constants::kFractionBits);
  }
};

// The coefficient of r^(k+2) in (e^(scale r) - 1) / scale.
template <typename T>
constexpr T Expm1Coefficient(int k, int scale) {
  T coefficient = ActivationConstants<T>::kExpm1[k];
  for (int i = 0; i <= k; ++i) coefficient *= scale;
  return coefficient;
}

// (e^(kScale r) - 1) / kScale, for |kScale r| <= ln(2) / 2 and kScale a power
// of two or minus one.
template <typename T, int kScale>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Expm1(Vector<T> r) {
  constexpr int kLast =
      std::extent_v<decltype(ActivationConstants<T>::kExpm1)> - 1;
  Vector<T> sum = Broadcast(Expm1Coefficient<T>(kLast, kScale));
#pragma GCC unroll 16
  for (int k = kLast - 1; k >= 0; --k) {
    sum = MultiplyAdd<T>(sum, r, Broadcast(Expm1Coefficient<T>(k, kScale)));
  }
  return MultiplyAdd<T>(sum, r * r, r);
}

// 1 / (1 + s (1 - u)), where that is a normal number.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> InverseOfOnePlus(Vector<T> s, Vector<T> u) {
#if defined(__AVX512F__)
  // Division of 512-bit vectors is slow. Use an estimate of 14 bits and one
  // Newton iteration instead.
  if constexpr (std::is_same_v<T, float>) {
    const Vector<T> power = SubtractProduct<T>(s, s, u);
    const Vector<T> estimate = _mm512_rcp14_ps(power + T(1));
    const Vector<T> error =
        SubtractProduct<T>(Broadcast(T(1)), power, estimate) - estimate;
    return MultiplyAdd<T>(estimate, error, estimate);
  }
#endif
  return T(1) / (s + SubtractProduct<T>(Broadcast(T(1)), s, u));
}

// (1 - e) / (1 + e) for e = e^(-2|x|) = s (1 - 2u), which is
//   ((1 - s) / 2 + s u) / ((1 + s) / 2 - s u)
// For small |x|, s = 1 and this is u / (1 - u), so the relative error of u
// stays small.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Tanh(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) return TanhFromTable(x);
#endif
  using Constants = ActivationConstants<T>;
  const Vector<T> y = AtMost<T>(Abs<T>(x), Constants::kMost);
  const PowerOfTwo<T> s(y, T(-2 * kLog2E));
  Vector<T> r = MultiplyAdd<T>(s.n, Broadcast(Constants::kLn2High / 2), y);
  // With fused multiply-add the result is accurate enough without this term:
  // the larger n, the less it matters.
  if (!kFusedMultiplyAdd) r += s.n * (Constants::kLn2Low / 2);
  const Vector<T> u = Expm1<T, -2>(r);
  const Vector<T> half = Broadcast(T(0.5));
  const Vector<T> difference =
      MultiplyAdd<T>(s.power, u, SubtractProduct<T>(half, s.power, half));
  const Vector<T> sum =
      SubtractProduct<T>(MultiplyAdd<T>(s.power, half, half), s.power, u);
  return WithSign<T>(difference / sum, x);
}

// 1 / (1 + e^-x), with e^-x = s (1 - u).
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Sigmoid(Vector<T> x) {
  using Constants = ActivationConstants<T>;
  const Vector<T> y = AtMost<T>(x, Constants::kMost);
  const PowerOfTwo<T> s(y, T(-kLog2E));
  Vector<T> r = MultiplyAdd<T>(s.n, Broadcast(Constants::kLn2High), y);
  r = MultiplyAdd<T>(s.n, Broadcast(Constants::kLn2Low), r);
  const Vector<T> u = Expm1<T, -1>(r);
  const Vector<T> inverse = InverseOfOnePlus<T>(s.power, u);
  // If e^-x is too large for s, `inverse` is meaningless.
  return Select<T>(x < Constants::kLeast, Vector<T>{}, inverse);
}

// The derivative of tanh at a point where its value is t: 1 - t^2.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> TanhSlope(Vector<T> t) {
  return SubtractProduct<T>(Broadcast(T(1)), t, t);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_DEVICE_CODE

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_ACTIVATIONS_H_
