#include "cc/rnn/executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

void ExpectEachTaskOnce(Executor& executor, std::int64_t count) {
  std::vector<std::atomic<int>> calls(count);
  executor.ParallelFor(count, [&](std::int64_t i) { ++calls[i]; });
  for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(calls[i], 1) << i;
}

// Each task of a step must see that all tasks of the previous step have run.
void ExpectStepsInOrder(Executor& executor, std::int64_t num_steps,
                        std::int64_t tasks_per_step) {
  std::vector<std::int64_t> steps_done(tasks_per_step);  // exposes races
  std::atomic<int> errors{0};
  const auto step_task = [&](std::int64_t step, std::int64_t task, int worker) {
    if (worker < 0 || worker >= executor.num_threads()) ++errors;
    if (steps_done[task] != step) ++errors;
    ++steps_done[task];
  };
  // Odd steps read what other tasks wrote in even steps.
  executor.ParallelSteps(2 * num_steps, tasks_per_step,
                         [&](std::int64_t step, std::int64_t task, int worker) {
                           if (step % 2 == 0) {
                             step_task(step / 2, task, worker);
                             return;
                           }
                           for (std::int64_t done : steps_done) {
                             if (done != step / 2 + 1) ++errors;
                           }
                         });
  EXPECT_EQ(errors, 0);
  for (std::int64_t done : steps_done) EXPECT_EQ(done, num_steps);
}

// Each task must see what the task with the same number did in earlier steps.
void ExpectSequencesInOrder(Executor& executor, std::int64_t num_steps,
                            std::int64_t num_sequences) {
  std::vector<std::int64_t> steps_done(num_sequences);  // exposes races
  std::atomic<int> errors{0};
  executor.ParallelSequences(
      num_steps, num_sequences,
      [&](std::int64_t step, std::int64_t sequence, int worker) {
        if (worker < 0 || worker >= executor.num_threads()) ++errors;
        if (steps_done[sequence]++ != step) ++errors;
      });
  EXPECT_EQ(errors, 0);
  for (std::int64_t done : steps_done) EXPECT_EQ(done, num_steps);
}

