// Conversion of arrays between storage types and compute types.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CONVERT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CONVERT_H_

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstdint>
#include <cstring>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// to[i] = from[i], for `size` elements. Rounds to nearest, ties to even, if the
// target type has fewer bits.
template <typename T>
void Convert(const T* from, T* to, std::int64_t size) {
  std::memcpy(to, from, size * sizeof(T));
}

template <typename T>
T Widened(T x) {
  return x;
}
inline float Widened(BFloat16 x) {
  return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
}

inline void Convert(const BFloat16* from, float* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] = Widened(from[i]);
}

inline void Convert(const float* from, BFloat16* to, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, from[i]);
    const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const std::uint32_t quiet = bits >> 16 | 0x40;  // NaN
    const bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
    to[i].bits = static_cast<std::uint16_t>(is_number ? rounded : quiet);
  }
}

inline float Widened(Half x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  // Infinities and NaN; normal numbers; subnormal numbers, which are normal
  // floats.
  const std::uint32_t bits =
      magnitude >= 0x7c00 ? magnitude << 13 | 0x7f800000
      : magnitude >= 0x0400
          ? (magnitude << 13) + (std::uint32_t{127 - 15} << 23)
          : __builtin_bit_cast(std::uint32_t,
                               static_cast<float>(magnitude) * 0x1p-24f);
  return __builtin_bit_cast(float, bits | sign);
}

// x, rounded to nearest, ties to even.
inline Half RoundedToHalf(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half;
  if (magnitude >= 0x47800000) {  // 2^16 and above
    const bool is_number = magnitude <= 0x7f800000;
    half = is_number ? 0x7c00 : 0x7e00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: subnormal
    // The last bits of the sum and the result have the same weight.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5f;
    half = __builtin_bit_cast(std::uint32_t, sum) -
           __builtin_bit_cast(std::uint32_t, 0.5f);
  } else {
    const std::uint32_t odd = magnitude >> 13 & 1;
    half = (magnitude - (std::uint32_t{127 - 15} << 23) + 0xfff + odd) >> 13;
  }
  return {static_cast<std::uint16_t>(half | (bits >> 16 & 0x8000))};
}

inline void Convert(const Half* from, float* to, std::int64_t size) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= size; i += 8) {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#elif defined(__aarch64__)
  for (; i + 4 <= size; i += 4) {
    const uint16x4_t halves = vld1_u16(&from[i].bits);
    vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(halves)));
  }
#endif
  for (; i < size; ++i) to[i] = Widened(from[i]);
}

inline void Convert(const float* from, Half* to, std::int64_t size) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= size; i += 8) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#elif defined(__aarch64__)
  for (; i + 4 <= size; i += 4) {
    const float16x4_t halves = vcvt_f16_f32(vld1q_f32(from + i));
    vst1_u16(&to[i].bits, vreinterpret_u16_f16(halves));
  }
#endif
  for (; i < size; ++i) to[i] = RoundedToHalf(from[i]);
}

// Number of elements that one task handles.
constexpr std::int64_t kPiece = 1 << 16;

// Calls body(offset, length) for pieces that cover [0, size).
template <typename Body>
void ForEachPiece(std::int64_t size, Executor& executor, const Body& body) {
  executor.ParallelFor((size + kPiece - 1) / kPiece, [&](std::int64_t i) {
    const std::int64_t offset = i * kPiece;
    body(offset, size - offset < kPiece ? size - offset : kPiece);
  });
}

template <typename T>
void FillZero(T* array, std::int64_t size, Executor& executor) {
  ForEachPiece(size, executor, [=](std::int64_t offset, std::int64_t length) {
    // All bits zero is 0 in every type.
    std::memset(static_cast<void*>(array + offset), 0, length * sizeof(T));
  });
}

// Convert, on multiple threads.
template <typename From, typename To>
void ParallelConvert(const From* from, To* to, std::int64_t size,
                     Executor& executor) {
  ForEachPiece(size, executor, [=](std::int64_t offset, std::int64_t length) {
    Convert(from + offset, to + offset, length);
  });
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CONVERT_H_
