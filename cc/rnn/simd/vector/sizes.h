// Integer arithmetic for sizes.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SIZES_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SIZES_H_

#include <cstdint>

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Does not overflow for any size.
constexpr std::int64_t CeilDiv(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0);
}
constexpr std::int64_t Min(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr std::int64_t Max(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SIZES_H_
