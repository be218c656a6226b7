// Dropout with masks drawn from a counter-based random stream.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_DROPOUT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_DROPOUT_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/vector/convert.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Number of counters whose random bits are computed together, in vectors.
constexpr int kPhiloxLanes = 16;

// Number of random words of these counters.
constexpr int kPhiloxWords = 4 * kPhiloxLanes;

// words: [kPhiloxLanes, 4]. Row i holds the 128 random bits of the counter
// value counter + offset + i.
inline void Philox(const RandomStream& stream, std::uint64_t offset,
                   std::uint32_t words[kPhiloxWords]) {
  std::uint32_t c0[kPhiloxLanes], c1[kPhiloxLanes];
  std::uint32_t c2[kPhiloxLanes], c3[kPhiloxLanes];
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const std::uint64_t low = stream.counter_low + (offset + i);
    const std::uint64_t high =
        stream.counter_high + (low < stream.counter_low ? 1 : 0);
    c0[i] = static_cast<std::uint32_t>(low);
    c1[i] = static_cast<std::uint32_t>(low >> 32);
    c2[i] = static_cast<std::uint32_t>(high);
    c3[i] = static_cast<std::uint32_t>(high >> 32);
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(stream.key);
  std::uint32_t key1 = static_cast<std::uint32_t>(stream.key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kPhiloxLanes; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53} * c0[i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(product1);
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int i = 0; i < kPhiloxLanes; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

// Elements that are 0 with probability `rate` and 1 / (1 - rate) otherwise.
// They depend only on the stream, `first_counter` and their index.
class DropoutMask {
 public:
  DropoutMask(float rate, const RandomStream& stream,
              std::int64_t first_counter)
      : stream_(stream),
        first_counter_(first_counter),
        // 2^32 for a rate of 1, which is more than any word.
        threshold_(static_cast<std::uint64_t>(static_cast<double>(rate) *
                                              4294967296.0)),
        scale_(rate == 1.0f ? 0 : 1.0 / (1.0 - double{rate})) {}

  // to[i] = from[i] * mask[first + i], for `size` elements. `from` and `to` may
  // be the same array.
  template <typename T>
  void Apply(const T* from, T* to, std::int64_t first,
             std::int64_t size) const {
    const T scale = static_cast<T>(scale_);
    std::int64_t done = 0;
    while (done < size) {
      const std::int64_t skipped = (first + done) % kPhiloxWords;
      const std::int64_t left = size - done;
      const std::int64_t count =
          left < kPhiloxWords - skipped ? left : kPhiloxWords - skipped;
      std::uint32_t words[kPhiloxWords];
      Philox(stream_, first_counter_ + (first + done - skipped) / 4, words);
      const std::uint32_t* const mask = words + skipped;
      for (std::int64_t i = 0; i < count; ++i) {
        to[done + i] = mask[i] >= threshold_ ? from[done + i] * scale : T(0);
      }
      done += count;
    }
  }

 private:
  RandomStream stream_;
  std::int64_t first_counter_;
  std::uint64_t threshold_;
  double scale_;
};

// The masks of all layers above the first: NetworkKernels::dropout_masks.
template <typename T>
void DropoutMasks(const RnnConfig& config, const RnnSize& size, float dropout,
                  const RandomStream& stream, T* masks, Executor& executor) {
  const std::int64_t layer_size = LayerOutputSize(config, size).value();
  if (layer_size == 0) return;  // with any number of layers
  const std::int64_t layer_samples = NumLayerDropoutSamples(config, size);
  for (std::int64_t i = 0; i < config.num_layers - 1; ++i) {
    const DropoutMask mask(dropout, stream, i * layer_samples);
    ForEachPiece(layer_size, executor,
                 [&](std::int64_t offset, std::int64_t length) {
                   T* const piece = masks + i * layer_size + offset;
                   std::fill_n(piece, length, T(1));
                   mask.Apply(piece, piece, offset, length);
                 });
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_DROPOUT_H_
