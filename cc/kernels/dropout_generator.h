// Random numbers of the dropout between layers.

#ifndef TF_RNN_OPS_CC_KERNELS_DROPOUT_GENERATOR_H_
#define TF_RNN_OPS_CC_KERNELS_DROPOUT_GENERATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cc/rnn/random_stream.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/util/guarded_philox_random.h"

namespace tf_rnn_ops {

// A kernel's stream of random numbers, which its calls share. The same seeds
// give the same numbers on every device.
class DropoutGenerator {
 public:
  absl::Status Init(tensorflow::OpKernelConstruction* ctx) {
    return generator_.Init(ctx);
  }

  // The place of the next `num_samples` values of the stream's counter, which
  // no other call is given.
  rnn::RandomStream Reserve(std::int64_t num_samples) {
    const tensorflow::random::PhiloxRandom random =
        generator_.ReserveSamples128(num_samples);
    const auto& key = random.key();
    const auto& counter = random.counter();
    return {Join(key[0], key[1]), Join(counter[0], counter[1]),
            Join(counter[2], counter[3])};
  }

 private:
  static std::uint64_t Join(std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  }

  tensorflow::GuardedPhiloxRandom generator_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_DROPOUT_GENERATOR_H_
