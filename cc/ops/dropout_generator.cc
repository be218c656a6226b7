#include "cc/ops/dropout_generator.h"

#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

namespace tf_rnn_ops {

Status DropoutGenerator::Init(const Attributes& attributes) {
  std::int64_t seed, seed2, name;
  TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("seed", &seed));
  TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("seed2", &seed2));
  rnn::RandomStream first = StreamOf(seed, seed2);
  if (seed == 0 && seed2 == 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        attributes.MakeSeeds(&first.key, &first.counter_high));
  }
  if (attributes.Has(kDropoutStream)) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get(kDropoutStream, &name));
    stream_ = FindStream(name, first);
  } else {
    stream_ = std::make_shared<Stream>(first);
  }
  return Status();
}

rnn::RandomStream DropoutGenerator::Reserve(std::int64_t num_samples) {
  rnn::RandomStream reserved = stream_->first;
  reserved.counter_low = stream_->num_reserved.fetch_add(
      static_cast<std::uint64_t>(num_samples), std::memory_order_relaxed);
  return reserved;
}

std::shared_ptr<DropoutGenerator::Stream> DropoutGenerator::FindStream(
    std::int64_t name, const rnn::RandomStream& first) {
  static auto& mutex = *new std::mutex;
  static auto& streams = *new std::map<std::int64_t, std::weak_ptr<Stream>>;
  const std::lock_guard<std::mutex> guard(mutex);
  for (auto each = streams.begin(); each != streams.end();) {
    each = each->second.expired() ? streams.erase(each) : std::next(each);
  }
  std::shared_ptr<Stream> stream = streams[name].lock();
  if (stream == nullptr) {
    streams[name] = stream = std::make_shared<Stream>(first);
  }
  return stream;
}

}  // namespace tf_rnn_ops
