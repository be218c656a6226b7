// Conversion between the 16-bit floating-point types and float32, on the CPU
// and the GPU. Uses no processor-specific instruction, so the results are the
// same everywhere, whether or not denormals are flushed to zero.

#ifndef TF_RNN_OPS_CC_RNN_FLOAT16_CONVERSION_H_
#define TF_RNN_OPS_CC_RNN_FLOAT16_CONVERSION_H_

#if !defined(__CUDACC_RTC__)  // NVRTC has memcpy built in
#include <string.h>
#endif

#include <cstdint>

#include "cc/rnn/float16.h"

namespace tf_rnn_ops::rnn {

inline float FloatFromBits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline std::uint32_t BitsFromFloat(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Of float32.
constexpr std::uint32_t kInfinityBits = 0x7f800000;
constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;

inline float ToFloat(BFloat16 value) {
  return FloatFromBits(std::uint32_t{value.bits} << 16);
}

inline float ToFloat(Half value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude < 1u << 10) {  // zero or denormal: a multiple of 2^-24
    const float multiple = static_cast<float>(magnitude) * 0x1p-24f;
    return FloatFromBits(sign | BitsFromFloat(multiple));
  }
  const bool is_finite = magnitude < 0x7c00u;
  // The exponents' biases differ by 112.
  const std::uint32_t exponent = (is_finite ? 112u : 224u) << 23;
  return FloatFromBits(sign | ((magnitude << 13) + exponent));
}

// Drops the lowest `count` bits, rounded to nearest, ties to even.
inline std::uint32_t RoundedShift(std::uint32_t bits, int count) {
  const std::uint32_t half = 1u << (count - 1);
  return (bits + half - 1 + ((bits >> count) & 1)) >> count;
}

inline BFloat16 ToBFloat16(float value) {
  const std::uint32_t bits = BitsFromFloat(value);
  const bool is_nan = (bits & kMagnitudeMask) > kInfinityBits;
  return {static_cast<std::uint16_t>(is_nan ? bits >> 16 | 0x40
                                            : RoundedShift(bits, 16))};
}

inline std::uint32_t HalfMagnitude(std::uint32_t float_magnitude) {
  constexpr std::uint32_t kOneHalf = 126u << 23;
  if (float_magnitude > kInfinityBits) return 0x7e00;
  if (float_magnitude >= 143u << 23) return 0x7c00;  // 2^16 and above
  if (float_magnitude < 113u << 23) {                // denormal: below 2^-14
    // The lowest bit of a float32 in [0.5, 1) is 2^-24, as for a denormal half.
    return BitsFromFloat(FloatFromBits(float_magnitude) + 0.5f) - kOneHalf;
  }
  return RoundedShift(float_magnitude - (112u << 23), 13);
}

inline Half ToHalf(float value) {
  const std::uint32_t bits = BitsFromFloat(value);
  return {static_cast<std::uint16_t>((bits >> 16 & 0x8000) |
                                     HalfMagnitude(bits & kMagnitudeMask))};
}

// Conversion between storage type and compute type.

inline float ToCompute(Half value) { return ToFloat(value); }
inline float ToCompute(BFloat16 value) { return ToFloat(value); }
inline float ToCompute(float value) { return value; }
inline double ToCompute(double value) { return value; }

inline void Round(float value, Half* result) { *result = ToHalf(value); }
inline void Round(float value, BFloat16* result) {
  *result = ToBFloat16(value);
}
inline void Round(float value, float* result) { *result = value; }
inline void Round(double value, double* result) { *result = value; }

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_FLOAT16_CONVERSION_H_
