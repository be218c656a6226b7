#include "cc/rnn/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/rnn/flush_denormals.h"

namespace tf_rnn_ops::rnn {
namespace {

// Tells the CPU that the thread has nothing to do but look again.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The tasks of one ParallelFor call, shared by the threads that work on them. A
// pool thread may look at it long after the call has returned; it then finds no
// task left and does not touch `task_`.
class TaskQueue {
 public:
  TaskQueue(std::int64_t count, const Executor::WorkerTask* task)
      : count_(count), task_(task), unfinished_(count) {}

  // Takes and runs tasks until none is left.
  void Work(int worker) {
    for (std::int64_t i = next_.fetch_add(1); i < count_;
         i = next_.fetch_add(1)) {
      (*task_)(i, worker);
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
  const Executor::WorkerTask* const task_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> unfinished_;
  std::mutex mutex_;
  std::condition_variable all_finished_;
};

// The tasks of one ParallelSteps call. Threads stay with it from step to step:
// waking one takes longer than many a step does. A thread takes the same tasks
// in each step if it can, as their data is in its cache.
class StepQueue {
 public:
  StepQueue(std::int64_t num_steps, std::int64_t tasks_per_step,
            std::int64_t num_workers, const Executor::StepTask* task)
      : num_steps_(num_steps),
        num_workers_(num_workers),
        task_(task),
        next_step_(tasks_per_step) {}

  // Takes and runs tasks until none is left. A thread that comes late begins
  // with the step that the others are at.
  void Work(int worker) {
    for (std::int64_t step = finished_.load() / num_tasks(); step < num_steps_;
         ++step) {
      const std::int64_t first = worker * num_tasks() / num_workers_;
      for (std::int64_t i = 0; i < num_tasks(); ++i) {
        const std::int64_t task = (first + i) % num_tasks();
        if (!Take(step, task)) continue;
        (*task_)(step, task, worker);
        finished_.fetch_add(1, std::memory_order_release);
      }
      WaitFor(step);
    }
  }

  // Work has waited for the last step.
  void Wait() {}

 private:
  std::int64_t num_tasks() const {
    return static_cast<std::int64_t>(next_step_.size());
  }

  bool Take(std::int64_t step, std::int64_t task) {
    std::int64_t expected = step;
    return next_step_[task].load(std::memory_order_relaxed) == step &&
           next_step_[task].compare_exchange_strong(expected, step + 1);
  }

  // Waits for the tasks of a step, all of which were taken.
  void WaitFor(std::int64_t step) const {
    constexpr int kPausesBeforeYield = 256;  // some ten microseconds
    const std::int64_t all = (step + 1) * num_tasks();
    int pauses = 0;
    while (finished_.load(std::memory_order_acquire) < all) {
      if (++pauses < kPausesBeforeYield) {
        Pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  const std::int64_t num_steps_;
  const std::int64_t num_workers_;
  const Executor::StepTask* const task_;
  // The step that each task is to be taken in next.
  std::vector<std::atomic<std::int64_t>> next_step_;
  // Of all steps together. A step begins when all before it are finished.
  std::atomic<std::int64_t> finished_{0};
};

}  // namespace

void Executor::ParallelFor(std::int64_t count, const Task& task) {
  ParallelFor(count, [&task](std::int64_t i, int) { task(i); });
}

void Executor::ParallelFor(std::int64_t count, const WorkerTask& task) {
  if (count <= 0) return;
  Run(count, [&task](std::int64_t i, int worker) {
    ScopedFlushDenormals flush_denormals;
    task(i, worker);
  });
}

void Executor::ParallelSteps(std::int64_t num_steps,
                             std::int64_t tasks_per_step,
                             const StepTask& task) {
  if (num_steps <= 0 || tasks_per_step <= 0) return;
  RunSteps(num_steps, tasks_per_step,
           [&task](std::int64_t step, std::int64_t i, int worker) {
             ScopedFlushDenormals flush_denormals;
             task(step, i, worker);
           });
}

void SerialExecutor::Run(std::int64_t count, const WorkerTask& task) {
  for (std::int64_t i = 0; i < count; ++i) task(i, 0);
}

void SerialExecutor::RunSteps(std::int64_t num_steps,
                              std::int64_t tasks_per_step,
                              const StepTask& task) {
  for (std::int64_t step = 0; step < num_steps; ++step) {
    for (std::int64_t i = 0; i < tasks_per_step; ++i) task(step, i, 0);
  }
}

PoolExecutor::PoolExecutor(Schedule schedule, int num_threads)
    : schedule_(std::move(schedule)), num_threads_(std::max(1, num_threads)) {}

void PoolExecutor::Run(std::int64_t count, const WorkerTask& task) {
  const std::int64_t num_threads = std::min<std::int64_t>(count, num_threads_);
  Share(std::make_shared<TaskQueue>(count, &task), num_threads);
}

void PoolExecutor::RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                            const StepTask& task) {
  const std::int64_t num_threads =
      std::min<std::int64_t>(tasks_per_step, num_threads_);
  Share(std::make_shared<StepQueue>(num_steps, tasks_per_step, num_threads,
                                    &task),
        num_threads);
}

template <typename Queue>
void PoolExecutor::Share(const std::shared_ptr<Queue>& queue,
                         std::int64_t num_threads) {
  for (int worker = 1; worker < num_threads; ++worker) {
    schedule_([queue, worker] { queue->Work(worker); });
  }
  queue->Work(0);
  queue->Wait();
}

}  // namespace tf_rnn_ops::rnn
