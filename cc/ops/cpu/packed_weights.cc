#include "cc/ops/cpu/packed_weights.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops {
namespace {

// The packed weights that are in use.
struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<const PackedWeights>> weights;
  std::mutex mutex_of_users;

  void Lock() {
    mutex.lock();
    mutex_of_users.lock();
  }
  void Unlock() {
    mutex_of_users.unlock();
    mutex.unlock();
  }
};

// Never destroyed, since kernels may outlive static objects. A fork waits until
// no thread holds the mutexes: in the forked process, nobody would unlock them.
Registry& TheRegistry() {
  static Registry* const registry = [] {
    pthread_atfork([] { TheRegistry().Lock(); }, [] { TheRegistry().Unlock(); },
                   [] { TheRegistry().Unlock(); });
    return new Registry;
  }();
  return *registry;
}

}  // namespace

std::unique_ptr<PackedWeights> PackedWeights::Allocate(std::int64_t num_bytes) {
  constexpr std::size_t kAlignment = 64;
  std::unique_ptr<PackedWeights> weights(new PackedWeights(num_bytes));
  if (num_bytes < 0 ||
      posix_memalign(&weights->data_, kAlignment, num_bytes) != 0) {
    return nullptr;
  }
  // Padding must be equal, too.
  std::memset(weights->data_, 0, num_bytes);
  return weights;
}

PackedWeights::~PackedWeights() { std::free(data_); }

std::shared_ptr<const PackedWeights> PackedWeights::Share(
    std::unique_ptr<PackedWeights> weights) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  auto& all = registry.weights;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const auto& each) { return each.expired(); }),
            all.end());
  for (const auto& each : all) {
    auto other = each.lock();
    if (other != nullptr && other->num_bytes() == weights->num_bytes() &&
        std::memcmp(other->data(), weights->data(), weights->num_bytes()) ==
            0) {
      return other;
    }
  }
  std::shared_ptr<const PackedWeights> shared = std::move(weights);
  all.push_back(shared);
  return shared;
}

Status ReadFormat(const Attributes& attributes, rnn::WeightFormat* format) {
  std::string name;
  TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get(kConstantWeights, &name));
  constexpr auto kNames = rnn::WeightFormatNames();
  std::string list;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    *format = static_cast<rnn::WeightFormat>(i);
    if (name == kNames[i]) return Status();
    list += i == 0 ? "" : i + 1 < kNames.size() ? ", " : " or ";
    list += std::string("\"") + kNames[i] + "\"";
  }
  return InvalidArgument(kConstantWeights, " must be ", list, ", but is \"",
                         name, "\"");
}

std::mutex& PackedWeights::MutexOfUsers() {
  return TheRegistry().mutex_of_users;
}

// The bytes of all packed weights of this process.
extern "C" __attribute__((visibility("default"))) std::int64_t
TfRnnOps_PackedWeightsBytes() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::int64_t num_bytes = 0;
  for (const auto& each : registry.weights) {
    if (const auto weights = each.lock()) num_bytes += weights->num_bytes();
  }
  return num_bytes;
}

}  // namespace tf_rnn_ops
