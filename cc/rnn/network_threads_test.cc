#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

// ThreadSanitizer takes minutes, so it tests one type that is computed directly
// and one that is converted. Threads share the work in the same way for all.
#if defined(__SANITIZE_THREAD__)
using Types = testing::Types<float, BFloat16>;
constexpr int kRepetitions = 3;
#else
using Types = StorageTypes;
constexpr int kRepetitions = 10;
#endif

template <typename T>
class NetworkThreadsTest : public testing::Test {};
TYPED_TEST_SUITE(NetworkThreadsTest, Types);

TYPED_TEST(NetworkThreadsTest, SameBitsForAnyNumberOfThreads) {
  ForEachCase<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
    SerialExecutor serial;
    const PassResults expected = RunPasses(engine, serial);
    for (int num_threads : AllOrOneUnderSanitizers<int>({2, 5})) {
      Threads threads;
      PoolExecutor pool(threads.Schedule(), num_threads);
      ExpectEqual(RunPasses(engine, pool), expected);
    }
  });
}

// Networks whose steps are split into many tasks.
std::vector<Case> ManyTasksCases() {
  std::vector<Case> cases;
  const auto add = [&](const RnnConfig& config, const RnnSize& size) {
    cases.push_back(RandomCase(config, size));
    return cases.back();
  };
  for (std::int64_t num_proj : {0, 70}) {
    Case k = add({RnnMode::kLstm, false, 2, 2, 40, 130, num_proj}, {6, 40});
    for (int i = 0; i < 40; ++i) k.lengths.push_back(6 - i % 2);
    EXPECT_FALSE(IsWorthSorting(k.lengths.data(), k.config, k.size, true));
    cases.push_back(k);
    for (int i = 0; i < 40; ++i) k.lengths[i] = i % 7;
    EXPECT_TRUE(IsWorthSorting(k.lengths.data(), k.config, k.size, true));
    cases.push_back(k);
  }
  // Each thread has its own rows: more than one task of the cells takes, but
  // fewer than one of the projection takes.
  add({RnnMode::kLstm, false, 1, 1, 40, 260, 150}, {2, 400});
  // The weights of each direction do not fit in a cache, and its steps exceed
  // the maximum task time.
  add({RnnMode::kLstm, false, 1, 2, 40, 520, 0}, {2, 40});
  // Large outputs are written past the caches.
  add({RnnMode::kTanh, false, 2, 1, 3, 16, 0}, {260, 64});
  for (RnnMode mode : kModes) add({mode, false, 1, 1, 40, 260, 0}, {50, 1});
  for (std::int64_t batch : {1, 40}) {
    add({RnnMode::kGruResetBefore, false, 1, 1, 40, 260, 0, true}, {20, batch});
  }
  return cases;
}

// For few steps, weights are read in place.
std::vector<Case> FewStepsCases() {
  std::vector<Case> cases;
  for (RnnSize size : {RnnSize{4, 1}, RnnSize{2, 10}, RnnSize{1, 28}}) {
    for (RnnMode mode : kModes) {
      cases.push_back(RandomCase({mode, false, 1, 1, 40, 260, 0}, size));
    }
    cases.push_back(
        RandomCase({RnnMode::kLstm, false, 1, 1, 40, 260, 200}, size));
    cases.push_back(RandomCase(
        {RnnMode::kGruResetBefore, false, 1, 1, 40, 260, 0, true}, size));
  }
  return cases;
}

template <typename T>
void ExpectSameBitsOfLargeNetworks(std::vector<Case> cases) {
  for (Case& k : cases) {
    SCOPED_TRACE(Describe(k));
    Engine<T> engine(ActiveInstructionSet(), k);
    SerialExecutor serial;
    const PassResults expected = RunPasses(engine, serial);
    Threads threads;
    PoolExecutor pool(threads.Schedule(), 4);
    ExpectEqual(RunPasses(engine, pool), expected);
  }
}

TEST(NetworkManyTasksTest, SameBits) {
  ExpectSameBitsOfLargeNetworks<float>(ManyTasksCases());
  ExpectSameBitsOfLargeNetworks<float>(FewStepsCases());
  ExpectSameBitsOfLargeNetworks<BFloat16>(FewStepsCases());
}

// Helpers leave and return in the middle of every pass.
TEST(NetworkManyTasksTest, SameBitsWhenHelpersComeAndGo) {
  Threads threads;
  PoolUsers users;
  const IntermittentUsers others(users, 2, std::chrono::microseconds(50));
  for (std::int64_t batch : {1, 40}) {  // as steps, as sequences
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 40, 130, 0}, {50, batch});
    Engine<float> engine(ActiveInstructionSet(), k);
    SerialExecutor serial;
    const PassResults expected = RunPasses(engine, serial);
    for (int i = 0; i < kRepetitions; ++i) {
      PoolExecutor pool(threads.Schedule(), 2, {}, &users);
      ExpectEqual(RunPasses(engine, pool), expected);
    }
  }
}

// Runs all passes with executors that report cancellation after 0, 1, 3, 7, ...
// queries, until a pass finishes first.
void RunCancelledPasses(Engine<float>& engine, Threads& threads,
                        int num_threads) {
  bool is_cancelled = true;
  for (int limit = 0; is_cancelled; limit = 2 * limit + 1) {
    std::atomic<int> asked{0};
    const auto asked_enough = [&] { return asked.fetch_add(1) >= limit; };
    is_cancelled = false;
    for (const auto pass :
         {+[](Engine<float>& e, Executor& x) { e.Forward(true, x); },
          +[](Engine<float>& e, Executor& x) { e.Backward(x); },
          +[](Engine<float>& e, Executor& x) { e.BackwardGrad(x); }}) {
      asked = 0;
      PoolExecutor executor(threads.Schedule(), num_threads, asked_enough);
      pass(engine, executor);
      is_cancelled |= executor.is_cancelled();
    }
  }
}

// A cancelled pass stays within its memory, which sanitizers check, and does
// not hang.
TEST(NetworkCancelledTest, StaysInItsMemoryAndReturns) {
  std::vector<RnnConfig> configs = {
      {RnnMode::kGruResetBefore, false, 1, 1, 20, 40, 0, true}};
  for (RnnMode mode : kModes) {
    configs.push_back({mode, false, 2, 2, 20, 40, 0});
  }
  for (const RnnConfig& config : configs) {
    Case k = RandomCase(config, {6, 9});
    k.lengths = {6, 0, 3, 6, 1, 2, 6, 5, 4};
    Engine<float> engine(ActiveInstructionSet(), k);
    SerialExecutor serial;
    const PassResults expected = RunPasses(engine, serial);
    Threads threads;
    for (int num_threads : {1, 3}) {
      RunCancelledPasses(engine, threads, num_threads);
      ExpectEqual(RunPasses(engine, serial), expected);
    }
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
