// tanh as piecewise polynomials whose coefficients fit in registers.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TANH_TABLE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TANH_TABLE_H_

#include "cc/rnn/simd/vector/vector.h"

#if defined(__AVX512F__)

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The column of an a in [0, 9.015625] is given by the lowest bits of its
// exponent and the two highest bits of its fraction: a quarter of an octave
// from 1/16 to 8. The remaining column 8 covers all larger a, and column 11 all
// smaller a. The first row is c, the others p in
//   tanh(a) ~ p[0] + t (p[1] + t (p[2] + ... + t p[5])), t = a - c.
// c: near the middle, chosen such that tanh(c) equals the float p[0] to 2^-33
//   relative (2^-25 from 7 on, where such a c is rare). Otherwise rounding p[0]
//   would add an error as large as that of rounding the result.
// p[1] to p[5]: least squares of the relative error at 40 Chebyshev nodes, in
//   40 digits, then rounded. The error is at most 2^-25.4, and mostly below
//   2^-28.
// Column 11: a + p[3] a^3 + p[5] a^5, interpolating at two nodes.
constexpr int kTanhColumns = 32;
alignas(64) constexpr float kTanhTable[7][kTanhColumns] = {
    // clang-format off
    {0x1.1fea62p+1f, 0x1.5fefc4p+1f, 0x1.9fea9ep+1f, 0x1.dff9f8p+1f,
     0x1.1fe926p+2f, 0x1.5fe8b8p+2f, 0x1.9feef4p+2f, 0x1.e0177p+2f,
     0x1.10577p+3f, 0, 0, 0, 0x1.1feae6p-4f, 0x1.5fe9a2p-4f, 0x1.9fead4p-4f,
     0x1.e000c2p-4f, 0x1.1fe8d8p-3f, 0x1.5feb62p-3f, 0x1.9fe99cp-3f,
     0x1.dfe95cp-3f, 0x1.1fe9fp-2f, 0x1.5fe958p-2f, 0x1.9fe89cp-2f,
     0x1.dfe934p-2f, 0x1.1fea7ep-1f, 0x1.5ff3b8p-1f, 0x1.9feb3cp-1f,
     0x1.dfeaa6p-1f, 0x1.1fe932p+0f, 0x1.5fe8d8p+0f, 0x1.9febaap+0f,
     0x1.dfe98p+0f},
    {0x1.f4bc14p-1f, 0x1.fbd3fcp-1f, 0x1.fe75f6p-1f, 0x1.ff6f0ap-1f,
     0x1.ffdf9p-1f, 0x1.fffb9cp-1f, 0x1.ffff68p-1f, 0x1.ffffecp-1f,
     0x1.fffffep-1f, 0, 0, 0, 0x1.1f71bep-4f, 0x1.5f0c9ep-4f, 0x1.9e7e62p-4f,
     0x1.ddd152p-4f, 0x1.1e071cp-3f, 0x1.5c7f02p-3f, 0x1.9a499ep-3f,
     0x1.d750ecp-3f, 0x1.188f32p-2f, 0x1.52ae98p-2f, 0x1.8a73f6p-2f,
     0x1.bf9bfap-2f, 0x1.04f884p-1f, 0x1.314ff6p-1f, 0x1.577d94p-1f,
     0x1.77ce6p-1f, 0x1.9e4cf8p-1f, 0x1.c26e2ep-1f, 0x1.d9c122p-1f,
     0x1.e87494p-1f},
    {0x1.64863cp-5f, 0x1.09ea86p-6f, 0x1.897264p-8f, 0x1.21c2fap-9f,
     0x1.0378e2p-11f, 0x1.190036p-14f, 0x1.300328p-17f, 0x1.47a8e2p-20f,
     0x1.5f2ecep-23f, 0, 0, 0x1.p+0f, 0x1.fd7a8p-1f, 0x1.fc3d38p-1f,
     0x1.fac1c6p-1f, 0x1.f90854p-1f, 0x1.f6036p-1f, 0x1.f12cb4p-1f,
     0x1.eb738p-1f, 0x1.e4e22ap-1f, 0x1.d990cep-1f, 0x1.c7fddp-1f,
     0x1.b406dcp-1f, 0x1.9e2bbep-1f, 0x1.7afb22p-1f, 0x1.49f03p-1f,
     0x1.198f2p-1f, 0x1.d851bcp-2f, 0x1.6182f6p-2f, 0x1.cef0eep-3f,
     0x1.26897ep-3f, 0x1.700d5ap-4f},
    {-0x1.5cab78p-5f, -0x1.07bbe4p-6f, -0x1.883cb6p-8f, -0x1.216b42p-9f,
     -0x1.031518p-11f, -0x1.18a4a2p-14f, -0x1.2fafccp-17f, -0x1.834b0ap-20f,
     -0x1.09975p-21f, 0, 0, 0, -0x1.1e07e8p-4f, -0x1.5c78eap-4f,
     -0x1.9a3f1ap-4f, -0x1.d74ff4p-4f, -0x1.1872e4p-3f, -0x1.5267dap-3f,
     -0x1.89d212p-3f, -0x1.be5adp-3f, -0x1.037f9ep-2f, -0x1.2da204p-2f,
     -0x1.4fec08p-2f, -0x1.6a154ep-2f, -0x1.8256e4p-2f, -0x1.897e32p-2f,
     -0x1.79c8e2p-2f, -0x1.5aae46p-2f, -0x1.1e0e8ep-2f, -0x1.9745fap-3f,
     -0x1.108958p-3f, -0x1.5f209ap-4f},
    {0x1.bc573ep-6f, 0x1.59eap-7f, 0x1.03ed16p-8f, 0x1.810bbcp-10f,
     0x1.59650ap-12f, 0x1.764a3cp-15f, 0x1.94f5b8p-18f, 0x1.aea4eep-21f,
     0x1.50b60cp-24f, 0, 0, -0x1.555542p-2f, -0x1.4ea5eap-2f, -0x1.4b5e3p-2f,
     -0x1.4772b6p-2f, -0x1.42ee1cp-2f, -0x1.3b17ap-2f, -0x1.2ea908p-2f,
     -0x1.202f3cp-2f, -0x1.0fe582p-2f, -0x1.e93954p-3f, -0x1.98761p-3f,
     -0x1.4291dep-3f, -0x1.d75c36p-4f, -0x1.bddfeap-5f, 0x1.d5f1d2p-7f,
     0x1.06f7dp-4f, 0x1.84172p-4f, 0x1.c689c2p-4f, 0x1.97f7e2p-4f,
     0x1.33fff4p-4f, 0x1.a8982ep-5f},
    {-0x1.964a42p-7f, -0x1.51ad3p-8f, -0x1.03936cp-9f, -0x1.83c566p-11f,
     -0x1.69b15ap-13f, -0x1.884d4ep-16f, -0x1.a7d8fp-19f, 0x1.38f2dp-22f,
     0x1.061e16p-20f, 0, 0, 0, 0x1.b35de6p-5f, 0x1.f62a58p-5f, 0x1.d5c67p-5f,
     0x1.0bbb66p-4f, 0x1.6bc98ep-4f, 0x1.b3145ap-4f, 0x1.eb22cep-4f,
     0x1.13821cp-3f, 0x1.32c688p-3f, 0x1.4fcfd8p-3f, 0x1.5c1096p-3f,
     0x1.57edc2p-3f, 0x1.39f452p-3f, 0x1.e95c7ep-4f, 0x1.476c14p-4f,
     0x1.63814p-5f, 0x1.e87e74p-9f, -0x1.59a58ap-6f, -0x1.9bbcccp-6f,
     -0x1.55bbd8p-6f},
    {0x1.04b012p-8f, 0x1.f5fe32p-10f, 0x1.93e81cp-11f, 0x1.32db06p-12f,
     0x1.1e5e18p-14f, 0x1.373982p-17f, 0x1.511ed8p-20f, 0x1.c5873p-23f,
     0x1.26913ap-23f, 0, 0, 0x1.1080e4p-3f, 0x1.346d7ap-2f, 0x1.d1ddc8p-3f,
     -0x1.da1006p-7f, -0x1.88001p-5f, 0x1.d55284p-4f, 0x1.c5551ep-4f,
     0x1.6326cap-4f, 0x1.57bc5p-4f, 0x1.e3a268p-5f, 0x1.03b546p-5f,
     0x1.8fdaa4p-8f, -0x1.1f4d6ap-6f, -0x1.63082ap-5f, -0x1.f81de4p-5f,
     -0x1.00caf4p-4f, -0x1.b2e738p-5f, -0x1.071f4p-5f, -0x1.38a838p-7f,
     0x1.6c26bp-10f, 0x1.2d802cp-8f},
    // clang-format on
};
constexpr float kTanhTableEnd = 9.015625f;     // tanh rounds to 1
constexpr float kTanhTableBegin = 0.0546875f;  // the smallest a of column 11

TF_RNN_OPS_VECTOR_INLINE Vector<float> TanhColumn(int row, __m512i column) {
  return _mm512_permutex2var_ps(_mm512_load_ps(kTanhTable[row]), column,
                                _mm512_load_ps(kTanhTable[row] + 16));
}

// tanh(x), within 1 unit in the last place.
TF_RNN_OPS_VECTOR_INLINE Vector<float> TanhFromTable(Vector<float> x) {
  constexpr int kFractionBits = 23 - 2;
  const Vector<float> a = AtMost<float>(Abs<float>(x), kTanhTableEnd);
  // Integer maximum, because a floating-point maximum would lose NaN.
  const __m512i column = _mm512_srli_epi32(
      _mm512_max_epi32(_mm512_castps_si512(a),
                       _mm512_castps_si512(_mm512_set1_ps(kTanhTableBegin))),
      kFractionBits);
  const Vector<float> t = a - TanhColumn(0, column);
  Vector<float> sum = TanhColumn(6, column);
#pragma GCC unroll 8
  for (int row = 5; row >= 1; --row) {
    sum = MultiplyAdd<float>(sum, t, TanhColumn(row, column));
  }
  return WithSign<float>(sum, x);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // defined(__AVX512F__)

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TANH_TABLE_H_