void Work(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

void ExpectAllInOrder(Executor& executor, std::int64_t num_steps,
                      std::int64_t tasks) {
  ExpectEachTaskOnce(executor, tasks);
  ExpectStepsInOrder(executor, num_steps, tasks);
  ExpectSequencesInOrder(executor, num_steps, tasks);
}

TEST(SerialExecutorTest, RunsStepsInOrder) {
  SerialExecutor executor;
  ExpectAllInOrder(executor, 3, 4);
  ExpectAllInOrder(executor, 0, 4);
  ExpectAllInOrder(executor, 3, 0);
}

TEST(PoolExecutorTest, SharesSmallWorkIfThePoolWasJustUsed) {
  const auto schedule = [](const std::function<void()>&) {};
  const auto shares = [&](PoolUsers* users, double microseconds) {
    return PoolExecutor(schedule, 2, {}, users).IsWorthSharing(microseconds);
  };
  EXPECT_FALSE(shares(nullptr, kMinWakeMicros - 1));
  EXPECT_TRUE(shares(nullptr, kMinWakeMicros));
  PoolUsers users;
  EXPECT_FALSE(shares(&users, kMinWakeMicros - 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(shares(&users, kMinWakeMicros));
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(shares(&users, kMinWakeMicros - 1));
  // Each call follows soon after the previous one, unless the test is
  // interrupted.
  bool shared = false;
  for (int i = 0; i < 1000 && !shared; ++i) {
    shared = shares(&users, kMinSharedMicros);
    EXPECT_FALSE(shares(&users, kMinSharedMicros - 1));
  }
  EXPECT_TRUE(shared);
}

TEST(PoolExecutorTest, RunsStepsInOrder) {
  Threads threads;
  for (int num_threads : {1, 2, 5}) {
    PoolExecutor executor(threads.Schedule(), num_threads);
    for (std::int64_t tasks : {0, 1, 2, 3, 9}) {
      ExpectAllInOrder(executor, 200, tasks);
    }
    ExpectEachTaskOnce(executor, 100);
  }
}

// The closures that the pool starts after the call do nothing.
TEST(PoolExecutorTest, RunsStepsWithoutAnyPoolThread) {
  std::vector<std::function<void()>> late;
  {
    PoolExecutor executor(
        [&](std::function<void()> closure) {
          late.push_back(std::move(closure));
        },
        4);
    ExpectAllInOrder(executor, 5, 8);
  }
  EXPECT_EQ(late.size(), 3u);
  for (auto& closure : late) closure();
}

TEST(PoolExecutorTest, RunsOnTheCallingThreadIfNoOtherIsAllowed) {
  for (int num_threads : {0, -1}) {
    PoolExecutor executor(
        [](const std::function<void()>&) { FAIL() << "uses the pool"; },
        num_threads);
    EXPECT_EQ(executor.num_threads(), 1);
    ExpectEachTaskOnce(executor, 5);
    ExpectStepsInOrder(executor, 3, 4);
  }
}

TEST(PoolExecutorTest, TasksOfOneWorkerDoNotOverlap) {
  Threads threads;
  PoolExecutor executor(threads.Schedule(), 4);
  std::vector<std::atomic<int>> running(executor.num_threads());
  std::atomic<int> errors{0};
  executor.ParallelFor(200, [&](std::int64_t, int worker) {
    if (++running[worker] != 1) ++errors;
    std::this_thread::yield();
    --running[worker];
  });
  EXPECT_EQ(errors, 0);
}

// Like Eigen's pool when a thousand closures are queued for each thread.
TEST(PoolExecutorTest, FinishesIfThePoolRunsClosuresAtOnce) {
  PoolExecutor executor([](const std::function<void()>& closure) { closure(); },
                        4);
  ExpectAllInOrder(executor, 3, 4);
}

// The only thread of a pool works for an executor when other work is scheduled.
// The other work must run long before the executor has finished.
template <typename Run>
void ExpectThePoolRunsOtherWork(const Run& run) {
  Threads threads(1);
  const auto schedule = threads.Schedule();
  PoolExecutor executor(schedule, 2);
  std::atomic<bool> has_helped{false}, was_handed_over{false}, has_run{false};
  std::atomic<int> helped_after{0};
  run(executor, [&](std::int64_t, std::int64_t, int worker) {
    if (has_run && helped_after > 0) return;  // nothing left to show
    Work(std::chrono::microseconds(200));
    if (worker == 1) {
      has_helped = true;
      if (has_run) ++helped_after;
    } else if (has_helped && !was_handed_over.exchange(true)) {
      schedule([&] { has_run = true; });
    }
  });
  EXPECT_TRUE(has_run);
  EXPECT_GT(helped_after, 0);  // the helper came back
}

TEST(PoolExecutorTest, HelperLeavesAndReturns) {
  constexpr std::int64_t kMany = 20000;  // 4 seconds
  ExpectThePoolRunsOtherWork([](Executor& executor, const auto& task) {
    executor.ParallelSteps(1, kMany, task);
  });
  ExpectThePoolRunsOtherWork([](Executor& executor, const auto& task) {
    executor.ParallelSteps(kMany / 4, 4, task);
  });
  ExpectThePoolRunsOtherWork([](Executor& executor, const auto& task) {
    executor.ParallelSequences(kMany / 2, 2, task);
  });
}

// The other thread of the pool was idle, and now waits for work that the pool
// must run.
TEST(PoolExecutorTest, HelperLeavesIfTheOtherThreadIsBlocked) {
  std::promise<void> ran;
  std::atomic<bool> has_run{false};
  Threads threads(2);
  const auto schedule = threads.Schedule();
  std::atomic<int> helped{0};
  PoolExecutor executor(schedule, 2);
  executor.ParallelSteps(20000, 2, [&](std::int64_t, std::int64_t, int worker) {
    if (has_run) return;
    Work(std::chrono::microseconds(200));
    if (worker == 0 || ++helped != 30) return;
    schedule([&] {
      schedule([&] {
        has_run = true;
        ran.set_value();
      });
      ran.get_future().wait();
    });
  });
  EXPECT_TRUE(has_run);
}

// As many users as threads, so each user gets only its own thread.
TEST(PoolExecutorTest, NoHelperIfThreadsAreNeededElsewhere) {
  Threads threads;
  PoolUsers users;
  PoolExecutor executor(threads.Schedule(), 2, {}, &users);
  EXPECT_EQ(users.FairShare(2), 2);
  std::atomic<bool> has_helped{false};
  executor.ParallelSteps(20000, 2, [&](std::int64_t, std::int64_t, int worker) {
    if (has_helped) return;
    Work(std::chrono::microseconds(100));
    has_helped = has_helped || worker == 1;
  });
  EXPECT_TRUE(has_helped);
  const PoolExecutor other(threads.Schedule(), 2, {}, &users);
  EXPECT_EQ(users.FairShare(2), 1);
  std::atomic<int> helped{0};
  const auto task = [&](std::int64_t, std::int64_t, int worker) {
    helped += worker;
  };
  executor.ParallelSteps(100, 2, task);
  executor.ParallelSequences(100, 2, task);
  EXPECT_EQ(helped, 0);
}

// A forked process has only the thread that forked it.
TEST(PoolUsersTest, ForkedProcessHasNoUsers) {
  PoolUsers users;
  users.Enter();
  users.Enter();
  const pid_t child = fork();
  if (child == 0) {
    users.Enter();
    const bool has_one_user = users.FairShare(6) == 6;
    users.Enter();
    const bool has_two_users = users.FairShare(6) == 3;
    users.Leave();
    _exit(has_one_user && has_two_users && users.FairShare(6) == 6 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(users.FairShare(6), 3);
  users.Leave();
  EXPECT_EQ(users.FairShare(6), 6);
}

// Users come and go, and helpers with them.
TEST(PoolExecutorTest, HelpersComeAndGo) {
  Threads threads;
  PoolUsers users;
  const IntermittentUsers others(users, 1, std::chrono::microseconds(1));
  for (int i = 0; i < 20; ++i) {
    PoolExecutor executor(threads.Schedule(), 2 + i % 3, {}, &users);
    ExpectAllInOrder(executor, 200, 1 + i % 7);
    ExpectEachTaskOnce(executor, 100);
  }
}

// If scheduling fails, for example for lack of memory, the calling thread runs
// all tasks.
TEST(PoolExecutorTest, RunsWithoutThePoolIfItFails) {
  PoolExecutor executor(
      [](const std::function<void()>&) { throw std::bad_alloc(); }, 4);
  ExpectEachTaskOnce(executor, 10);
  ExpectStepsInOrder(executor, 3, 4);
  PoolExecutor other(
      [](const std::function<void()>&) { throw std::runtime_error("closed"); },
      4);
  ExpectEachTaskOnce(other, 10);
  ExpectStepsInOrder(other, 3, 4);
}

// Other helpers already work when scheduling fails.
TEST(PoolExecutorTest, HelpersFinishTheirTasksIfThePoolFailsLater) {
  Threads threads;
  const auto schedule = threads.Schedule();
  for (int i = 0; i < 100; ++i) {
    int scheduled = 0;
    PoolExecutor executor(
        [&](std::function<void()> closure) {
          if (++scheduled > 2) throw std::runtime_error("closed");
          schedule(std::move(closure));
        },
        4);
    ExpectStepsInOrder(executor, 10, 8);
  }
}

// A slot whose helper the pool did not take is open for the next helper.
void ExpectNewRequestsInEachCall(const PoolExecutor::Schedule& schedule) {
  int requests = 0;
  PoolExecutor executor(
      [&](std::function<void()> closure) {
        ++requests;
        schedule(std::move(closure));
      },
      4);
  ExpectEachTaskOnce(executor, 10);
  const int before = requests;
  ExpectEachTaskOnce(executor, 10);
  EXPECT_GE(requests, before + 3);
}

TEST(PoolExecutorTest, RequestsHelpersAgainIfThePoolTookNone) {
  ExpectNewRequestsInEachCall(
      [](const std::function<void()>&) { throw std::bad_alloc(); });
  ExpectNewRequestsInEachCall(
      [](const std::function<void()>& closure) { closure(); });
}

// A call reads what the previous call wrote, on any thread.
TEST(PoolExecutorTest, CallsSeeEarlierWrites) {
  Threads threads;
  for (int num_threads : {1, 2, 5}) {
    PoolExecutor executor(threads.Schedule(), num_threads);
    std::vector<std::int64_t> calls(7);  // exposes races
    std::atomic<int> errors{0};
    for (std::int64_t call = 0; call < 500; ++call) {
      const std::int64_t count = call % 7 + 1;
      executor.ParallelFor(7, [&](std::int64_t i) {
        if (calls[i]++ != call) ++errors;
      });
      executor.ParallelFor(count, [&](std::int64_t i) {
        if (calls[6 - i] != call + 1) ++errors;
      });
    }
    EXPECT_EQ(errors, 0);
  }
}

TEST(PoolExecutorTest, LateThreadJoins) {
  Threads threads(1);
  const auto schedule = threads.Schedule();
  std::vector<std::function<void()>> waiting;
  bool is_late = true;
  PoolExecutor executor(
      [&](std::function<void()> closure) {
        if (is_late) {
          waiting.push_back(std::move(closure));
        } else {
          schedule(std::move(closure));
        }
      },
      2);
  ExpectEachTaskOnce(executor, 3);
  is_late = false;
  for (auto& closure : waiting) schedule(std::move(closure));
  std::atomic<int> helped{0};
  while (helped == 0) {
    executor.ParallelFor(2, [&](std::int64_t, int worker) {
      helped += worker;
      std::this_thread::yield();
    });
  }
}

// Then its cache holds what it wrote in the previous call.
TEST(PoolExecutorTest, ThreadStartsWithTheSameTasksInEachCall) {
  Threads threads;
  PoolExecutor executor(threads.Schedule(), 2);
  for (int call = 0; call < 3; ++call) {
    std::atomic<std::int64_t> first_of_other{-1};
    executor.ParallelFor(4, [&](std::int64_t task, int worker) {
      if (worker == 1) {
        std::int64_t none = -1;
        first_of_other.compare_exchange_strong(none, task);
      } else {
        while (first_of_other < 0) std::this_thread::yield();
      }
    });
    EXPECT_EQ(first_of_other, 2);
  }
}

TEST(PoolExecutorTest, SchedulesNoMoreHelpersThanTasks) {
  int scheduled = 0;
  PoolExecutor executor([&](std::function<void()>) { ++scheduled; }, 16);
  ExpectEachTaskOnce(executor, 3);
  EXPECT_EQ(scheduled, 2);
}

// Cancels in the second of five steps, and expects no task of later steps.
void ExpectNoStepAfterCancelling(Executor& executor,
                                 std::atomic<bool>& cancelled) {
  std::atomic<int> errors{0};
  executor.ParallelSteps(5, 7, [&](std::int64_t step, std::int64_t task, int) {
    if (step > 1) ++errors;
    if (step == 1 && task == 3) cancelled = true;
  });
  EXPECT_TRUE(executor.is_cancelled());
  executor.ParallelFor(9, [&](std::int64_t) { ++errors; });
  EXPECT_EQ(errors, 0);
}

TEST(SerialExecutorTest, SkipsTasksWhenCancelled) {
  std::atomic<bool> cancelled{false};
  SerialExecutor executor([&] { return cancelled.load(); });
  EXPECT_FALSE(executor.is_cancelled());
  ExpectEachTaskOnce(executor, 5);
  std::int64_t calls = 0;
  executor.ParallelFor(10, [&](std::int64_t task) {
    ++calls;
    cancelled = task == 3;
  });
  EXPECT_EQ(calls, 4);
  cancelled = false;
  ExpectNoStepAfterCancelling(executor, cancelled);
}

TEST(PoolExecutorTest, SkipsTasksWhenCancelled) {
  Threads threads;
  for (int num_threads : {1, 2, 5}) {
    std::atomic<bool> cancelled{false};
    PoolExecutor executor(threads.Schedule(), num_threads,
                          [&] { return cancelled.load(); });
    EXPECT_FALSE(executor.is_cancelled());
    ExpectEachTaskOnce(executor, 100);
    ExpectNoStepAfterCancelling(executor, cancelled);
  }
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
