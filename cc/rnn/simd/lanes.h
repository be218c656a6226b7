// Element-wise mathematics on runs of neighbouring elements, one vector long.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LANES_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LANES_H_

#include <cstdint>

#include "cc/rnn/simd/eigen.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// As many elements as fill the widest vector. Every element, those at a row's
// end included, goes through the same vector code: its bits do not depend on
// its place in a row or on the row's place in memory.
template <typename T>
constexpr std::int64_t kLanes = 64 / sizeof(T);
template <typename T>
using Lanes = Eigen::Array<T, kLanes<T>, 1>;

// So that lanes stay in registers from one function to the next.
#define TF_RNN_OPS_INLINE inline __attribute__((always_inline))

// The `count` <= kLanes<T> elements from `from`; zero in the remaining lanes.
template <typename T>
TF_RNN_OPS_INLINE Lanes<T> Load(const T* from, std::int64_t count) {
  Lanes<T> lanes;
  if (count == kLanes<T>) {
    lanes = Eigen::Map<const Lanes<T>>(from);
  } else {
    lanes.setZero();
    for (std::int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  }
  return lanes;
}

// The first `count` <= kLanes<T> lanes, to `to`.
template <typename T>
TF_RNN_OPS_INLINE void Store(const Lanes<T>& lanes, T* to, std::int64_t count) {
  if (count == kLanes<T>) {
    Eigen::Map<Lanes<T>>{to} = lanes;
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = lanes[i];
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LANES_H_
