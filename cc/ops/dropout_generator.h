// Random numbers of the dropout between layers.

#ifndef TF_RNN_OPS_CC_OPS_DROPOUT_GENERATOR_H_
#define TF_RNN_OPS_CC_OPS_DROPOUT_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "cc/ops/call_frame.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The beginning of the random number stream for two seeds. It equals that of
// TensorFlow's random ops, on every device. counter_low is 0.
inline rnn::RandomStream StreamOf(std::int64_t seed, std::int64_t seed2) {
  return {static_cast<std::uint64_t>(seed), 0,
          static_cast<std::uint64_t>(seed2)};
}

// The random number stream of an op, shared by its calls.
class DropoutGenerator {
 public:
  Status Init(const Attributes& attributes);

  // Reserves the next `num_samples` counter values of the stream for the caller
  // and returns their position.
  rnn::RandomStream Reserve(std::int64_t num_samples);

 private:
  struct Stream {
    explicit Stream(const rnn::RandomStream& first) : first(first) {}

    const rnn::RandomStream first;
    std::atomic<std::uint64_t> num_reserved{0};  // counter values
  };

  // Returns the stream of a name. It lives as long as a generator uses it.
  // first: its beginning, if no other generator uses it.
  static std::shared_ptr<Stream> FindStream(std::int64_t name,
                                            const rnn::RandomStream& first);

  std::shared_ptr<Stream> stream_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_DROPOUT_GENERATOR_H_
