// The 16-bit floating-point storage types. The engine computes in float32,
// except in products that the CPU supports natively.

#ifndef TF_RNN_OPS_CC_RNN_FLOAT16_H_
#define TF_RNN_OPS_CC_RNN_FLOAT16_H_

#include <cstdint>

namespace tf_rnn_ops::rnn {

// IEEE 754 binary16: 1 sign bit, 5 exponent bits, 10 fraction bits.
struct Half {
  std::uint16_t bits;
};

// The upper half of a float32: 1 sign bit, 8 exponent bits, 7 fraction bits.
struct BFloat16 {
  std::uint16_t bits;
};

// The type that the engine computes in for values stored as T.
template <typename T>
struct ComputeTypeOf {
  using Type = T;
};
template <>
struct ComputeTypeOf<Half> {
  using Type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using Type = float;
};
template <typename T>
using ComputeType = typename ComputeTypeOf<T>::Type;

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_FLOAT16_H_
