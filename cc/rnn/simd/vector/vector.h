// Vectors that fill one register, as GCC vector extensions: operators act on
// each lane, a scalar operand is broadcast, and a comparison gives a mask.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_H_

#if defined(TF_RNN_OPS_DEVICE_CODE)
#include "cc/rnn/simd/vector/scalar.h"
#else

#include <cassert>
#include <cstdint>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Forced inlining keeps vectors in registers across functions. It also keeps
// prefetches: GCC considers a function that only prefetches to have no effect,
// and removes calls of it.
#define TF_RNN_OPS_VECTOR_INLINE inline __attribute__((always_inline))

#if defined(__AVX512F__)
constexpr std::int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::int64_t kVectorBytes = 32;
#else
constexpr std::int64_t kVectorBytes = 16;
#endif

template <typename T>
constexpr std::int64_t kVectorElements = kVectorBytes / sizeof(T);

// Signed integers as wide as T.
template <typename T>
using SignedOf = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
template <typename T>
using UnsignedOf =
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes), aligned(alignof(T)),
                                may_alias));
};

// kVectorElements<T> elements, with any alignment in memory.
template <typename T>
using Vector = typename VectorOf<T>::Type;
// The result of a comparison: all bits of a lane set, or none.
template <typename T>
using Mask = typename VectorOf<SignedOf<T>>::Type;
// The bit representation of each element.
template <typename T>
using Bits = typename VectorOf<UnsignedOf<T>>::Type;

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Bits<T> ToBits(Vector<T> x) {
  return (Bits<T>)x;
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> FromBits(Bits<T> bits) {
  return (Vector<T>)bits;
}

// x in every lane. GCC compiles the subtraction of zero to one instruction.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Broadcast(T x) {
  return x - Vector<T>{};
}

// Whether MultiplyAdd and SubtractProduct round once. They then use fused
// multiply-add instructions explicitly; the compiler itself fuses nothing
// (copts.bzl).
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__)) || \
    defined(__aarch64__)
constexpr bool kFusedMultiplyAdd = true;
#else
constexpr bool kFusedMultiplyAdd = false;
#endif

// a * b + c
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> MultiplyAdd(Vector<T> a, Vector<T> b,
                                               Vector<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_fmadd_ps(a, b, c);
  } else {
    return _mm512_fmadd_pd(a, b, c);
  }
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_fmadd_ps(a, b, c);
  } else {
    return _mm256_fmadd_pd(a, b, c);
  }
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) {
    return vfmaq_f32(c, a, b);
  } else {
    return vfmaq_f64(c, a, b);
  }
#else
  return a * b + c;
#endif
}

// c - a * b
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> SubtractProduct(Vector<T> c, Vector<T> a,
                                                   Vector<T> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_fnmadd_ps(a, b, c);
  } else {
    return _mm512_fnmadd_pd(a, b, c);
  }
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_fnmadd_ps(a, b, c);
  } else {
    return _mm256_fnmadd_pd(a, b, c);
  }
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) {
    return vfmsq_f32(c, a, b);
  } else {
    return vfmsq_f64(c, a, b);
  }
#else
  return c - a * b;
#endif
}

// a * b + c * d
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> SumOfProducts(Vector<T> a, Vector<T> b,
                                                 Vector<T> c, Vector<T> d) {
  return MultiplyAdd<T>(a, b, c * d);
}

// `a` in the lanes that the mask selects, `b` in the others.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Select(Mask<T> mask, Vector<T> a,
                                          Vector<T> b) {
  return mask ? a : b;
}

// The minimum of x and limit; NaN if x is NaN.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> AtMost(Vector<T> x, T limit) {
  const Vector<T> limits = Broadcast(limit);
  // A selection would compile to two instructions in GCC.
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_min_ps(limits, x);
  } else {
    return _mm512_min_pd(limits, x);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_min_ps(limits, x);
  } else {
    return _mm256_min_pd(limits, x);
  }
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) {
    return _mm_min_ps(limits, x);
  } else {
    return _mm_min_pd(limits, x);
  }
#else
  return Select<T>(limits < x, limits, x);
#endif
}

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Bits<T> SignBit() {
  return Bits<T>{} + (UnsignedOf<T>{1} << (8 * sizeof(T) - 1));
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Abs(Vector<T> x) {
  return FromBits<T>(ToBits<T>(x) & ~SignBit<T>());
}
// The magnitude x, which must not be negative, with the sign of `sign`.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> WithSign(Vector<T> x, Vector<T> sign) {
  return FromBits<T>(ToBits<T>(x) | (ToBits<T>(sign) & SignBit<T>()));
}

template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> Load(const T* from) {
  return *reinterpret_cast<const Vector<T>*>(from);
}
template <typename T>
TF_RNN_OPS_VECTOR_INLINE void Store(Vector<T> x, T* to) {
  *reinterpret_cast<Vector<T>*>(to) = x;
}

// Whether a vector fills a cache line, as StoreUncached requires to be useful.
constexpr bool kVectorIsLine = kVectorBytes == 64;

// Stores past the caches: does not fetch the cache line or evict another one.
// to: aligned to kVectorBytes. Visible to other threads after FinishUncached.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE void StoreUncached(Vector<T> x, T* to) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_stream_ps(to, x);
  } else {
    _mm512_stream_pd(to, x);
  }
#else
  Store<T>(x, to);
#endif
}
inline void FinishUncached() {
#if defined(__AVX512F__)
  _mm_sfence();
#endif
}

// A mask of the first `count` lanes.
#if defined(__AVX512F__)
TF_RNN_OPS_VECTOR_INLINE std::uint16_t FirstLanes(std::int64_t count) {
  return static_cast<std::uint16_t>((1u << count) - 1);
}
#elif defined(__AVX2__)
template <typename T>
TF_RNN_OPS_VECTOR_INLINE __m256i FirstLanes(std::int64_t count) {
  if constexpr (sizeof(T) == 4) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  } else {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count),
                              _mm256_setr_epi64x(0, 1, 2, 3));
  }
}
#endif

// Loads `count` <= kVectorElements<T> elements, and zeros in the other lanes.
// Reads no other memory.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE Vector<T> LoadPartial(const T* from,
                                               std::int64_t count) {
  assert(count >= 0 && count <= kVectorElements<T>);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_ps(FirstLanes(count), from);
  } else {
    return _mm512_maskz_loadu_pd(FirstLanes(count), from);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_maskload_ps(from, FirstLanes<T>(count));
  } else {
    return _mm256_maskload_pd(from, FirstLanes<T>(count));
  }
#else
  T elements[kVectorElements<T>] = {};
  for (std::int64_t i = 0; i < count; ++i) elements[i] = from[i];
  return Load(elements);
#endif
}

// Stores the first `count` <= kVectorElements<T> lanes. Writes no other memory.
template <typename T>
TF_RNN_OPS_VECTOR_INLINE void StorePartial(Vector<T> x, T* to,
                                           std::int64_t count) {
  assert(count >= 0 && count <= kVectorElements<T>);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(to, FirstLanes(count), x);
  } else {
    _mm512_mask_storeu_pd(to, FirstLanes(count), x);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    _mm256_maskstore_ps(to, FirstLanes<T>(count), x);
  } else {
    _mm256_maskstore_pd(to, FirstLanes<T>(count), x);
  }
#else
  T elements[kVectorElements<T>];
  Store(x, elements);
  for (std::int64_t i = 0; i < count; ++i) to[i] = elements[i];
#endif
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_DEVICE_CODE

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_H_
