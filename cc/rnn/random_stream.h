// A position in a counter-based random stream.

#ifndef TF_RNN_OPS_CC_RNN_RANDOM_STREAM_H_
#define TF_RNN_OPS_CC_RNN_RANDOM_STREAM_H_

#include <cstdint>

namespace tf_rnn_ops::rnn {

// The state of Philox4x32-10 (Salmon et al., 2011, "Parallel random numbers: as
// easy as 1, 2, 3"), as TensorFlow's random ops use it: each value of the
// 128-bit counter gives 128 random bits.
struct RandomStream {
  std::uint64_t key;
  std::uint64_t counter_low;
  std::uint64_t counter_high;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_RANDOM_STREAM_H_
