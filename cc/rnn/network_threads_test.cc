#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>

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

void ExpectEqual(const ForwardResult& actual, const ForwardResult& expected) {
  EXPECT_TRUE(actual.output == expected.output);
  EXPECT_TRUE(actual.output_h == expected.output_h);
  EXPECT_TRUE(actual.output_c == expected.output_c);
}

void ExpectEqual(const BackwardResult& actual, const BackwardResult& expected) {
  EXPECT_TRUE(actual.input == expected.input);
  EXPECT_TRUE(actual.input_h == expected.input_h);
  EXPECT_TRUE(actual.input_c == expected.input_c);
  EXPECT_TRUE(actual.params == expected.params);
}

void ExpectEqual(const BackwardGradResult& actual,
                 const BackwardGradResult& expected) {
  EXPECT_TRUE(actual.input == expected.input);
  EXPECT_TRUE(actual.input_h == expected.input_h);
  EXPECT_TRUE(actual.input_c == expected.input_c);
  EXPECT_TRUE(actual.params == expected.params);
  EXPECT_TRUE(actual.d_output == expected.d_output);
  EXPECT_TRUE(actual.d_output_h == expected.d_output_h);
  EXPECT_TRUE(actual.d_output_c == expected.d_output_c);
}

// The results of all passes of a network.
struct PassResults {
  ForwardResult forward;
  BackwardResult backward;
  BackwardGradResult backward_grad;
};

template <typename T>
PassResults RunPasses(Engine<T>& engine, Executor& executor) {
  PassResults results;
  results.forward = engine.Forward(/*is_training=*/true, executor);
  results.backward = engine.Backward(executor);
  results.backward_grad = engine.BackwardGrad(executor);
  return results;
}

void ExpectEqual(const PassResults& actual, const PassResults& expected) {
  ExpectEqual(actual.forward, expected.forward);
  ExpectEqual(actual.backward, expected.backward);
  ExpectEqual(actual.backward_grad, expected.backward_grad);
}

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

// For a step that is split into many tasks.
template <typename T = float>
void ExpectSameBitsOfALargeNetwork(Case k) {
  Engine<T> engine(ActiveInstructionSet(), k);
  SerialExecutor serial;
  const PassResults expected = RunPasses(engine, serial);
  Threads threads;
  PoolExecutor pool(threads.Schedule(), 4);
  ExpectEqual(RunPasses(engine, pool), expected);
}

TEST(NetworkManyTasksTest, SameBitsOfManySamples) {
  for (std::int64_t num_proj : {0, 70}) {
    Case k =
        RandomCase({RnnMode::kLstm, false, 2, 2, 40, 130, num_proj}, {6, 40});
    ExpectSameBitsOfALargeNetwork(k);
    for (int i = 0; i < 40; ++i) k.lengths.push_back(6 - i % 2);
    EXPECT_FALSE(IsWorthSorting(k.lengths.data(), k.config, k.size, true));
    ExpectSameBitsOfALargeNetwork(k);
    for (int i = 0; i < 40; ++i) k.lengths[i] = i % 7;
    EXPECT_TRUE(IsWorthSorting(k.lengths.data(), k.config, k.size, true));
    ExpectSameBitsOfALargeNetwork(k);
  }
}

// Each thread has its own rows: more than one task of the cells takes, but
// fewer than one of the projection takes.
TEST(NetworkManyTasksTest, SameBitsOfManyProjectedSamples) {
  ExpectSameBitsOfALargeNetwork(
      RandomCase({RnnMode::kLstm, false, 1, 1, 40, 260, 150}, {2, 400}));
}

// The weights of each direction do not fit in a cache, and its steps exceed the
// maximum task time.
TEST(NetworkManyTasksTest, SameBitsOfTwoLargeDirections) {
  ExpectSameBitsOfALargeNetwork(
      RandomCase({RnnMode::kLstm, false, 1, 2, 40, 520, 0}, {2, 40}));
}

// Large outputs are written past the caches.
TEST(NetworkManyTasksTest, SameBitsOfALargeOutput) {
  ExpectSameBitsOfALargeNetwork(
      RandomCase({RnnMode::kTanh, false, 2, 1, 3, 16, 0}, {260, 64}));
}

TEST(NetworkManyTasksTest, SameBitsOfOneSample) {
  for (RnnMode mode : kModes) {
    ExpectSameBitsOfALargeNetwork(
        RandomCase({mode, false, 1, 1, 40, 260, 0}, {50, 1}));
  }
}

// For few steps, weights are read in place.
TEST(NetworkManyTasksTest, SameBitsOfAFewSteps) {
  for (RnnMode mode : kModes) {
    for (RnnSize size : {RnnSize{4, 1}, RnnSize{2, 10}, RnnSize{1, 28}}) {
      Case k = RandomCase({mode, false, 1, 1, 40, 260, 0}, size);
      ExpectSameBitsOfALargeNetwork(k);
      ExpectSameBitsOfALargeNetwork<BFloat16>(k);
      if (mode != RnnMode::kLstm) continue;
      k = RandomCase({mode, false, 1, 1, 40, 260, 200}, size);
      ExpectSameBitsOfALargeNetwork(k);
      ExpectSameBitsOfALargeNetwork<BFloat16>(k);
    }
  }
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
  for (RnnMode mode : kModes) {
    Case k = RandomCase({mode, false, 2, 2, 20, 40, 0}, {6, 9});
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
