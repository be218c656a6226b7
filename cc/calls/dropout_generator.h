// Random numbers of the dropout between layers.

#ifndef TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_
#define TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_

#include <cstdint>
#include <memory>
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
  Status Init(const Attributes& attributes);

  // The place of the next `num_samples` values of the stream's counter, which
  // no other call is given.
  rnn::RandomStream Reserve(std::int64_t num_samples);

 private:
  struct Stream {
    std::mutex mutex;
    rnn::RandomStream next{};
  };

  // The stream of a name, which lives as long as a generator has it.
  // is_new: whether nobody had it.
  static std::shared_ptr<Stream> FindStream(std::int64_t name, bool* is_new);

  std::shared_ptr<Stream> stream_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_DROPOUT_GENERATOR_H_
