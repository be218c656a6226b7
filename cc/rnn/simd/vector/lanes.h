// Consecutive elements of an array: a full vector, or fewer at the end of a
// row.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_LANES_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_LANES_H_

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Stores the first `count` lanes, rounded to nearest, ties to even.
template <typename V>
TF_RNN_OPS_VECTOR_INLINE void StoreRounded(V x, std::int64_t count,
                                           BFloat16* to) {
#if defined(__AVX512BF16__)
  const __m256bh rounded = _mm512_cvtneps_pbh((__m512)x);
  _mm256_mask_storeu_epi16(to, (std::uint32_t{1} << count) - 1,
                           (__m256i)rounded);
#else
  Convert(reinterpret_cast<const float*>(&x), to, count);
#endif
}

// Consecutive units of one sample that fill a vector.
template <typename T>
struct WholeVector {
  static constexpr std::int64_t count = kVectorElements<T>;

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Read(const T* from) const {
    return Load<T>(from);
  }
  TF_RNN_OPS_VECTOR_INLINE void Write(Vector<T> x, T* to) const {
    Store<T>(x, to);
  }
  TF_RNN_OPS_VECTOR_INLINE void WriteUncached(Vector<T> x, T* to) const {
    StoreUncached<T>(x, to);
  }
  // Rounded to nearest, ties to even.
  TF_RNN_OPS_VECTOR_INLINE void Write(Vector<T> x, BFloat16* to) const {
    StoreRounded(x, kVectorElements<T>, to);
  }
};

// A partly filled vector, at the end of a row. It uses the same vector code, so
// the bits of an element do not depend on its position in a row.
template <typename T>
struct PartialVector {
  std::int64_t count;

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Read(const T* from) const {
    return LoadPartial<T>(from, count);
  }
  TF_RNN_OPS_VECTOR_INLINE void Write(Vector<T> x, T* to) const {
    StorePartial<T>(x, to, count);
  }
  TF_RNN_OPS_VECTOR_INLINE void WriteUncached(Vector<T> x, T* to) const {
    Write(x, to);
  }
  TF_RNN_OPS_VECTOR_INLINE void Write(Vector<T> x, BFloat16* to) const {
    StoreRounded(x, count, to);
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_LANES_H_
