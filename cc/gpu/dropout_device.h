// Masks of dropout between layers, for host and device. Bitwise equal to those
// of the CPU engine (cc/rnn/simd/network/dropout.h).

#ifndef TF_RNN_OPS_CC_GPU_DROPOUT_DEVICE_H_
#define TF_RNN_OPS_CC_GPU_DROPOUT_DEVICE_H_

#include <cstdint>

#include "cc/rnn/random_stream.h"

namespace tf_rnn_ops::gpu {

// The 128 random bits of one counter value.
struct PhiloxWords {
  std::uint32_t words[4];
};

// The random bits for counter + offset.
inline PhiloxWords Philox(const rnn::RandomStream& stream,
                          std::uint64_t offset) {
  const std::uint64_t low = stream.counter_low + offset;
  const std::uint64_t high =
      stream.counter_high + (low < stream.counter_low ? 1 : 0);
  std::uint32_t c0 = static_cast<std::uint32_t>(low);
  std::uint32_t c1 = static_cast<std::uint32_t>(low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(high);
  std::uint32_t c3 = static_cast<std::uint32_t>(high >> 32);
  std::uint32_t key0 = static_cast<std::uint32_t>(stream.key);
  std::uint32_t key1 = static_cast<std::uint32_t>(stream.key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// Elements that are 0 with probability `rate` and 1 / (1 - rate) otherwise.
struct DropoutMask {
  rnn::RandomStream stream;
  std::int64_t first_counter;  // four elements per counter value
  std::uint64_t threshold;
  double scale;

  // The random bits of the group of four elements that contains `index`.
  PhiloxWords RandomBits(std::int64_t index) const {
    return Philox(stream, first_counter + index / 4);
  }
  bool Keeps(std::uint32_t word) const { return word >= threshold; }
};

inline DropoutMask MakeDropoutMask(float rate, const rnn::RandomStream& stream,
                                   std::int64_t first_counter) {
  return {stream, first_counter,
          // 2^32 if the rate is 1: larger than any word.
          static_cast<std::uint64_t>(static_cast<double>(rate) * 4294967296.0),
          rate == 1.0f ? 0 : 1.0 / (1.0 - static_cast<double>(rate))};
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DROPOUT_DEVICE_H_
