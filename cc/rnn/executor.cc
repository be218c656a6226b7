#include "cc/rnn/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
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

// Waits for another thread, which is expected to be running. Lets others have
// the CPU if that takes long.
template <typename Condition>
void WaitUntil(const Condition& condition) {
  constexpr int kPausesBeforeYield = 256;  // some microseconds
  for (int pauses = 0; !condition();) {
    if (++pauses < kPausesBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

Executor::Executor(IsCancelled is_cancelled)
    : is_cancelled_(std::move(is_cancelled)) {}

Executor::~Executor() = default;

bool Executor::IsWorthSharing(double microseconds) const {
  return microseconds >=
         (AreThreadsAwake() ? kWorthHandingOver : kWorthWakingThreads);
}

void Executor::ParallelFor(std::int64_t count, const Task& task) {
  ParallelFor(count, [&task](std::int64_t i, int) { task(i); });
}

void Executor::ParallelFor(std::int64_t count, const WorkerTask& task) {
  if (count <= 0) return;
  Run(count, [this, &task](std::int64_t i, int worker) {
    if (is_cancelled()) return;
    ScopedFlushDenormals flush_denormals;
    task(i, worker);
  });
}

void Executor::ParallelSteps(std::int64_t num_steps,
                             std::int64_t tasks_per_step,
                             const StepTask& task) {
  if (num_steps <= 0 || tasks_per_step <= 0) return;
  RunSteps(num_steps, tasks_per_step,
           [this, &task](std::int64_t step, std::int64_t i, int worker) {
             if (is_cancelled()) return;
             ScopedFlushDenormals flush_denormals;
             task(step, i, worker);
           });
}

SerialExecutor::SerialExecutor() : SerialExecutor(IsCancelled()) {}

SerialExecutor::SerialExecutor(IsCancelled is_cancelled)
    : Executor(std::move(is_cancelled)) {}

bool SerialExecutor::AreThreadsAwake() const { return false; }

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

void PoolCalls::Note() {
  last_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
              std::memory_order_relaxed);
}

bool PoolCalls::HadOneJustNow() const {
  // TensorFlow's threads look out for work a little longer.
  constexpr std::chrono::microseconds kJustNow(50);
  const std::chrono::steady_clock::time_point last(
      std::chrono::steady_clock::duration(
          last_.load(std::memory_order_relaxed)));
  return std::chrono::steady_clock::now() - last < kJustNow;
}

// What a team works at.
class PoolExecutor::Job {
 public:
  virtual ~Job() = default;
  // Takes and runs tasks until none is left to be taken.
  virtual void Work(int worker) = 0;
};

// The tasks of one ParallelFor call. Each thread has a share of neighbouring
// ones, the same whenever there are as many: what it wrote the last time is in
// its cache. When it has done its own it helps the others.
class PoolExecutor::TaskJob final : public Job {
 public:
  TaskJob(std::int64_t count, std::int64_t num_workers, const WorkerTask& task)
      : count_(count), task_(task), next_(num_workers) {
    for (std::int64_t share = 0; share < num_workers; ++share) {
      next_[share].store(Begin(share), std::memory_order_relaxed);
    }
  }

  void Work(int worker) override {
    for (std::int64_t i = 0; i < num_workers(); ++i) {
      WorkAtShare((worker + i) % num_workers(), worker);
    }
  }

 private:
  std::int64_t num_workers() const {
    return static_cast<std::int64_t>(next_.size());
  }
  std::int64_t Begin(std::int64_t share) const {
    return share * count_ / num_workers();
  }

  void WorkAtShare(std::int64_t share, int worker) {
    std::atomic<std::int64_t>& next = next_[share];
    const std::int64_t end = Begin(share + 1);
    // A share that is done is not written to: threads need not wait in line to
    // see that it is.
    while (next.load(std::memory_order_relaxed) < end) {
      const std::int64_t task = next.fetch_add(1);
      if (task < end) task_(task, worker);
    }
  }

  const std::int64_t count_;
  const WorkerTask& task_;
  std::vector<std::atomic<std::int64_t>> next_;  // of each share
};

// The tasks of one ParallelSteps call. A thread takes the same tasks in each
// step if it can, as their data is in its cache.
class PoolExecutor::StepJob final : public Job {
 public:
  StepJob(std::int64_t num_steps, std::int64_t tasks_per_step,
          std::int64_t num_workers, const StepTask& task)
      : num_steps_(num_steps),
        num_workers_(num_workers),
        task_(task),
        next_step_(tasks_per_step) {}

  // A thread that comes late begins with the step that the others are at.
  void Work(int worker) override {
    for (std::int64_t step = finished_.load() / num_tasks(); step < num_steps_;
         ++step) {
      const std::int64_t first = worker * num_tasks() / num_workers_;
      for (std::int64_t i = 0; i < num_tasks(); ++i) {
        const std::int64_t task = (first + i) % num_tasks();
        if (!Take(step, task)) continue;
        task_(step, task, worker);
        finished_.fetch_add(1, std::memory_order_release);
      }
      // All tasks of the step were taken.
      const std::int64_t all = (step + 1) * num_tasks();
      WaitUntil(
          [&] { return finished_.load(std::memory_order_acquire) >= all; });
    }
  }

 private:
  std::int64_t num_tasks() const {
    return static_cast<std::int64_t>(next_step_.size());
  }

  bool Take(std::int64_t step, std::int64_t task) {
    std::int64_t expected = step;
    return next_step_[task].load(std::memory_order_relaxed) == step &&
           next_step_[task].compare_exchange_strong(expected, step + 1);
  }

  const std::int64_t num_steps_;
  const std::int64_t num_workers_;
  const StepTask& task_;
  // The step that each task is to be taken in next.
  std::vector<std::atomic<std::int64_t>> next_step_;
  // Of all steps together. A step begins when all before it are finished.
  std::atomic<std::int64_t> finished_{0};
};

// The threads that work for one executor, one job after another.
class PoolExecutor::Team {
 public:
  // The calling thread's part: works at the job, and returns when nobody else
  // does any more.
  void Work(Job& job) {
    job_.store(&job);
    num_jobs_.fetch_add(1);
    job.Work(0);
    // Either a thread sees that the job is gone, or this sees the thread.
    job_.store(nullptr);
    WaitUntil([this] { return num_at_work_.load() == 0; });
  }

  // A pool thread's part: looks out for jobs until the team is dismissed.
  void LookForWork(int worker) {
    for (std::int64_t seen = 0; !dismissed_.load();) {
      const std::int64_t num_jobs = num_jobs_.load();
      if (num_jobs == seen) {
        WaitUntil(
            [&] { return dismissed_.load() || num_jobs_.load() != seen; });
        continue;
      }
      seen = num_jobs;
      num_at_work_.fetch_add(1);
      if (Job* job = job_.load()) job->Work(worker);
      num_at_work_.fetch_sub(1);
    }
  }

  void Dismiss() { dismissed_.store(true); }

 private:
  std::atomic<Job*> job_{nullptr};
  std::atomic<std::int64_t> num_jobs_{0};  // that there were, this one included
  std::atomic<int> num_at_work_{0};        // pool threads
  std::atomic<bool> dismissed_{false};
};

PoolExecutor::PoolExecutor(Schedule schedule, int num_threads,
                           IsCancelled is_cancelled, PoolCalls* calls)
    : Executor(std::move(is_cancelled)),
      schedule_(std::move(schedule)),
      num_threads_(std::max(1, num_threads)),
      calls_(calls),
      are_threads_awake_(calls != nullptr && calls->HadOneJustNow()),
      team_(std::make_shared<Team>()) {}

PoolExecutor::~PoolExecutor() {
  team_->Dismiss();
  if (calls_ != nullptr) calls_->Note();
}

bool PoolExecutor::AreThreadsAwake() const { return are_threads_awake_; }

void PoolExecutor::Run(std::int64_t count, const WorkerTask& task) {
  Recruit(count);
  TaskJob job(count, std::min<std::int64_t>(count, num_threads_), task);
  team_->Work(job);
}

void PoolExecutor::RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                            const StepTask& task) {
  Recruit(tasks_per_step);
  StepJob job(num_steps, tasks_per_step,
              std::min<std::int64_t>(tasks_per_step, num_threads_), task);
  team_->Work(job);
}

void PoolExecutor::Recruit(std::int64_t num_threads) {
  for (; num_recruited_ < std::min<std::int64_t>(num_threads, num_threads_);
       ++num_recruited_) {
    // A pool with too much to do already runs the closure at once, on the
    // calling thread, which cannot wait for itself.
    schedule_([team = team_, worker = num_recruited_,
               caller = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != caller) team->LookForWork(worker);
    });
  }
}

}  // namespace tf_rnn_ops::rnn
