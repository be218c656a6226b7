// Transposes a square block of vectors.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TRANSPOSE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TRANSPOSE_H_

#include <cstddef>
#include <utility>

#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// One exchange step of Transpose, for blocks of `kWidth` lanes.
template <typename T, int kWidth, std::size_t... lane>
TF_RNN_OPS_VECTOR_INLINE void Exchange(Vector<T>& a, Vector<T>& b,
                                       std::index_sequence<lane...>) {
  constexpr int kLanes = sizeof...(lane);
  const Vector<T> first = __builtin_shufflevector(
      a, b, ((lane & kWidth) == 0 ? lane : kLanes + lane - kWidth)...);
  b = __builtin_shufflevector(
      a, b, ((lane & kWidth) == 0 ? lane + kWidth : kLanes + lane)...);
  a = first;
}

// Transposes as many vectors as each has lanes. Exchanges blocks of half as
// many lanes, then of a quarter, and so on.
template <typename T, int kWidth = kVectorElements<T> / 2>
TF_RNN_OPS_VECTOR_INLINE void Transpose(Vector<T>* rows) {
  if constexpr (kWidth > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectorElements<T>; ++i) {
      if ((i & kWidth) == 0) {
        Exchange<T, kWidth>(rows[i], rows[i + kWidth],
                            std::make_index_sequence<kVectorElements<T>>());
      }
    }
    Transpose<T, kWidth / 2>(rows);
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_TRANSPOSE_H_
