#include "cc/ops/dropout_generator.h"

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
  bool is_new = true;
  if (attributes.Has(kDropoutStream)) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get(kDropoutStream, &name));
    stream_ = FindStream(name, &is_new);
  } else {
    stream_ = std::make_shared<Stream>();
  }
  const std::lock_guard<std::mutex> guard(stream_->mutex);
  if (is_new) stream_->next = first;
  return Status();
}

rnn::RandomStream DropoutGenerator::Reserve(std::int64_t num_samples) {
  const std::lock_guard<std::mutex> guard(stream_->mutex);
  rnn::RandomStream& next = stream_->next;
  const rnn::RandomStream reserved = next;
  const bool carries = __builtin_add_overflow(
      next.counter_low, static_cast<std::uint64_t>(num_samples),
      &next.counter_low);
  next.counter_high += carries ? 1 : 0;
  return reserved;
}

std::shared_ptr<DropoutGenerator::Stream> DropoutGenerator::FindStream(
    std::int64_t name, bool* is_new) {
  static auto& mutex = *new std::mutex;
  static auto& streams = *new std::map<std::int64_t, std::weak_ptr<Stream>>;
  const std::lock_guard<std::mutex> guard(mutex);
  for (auto each = streams.begin(); each != streams.end();) {
    each = each->second.expired() ? streams.erase(each) : std::next(each);
  }
  std::shared_ptr<Stream> stream = streams[name].lock();
  *is_new = stream == nullptr;
  if (*is_new) streams[name] = stream = std::make_shared<Stream>();
  return stream;
}

}  // namespace tf_rnn_ops
