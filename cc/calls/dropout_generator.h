// Random numbers of the dropout between layers.

#ifndef TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_
#define TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_

#include <cstdint>
#include <mutex>

#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"
#include "cc/rnn/random_stream.h"

namespace tf_rnn_ops {

// An op's stream of random numbers, which its calls share: that of TensorFlow's
// random ops for the same seeds. The same seeds give the same numbers on every
// device.
class DropoutGenerator {
 public:
  Status Init(const Attributes& attributes) {
    std::int64_t seed, seed2;
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("seed", &seed));
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("seed2", &seed2));
    next_ = {static_cast<std::uint64_t>(seed), 0,
             static_cast<std::uint64_t>(seed2)};
    if (seed != 0 || seed2 != 0) return Status();
    return attributes.MakeSeeds(&next_.key, &next_.counter_high);
  }

  // The place of the next `num_samples` values of the stream's counter, which
  // no other call is given.
  rnn::RandomStream Reserve(std::int64_t num_samples) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const rnn::RandomStream reserved = next_;
    const bool carries = __builtin_add_overflow(
        next_.counter_low, static_cast<std::uint64_t>(num_samples),
        &next_.counter_low);
    next_.counter_high += carries ? 1 : 0;
    return reserved;
  }

 private:
  std::mutex mutex_;
  rnn::RandomStream next_{};
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_
