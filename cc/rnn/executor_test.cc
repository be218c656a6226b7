#include "cc/rnn/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tf_rnn_ops::rnn {
namespace {

// Starts a thread for each closure, and joins them all when it goes.
class Threads {
 public:
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  PoolExecutor::Schedule Schedule() {
    return [this](std::function<void()> closure) {
      std::lock_guard<std::mutex> lock(mutex_);
      threads_.emplace_back(std::move(closure));
    };
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

void ExpectEachTaskOnce(Executor& executor, std::int64_t count) {
  std::vector<std::atomic<int>> calls(count);
  executor.ParallelFor(count, [&](std::int64_t i) { ++calls[i]; });
  for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i;
}

TEST(SerialExecutorTest, RunsEachTaskOnce) {
  SerialExecutor executor;
  for (std::int64_t count : {0, 1, 7}) ExpectEachTaskOnce(executor, count);
}

TEST(PoolExecutorTest, RunsEachTaskOnce) {
  Threads threads;
  for (int num_threads : {1, 2, 8}) {
    PoolExecutor executor(threads.Schedule(), num_threads);
    for (std::int64_t count : {0, 1, 2, 7, 100}) {
      ExpectEachTaskOnce(executor, count);
    }
  }
}

TEST(PoolExecutorTest, FinishesWithoutAnyPoolThread) {
  std::vector<std::function<void()>> never_started;
  PoolExecutor executor(
      [&](std::function<void()> closure) {
        never_started.push_back(std::move(closure));
      },
      4);
  ExpectEachTaskOnce(executor, 10);
  EXPECT_EQ(never_started.size(), 3u);
}

TEST(PoolExecutorTest, ClosuresStartedAfterTheCallDoNothing) {
  std::vector<std::function<void()>> late;
  std::atomic<int> calls{0};
  {
    PoolExecutor executor(
        [&](std::function<void()> closure) {
          late.push_back(std::move(closure));
        },
        4);
    executor.ParallelFor(10, [&](std::int64_t) { ++calls; });
  }
  for (auto& closure : late) closure();
  EXPECT_EQ(calls, 10);
}

TEST(PoolExecutorTest, SchedulesNoMoreHelpersThanTasks) {
  int scheduled = 0;
  PoolExecutor executor([&](std::function<void()>) { ++scheduled; }, 16);
  ExpectEachTaskOnce(executor, 3);
  EXPECT_EQ(scheduled, 2);
}

TEST(PoolExecutorTest, NestedCallsFinish) {
  Threads threads;
  PoolExecutor executor(threads.Schedule(), 4);
  std::atomic<int> calls{0};
  executor.ParallelFor(8, [&](std::int64_t) {
    executor.ParallelFor(8, [&](std::int64_t) { ++calls; });
  });
  EXPECT_EQ(calls, 64);
}

TEST(ExecutorTest, TasksFlushDenormalsAndTheCallerDoesNot) {
  volatile float smallest = std::numeric_limits<float>::min();
  Threads threads;
  PoolExecutor executor(threads.Schedule(), 2);
  std::atomic<int> flushed{0};
  executor.ParallelFor(50, [&](std::int64_t) {
    volatile float half = smallest * 0.5f;
    if (half == 0.0f) ++flushed;
  });
  volatile float half = smallest * 0.5f;
  EXPECT_EQ(flushed, 50);
  EXPECT_NE(half, 0.0f);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
