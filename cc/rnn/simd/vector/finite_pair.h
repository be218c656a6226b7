// Floats in a form whose halves are finite numbers of both 16-bit types.
//
// A float whose bits are read as two 16-bit numbers may look like NaN or
// infinity: its lower half consists of the last bits of the fraction. In the
// form of ToFinitePair, bit 10, which is in the exponent of both types, is zero
// and its value is in bit 0. The last bit of the fraction is lost. The upper
// half of a float below 2^121 is always finite.
//
// As a float, this form differs from the original by less than 2^-12 of it, and
// floats that come from a 16-bit type have it already.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_FINITE_PAIR_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_FINITE_PAIR_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether the reserve_space of a type holds floats in this form.
template <typename T>
constexpr bool kKeepsFinitePairs = sizeof(T) == 2;

// The bit of the exponent that is cleared.
constexpr int kPairBit = 10;

TF_RNN_OPS_VECTOR_INLINE Vector<float> ToFinitePair(Vector<float> x) {
  const Bits<float> bits = ToBits<float>(x);
  constexpr std::uint32_t kReplaced = 1u << kPairBit | 1;
  return FromBits<float>((bits & ~kReplaced) | ((bits >> kPairBit) & 1));
}
TF_RNN_OPS_VECTOR_INLINE Vector<float> FromFinitePair(Vector<float> x) {
  const Bits<float> bits = ToBits<float>(x);
  return FromBits<float>((bits & ~1u) | ((bits & 1) << kPairBit));
}
// Not needed for a float64.
TF_RNN_OPS_VECTOR_INLINE Vector<double> ToFinitePair(Vector<double> x) {
  return x;
}
TF_RNN_OPS_VECTOR_INLINE Vector<double> FromFinitePair(Vector<double> x) {
  return x;
}

// Converts an array in place.
inline void ToFinitePairs(float* array, std::int64_t size, Executor& executor) {
  ForEachPiece(size, executor, [=](std::int64_t offset, std::int64_t length) {
    constexpr std::int64_t kStep = kVectorElements<float>;
    float* const piece = array + offset;
    std::int64_t i = 0;
    for (; i + kStep <= length; i += kStep) {
      Store<float>(ToFinitePair(Load<float>(piece + i)), piece + i);
    }
    StorePartial<float>(ToFinitePair(LoadPartial<float>(piece + i, length - i)),
                        piece + i, length - i);
  });
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_FINITE_PAIR_H_
