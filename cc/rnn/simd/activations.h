// tanh and the logistic function of vectors.
//
// Within 2 units in the last place of the exact value everywhere, for float and
// for double; results that are denormal are zero. What is not a number stays
// so.
//
// Both come from e^y = s (1 + t), where s = 2^n for the n nearest to y / ln 2,
// and t = e^r - 1 for the rest r = y - n ln 2, |r| <= ln(2) / 2. As s t is
// exact and s ± 1 nearly always too, e^y ± 1 = s t + (s ± 1) is rounded once.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_ACTIVATIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_ACTIVATIONS_H_

#include <cstdint>

#include "cc/rnn/simd/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// kExpm1: the coefficients q of e^r - 1 ~ r + r^2 (q[0] + q[1] r + ...), by
// Remez's algorithm in 50 digits: of the polynomials of their degree, that with
// the least maximum of the relative error for |r| <= 1.0005 ln(2) / 2. The
// error is 2^-26.2 for float, 2^-55.6 for double.
// kLn2High + kLn2Low: ln 2. The product of the first and an n is exact, or
// nearly so where multiplication and addition are one operation.
// kShift: added to an n, it leaves 2^n's exponent in the lowest bits.
// kLeast: where the logistic function falls below the least normal number.
// kMost: from here on, both functions are 1 to the last bit.
template <typename T>
struct ActivationConstants;

template <>
struct ActivationConstants<float> {
  static constexpr float kExpm1[] = {0x1.fffffep-2f, 0x1.5554bp-3f,
                                     0x1.555674p-5f, 0x1.1227bp-7f,
                                     0x1.6bebfep-10f};
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  static constexpr float kLn2High = 0x1.62e43p-1f;
  static constexpr float kLn2Low = -0x1.05c61p-29f;
#else
  static constexpr float kLn2High = 0x1.62e4p-1f;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20f;
#endif
  static constexpr float kShift = 0x1.8p23f + 127;
  static constexpr int kExponentShift = 23;
  static constexpr float kLeast = -0x1.5d589ep6f;
  static constexpr float kMost = 18;
};

template <>
struct ActivationConstants<double> {
  static constexpr double kExpm1[] = {
      0x1.0000000000005p-1,  0x1.5555555555539p-3,  0x1.555555555228ep-5,
      0x1.1111111119010p-7,  0x1.6c16c17ee7264p-10, 0x1.a01a0174fb315p-13,
      0x1.a019a74a73948p-16, 0x1.71de8824c1a46p-19, 0x1.28a206910d0a4p-22,
      0x1.ae6bac693af30p-26};
  // The first has 42 bits.
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kShift = 0x1.8p52 + 1023;
  static constexpr int kExponentShift = 52;
  static constexpr double kLeast = -0x1.6232bdd7abcd2p9;
  static constexpr double kMost = 40;
};

// n = round(multiple * x), which must lie in -126..127 for float, and 2^n.
template <typename T>
struct PowerOfTwo {
  Vector<T> n;
  Vector<T> power;

  TF_RNN_OPS_VECTOR_INLINE PowerOfTwo(Vector<T> x, T multiple) {
    using Constants = ActivationConstants<T>;
    // The sum is too large for a fraction: it is rounded.
    const Vector<T> shifted = x * multiple + Constants::kShift;
    n = shifted - Constants::kShift;
    power = FromBits<T>(ToBits<T>(shifted) << Constants::kExponentShift);
  }
};

constexpr double kLog2E = 1.4426950408889634;

// (e^(kScale r) - 1) / kScale, for |kScale r| <= ln(2) / 2.
template <typename T, int kScale>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Expm1(Vector<T> r) {
  constexpr auto& q = ActivationConstants<T>::kExpm1;
  constexpr int kTerms = sizeof(q) / sizeof(q[0]);
  constexpr auto coefficient = [](int k) {
    T power = 1;
    for (int i = 0; i <= k; ++i) power *= kScale;
    return q[k] * power;
  };
  Vector<T> sum = Broadcast(coefficient(kTerms - 1));
#pragma GCC unroll 16
  for (int k = kTerms - 2; k >= 0; --k) sum = sum * r + coefficient(k);
  return sum * (r * r) + r;
}

// numerator / denominator, for finite numbers and a normal quotient.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Divide(Vector<T> numerator,
                                          Vector<T> denominator) {
#if defined(__AVX512F__)
  // Division of this width is slow: an estimate to 14 bits, and a step of
  // Newton's iteration.
  if constexpr (sizeof(T) == 4) {
    const Vector<T> inverse = _mm512_rcp14_ps(denominator);
    const Vector<T> quotient = numerator * inverse;
    return (numerator - quotient * denominator) * inverse + quotient;
  }
#endif
  return numerator / denominator;
}

// 1 / x
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Inverse(Vector<T> x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    const Vector<T> inverse = _mm512_rcp14_ps(x);
    return (T(1) - x * inverse) * inverse + inverse;
  }
#endif
  return T(1) / x;
}

// With e^(2|x|) = s (1 + 2u), tanh |x| = (e^(2|x|) - 1) / (e^(2|x|) + 1) is
// (s u + (s - 1) / 2) / (s u + (s + 1) / 2). For small |x| that is u / (1 + u),
// and u is as accurate as it is small.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Tanh(Vector<T> x) {
  using Constants = ActivationConstants<T>;
  const Vector<T> y = AtMost<T>(Abs<T>(x), Constants::kMost);
  const PowerOfTwo<T> s(y, T(2 * kLog2E));
  Vector<T> r = y - s.n * (Constants::kLn2High / 2);
  r = r - s.n * (Constants::kLn2Low / 2);
  const Vector<T> u = Expm1<T, 2>(r);
  const Vector<T> numerator = s.power * u + (s.power * T(0.5) - T(0.5));
  return WithSign<T>(Divide<T>(numerator, numerator + T(1)), x);
}

// 1 / (1 + e^-x) = 1 / (s t + (s + 1)), where -r and -t are in r's and t's
// place.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Sigmoid(Vector<T> x) {
  using Constants = ActivationConstants<T>;
  // Far below zero, the rest of this goes astray.
  const Mask<T> vanishes = x < Constants::kLeast;
  const Vector<T> y = AtMost<T>(x, 2 * Constants::kMost);
  const PowerOfTwo<T> s(y, T(-kLog2E));
  const Vector<T> r = y + s.n * Constants::kLn2High + s.n * Constants::kLn2Low;
  const Vector<T> t = Expm1<T, -1>(r);
  const Vector<T> inverse = Inverse<T>((s.power + T(1)) - s.power * t);
  return Select<T>(vanishes, Vector<T>{}, inverse);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_ACTIVATIONS_H_
