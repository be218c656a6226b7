#include "cc/rnn/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/rnn/flush_denormals.h"

namespace tf_rnn_ops::rnn {
namespace {

// The tasks of one ParallelFor call, shared by the threads that work on them. A
// pool thread may look at it long after the call has returned; it then finds no
// task left and does not touch `task_`.
class TaskQueue {
 public:
  TaskQueue(std::int64_t count, const Executor::Task* task)
      : count_(count), task_(task), unfinished_(count) {}

  // Takes and runs tasks until none is left.
  void Work() {
    for (std::int64_t i = next_.fetch_add(1); i < count_;
         i = next_.fetch_add(1)) {
      (*task_)(i);
      if (unfinished_.fetch_sub(1) == 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        all_finished_.notify_all();
      }
    }
  }

  // Waits for the tasks that were taken.
  void Wait() {
    const auto finished = [this] { return unfinished_.load() == 0; };
    std::unique_lock<std::mutex> lock(mutex_);
    // Not wait(): it is a symbol of GCC 12's library alone, and would keep a
    // wheel that is built with it from systems with an older one.
    while (!all_finished_.wait_for(lock, std::chrono::hours(1), finished)) {
    }
  }

 private:
  const std::int64_t count_;
  const Executor::Task* const task_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> unfinished_;
  std::mutex mutex_;
  std::condition_variable all_finished_;
};

}  // namespace

void Executor::ParallelFor(std::int64_t count, const Task& task) {
  if (count <= 0) return;
  Run(count, [&task](std::int64_t i) {
    ScopedFlushDenormals flush_denormals;
    task(i);
  });
}

void SerialExecutor::Run(std::int64_t count, const Task& task) {
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

PoolExecutor::PoolExecutor(Schedule schedule, int num_threads)
    : schedule_(std::move(schedule)), num_threads_(num_threads) {}

void PoolExecutor::Run(std::int64_t count, const Task& task) {
  auto queue = std::make_shared<TaskQueue>(count, &task);
  const std::int64_t helpers = std::min<std::int64_t>(count, num_threads_) - 1;
  for (std::int64_t i = 0; i < helpers; ++i) {
    schedule_([queue] { queue->Work(); });
  }
  queue->Work();
  queue->Wait();
}

}  // namespace tf_rnn_ops::rnn
