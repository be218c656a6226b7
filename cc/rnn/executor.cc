#include "cc/rnn/executor.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "cc/rnn/flush_denormals.h"
#include "third_party/glibc/older_functions.h"

TF_RNN_OPS_OLDER_FUNCTION(pthread_getcpuclockid, "2.2.5");

namespace tf_rnn_ops::rnn {
namespace {

using Clock = std::chrono::steady_clock;

// A helper returns its thread to the pool after this time, so that queued work
// can run. The calling thread requests a replacement kReplacementLead earlier,
// which is longer than most tasks take.
constexpr std::chrono::microseconds kHelperTime(1400);
constexpr std::chrono::microseconds kReplacementLead(600);
// The calling thread checks its helpers at this interval.
constexpr std::chrono::microseconds kRecruitInterval(200);

// A thread spins for this time before it yields or sleeps. A task on another,
// running thread takes less.
constexpr std::chrono::microseconds kMaxSpin(50);

// Data written by different threads is on different cache lines.
constexpr std::size_t kCacheLine = 64;

// Tells the CPU that the thread is spinning.
void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until condition() or gives_up() is true; the latter is called less
// often. Returns condition().
template <typename Condition, typename GivesUp>
bool SpinUntil(const Condition& condition, const GivesUp& gives_up) {
  constexpr int kChecks = 16;  // a few hundred nanoseconds
  do {
    for (int i = 0; i < kChecks; ++i) {
      if (condition()) return true;
      Pause();
    }
  } while (!gives_up());
  return condition();
}

// Lets one thread sleep until other threads make a condition true. Uses a futex
// because the condition variables of the standard library require a newer
// glibc.
class SleepEvent {
 public:
  template <typename Condition>
  void SleepUntil(const Condition& condition) {
    has_sleeper_.store(true);
    for (;;) {
      const std::uint32_t seen = num_changes_.load();
      if (condition()) break;
      Futex(FUTEX_WAIT_PRIVATE, seen);
    }
    has_sleeper_.store(false);
  }

  // Call after each change. Either the sleeper sees the change, or this
  // function sees the sleeper.
  void WakeSleeper() {
    if (!has_sleeper_.load()) return;
    num_changes_.fetch_add(1);
    Futex(FUTEX_WAKE_PRIVATE, 1);
  }

 private:
  void Futex(int operation, std::uint32_t value) {
    static_assert(sizeof(num_changes_) == sizeof(value));
    syscall(SYS_futex, &num_changes_, operation, value, nullptr, nullptr, 0);
  }

  alignas(kCacheLine) std::atomic<bool> has_sleeper_{false};
  std::atomic<std::uint32_t> num_changes_{0};
};

// A pool thread that was idle. While it is, a helper needs no replacement,
// whose start would wake an idle thread that then spins on a CPU in use. It
// counts as idle while its CPU-time clock does not advance. A thread that
// blocks inside some work looks the same, so this is trusted only for kTrusted.
class IdleThread {
 public:
  // Called by the idle thread.
  void Watch() {
    clockid_t clock;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) seen_ = clock;
  }

  // Whether the thread is idle. Called repeatedly by one thread.
  bool IsIdle(Clock::time_point now) {
    if (const clockid_t seen = seen_.exchange(kNone); seen != kNone) {
      clock_ = seen;
      until_ = now + kTrusted;
      stands_still_ = false;
    }
    timespec time;
    if (clock_ == kNone || now > until_ || clock_gettime(clock_, &time) != 0) {
      return false;
    }
    const bool has_run =
        time.tv_sec != time_.tv_sec || time.tv_nsec != time_.tv_nsec;
    time_ = time;
    // At first the thread spins for work, as the pool's threads do.
    if (has_run && stands_still_) clock_ = kNone;
    stands_still_ = !has_run;
    return stands_still_;
  }

 private:
  static constexpr clockid_t kNone = CLOCK_REALTIME;  // not a thread's clock
  static constexpr std::chrono::milliseconds kTrusted{20};

  std::atomic<clockid_t> seen_{kNone};
  clockid_t clock_ = kNone;
  Clock::time_point until_;
  timespec time_{};
  bool stands_still_ = false;
};

void RunStepsSerially(std::int64_t num_steps, std::int64_t tasks_per_step,
                      const Executor::StepTask& task) {
  for (std::int64_t step = 0; step < num_steps; ++step) {
    for (std::int64_t i = 0; i < tasks_per_step; ++i) task(step, i, 0);
  }
}

void RunSequencesSerially(std::int64_t num_steps, std::int64_t num_sequences,
                          const Executor::StepTask& task) {
  for (std::int64_t i = 0; i < num_sequences; ++i) {
    for (std::int64_t step = 0; step < num_steps; ++step) task(step, i, 0);
  }
}

}  // namespace

Executor::Executor(IsCancelled is_cancelled)
    : is_cancelled_(std::move(is_cancelled)) {}

Executor::~Executor() = default;

bool Executor::IsWorthSharing(double microseconds) const {
  return microseconds >=
         (AreThreadsAwake() ? kMinSharedMicros : kMinWakeMicros);
}

void Executor::ParallelFor(std::int64_t count, const Task& task) {
  ParallelSteps(1, count,
                [&task](std::int64_t, std::int64_t i, int) { task(i); });
}

void Executor::ParallelFor(std::int64_t count, const WorkerTask& task) {
  ParallelSteps(1, count, [&task](std::int64_t, std::int64_t i, int worker) {
    task(i, worker);
  });
}

void Executor::ParallelSteps(std::int64_t num_steps,
                             std::int64_t tasks_per_step,
                             const StepTask& task) {
  if (num_steps <= 0 || tasks_per_step <= 0) return;
  RunSteps(num_steps, tasks_per_step,
           [&](std::int64_t step, std::int64_t i, int worker) {
             RunTask(task, step, i, worker);
           });
}

void Executor::ParallelSequences(std::int64_t num_steps,
                                 std::int64_t num_sequences,
                                 const StepTask& task) {
  if (num_steps <= 0 || num_sequences <= 0) return;
  RunSequences(num_steps, num_sequences,
               [&](std::int64_t step, std::int64_t i, int worker) {
                 RunTask(task, step, i, worker);
               });
}

void Executor::RunTask(const StepTask& task, std::int64_t step, std::int64_t i,
                       int worker) const {
  if (is_cancelled()) return;
  const ScopedFlushDenormals flush_denormals;
  task(step, i, worker);
}

SerialExecutor::SerialExecutor() : SerialExecutor(IsCancelled()) {}

SerialExecutor::SerialExecutor(IsCancelled is_cancelled)
    : Executor(std::move(is_cancelled)) {}

bool SerialExecutor::AreThreadsAwake() const { return false; }

void SerialExecutor::RunSteps(std::int64_t num_steps,
                              std::int64_t tasks_per_step,
                              const StepTask& task) {
  RunStepsSerially(num_steps, tasks_per_step, task);
}

void SerialExecutor::RunSequences(std::int64_t num_steps,
                                  std::int64_t num_sequences,
                                  const StepTask& task) {
  RunSequencesSerially(num_steps, num_sequences, task);
}

void PoolUsers::Enter() {
  const std::uint64_t process = static_cast<std::uint64_t>(getpid()) << 32;
  std::uint64_t users = users_.load(std::memory_order_relaxed);
  std::uint64_t others;
  do {
    others = users >> 32 == process >> 32 ? users : process;
  } while (!users_.compare_exchange_weak(users, others + 1,
                                         std::memory_order_relaxed));
}

void PoolUsers::Leave() {
  users_.fetch_sub(1, std::memory_order_relaxed);
  last_.store(Clock::now().time_since_epoch().count(),
              std::memory_order_relaxed);
}

int PoolUsers::FairShare(int num_threads) const {
  const auto num_users =
      static_cast<int>(users_.load(std::memory_order_relaxed) & 0xffffffff);
  return std::max(1, num_threads / std::max(1, num_users));
}

bool PoolUsers::WereThreadsJustUsed() const {
  // TensorFlow's threads spin for work slightly longer.
  constexpr std::chrono::microseconds kSpinTime(50);
  const Clock::time_point last(
      Clock::duration(last_.load(std::memory_order_relaxed)));
  return Clock::now() - last < kSpinTime;
}

// A thread that runs tasks: the calling thread or a helper.
class PoolExecutor::Worker {
 public:
  Worker(Team& team, int index);

  // The index of the calling thread is 0.
  int index() const { return index_; }
  bool is_caller() const { return index_ == 0; }
  // The last result of MayContinue.
  bool may_continue() const { return may_continue_; }

  // Call between tasks. Returns whether the worker continues. The calling
  // thread always does, and requests helpers from the pool here.
  bool MayContinue();

  // Waits for a condition that other workers make true. Returns false if the
  // worker must stop first.
  template <typename Condition>
  bool WaitUntil(const Condition& condition);

  // Wakes the calling thread if it sleeps.
  void Notify();

 private:
  Team& team_;
  const int index_;
  bool may_continue_ = true;
};

// The tasks of a call, divided into shares of consecutive tasks. A worker
// starts each step with the same share, also in later calls with the same
// number of tasks, because its cache holds what it last wrote there. Then it
// takes tasks from the other shares.
class PoolExecutor::Job {
 public:
  struct alignas(kCacheLine) Share {
    // Counted over all steps.
    std::atomic<std::int64_t> num_taken{0};
    std::atomic<std::int64_t> num_finished{0};
    // For sequences: whether a worker runs this share.
    std::atomic<bool> is_held{false};
  };

  // shares: [num_shares], at most the number of tasks per step
  Job(std::int64_t num_steps, std::int64_t tasks_per_step, const StepTask& task,
      Share* shares, int num_shares)
      : num_steps_(num_steps),
        tasks_per_step_(tasks_per_step),
        task_(task),
        shares_(shares),
        num_shares_(num_shares) {
    for (int i = 0; i < num_shares; ++i) {
      shares[i].num_taken.store(0, std::memory_order_relaxed);
      shares[i].num_finished.store(0, std::memory_order_relaxed);
      shares[i].is_held.store(false, std::memory_order_relaxed);
    }
  }
  virtual ~Job() = default;

  // Takes and runs tasks until none is left or the worker must stop.
  virtual void Work(Worker& worker) = 0;
  // How many workers have work to do.
  virtual int num_workers() const = 0;

 protected:
  std::int64_t first_task(int share) const {
    return share * tasks_per_step_ / num_shares_;
  }
  std::int64_t num_tasks(int share) const {
    return first_task(share + 1) - first_task(share);
  }
  // The i-th share that a worker takes.
  int ShareOf(const Worker& worker, int i) const {
    return (worker.index() + i) % num_shares_;
  }

  const std::int64_t num_steps_;
  const std::int64_t tasks_per_step_;
  const StepTask& task_;
  Share* const shares_;
  const int num_shares_;
};

// Steps; each starts when all tasks of the previous step have finished.
class PoolExecutor::StepJob final : public Job {
 public:
  using Job::Job;

  int num_workers() const override { return num_shares_; }

  void Work(Worker& worker) override {
    for (std::int64_t step = CurrentStep(); step < num_steps_; ++step) {
      for (int i = 0; i < num_shares_; ++i) {
        if (!WorkAtShare(ShareOf(worker, i), step, worker)) return;
      }
      if (step + 1 == num_steps_) return;
      if (!worker.WaitUntil([&] { return IsFinished(step); }) ||
          !worker.MayContinue()) {
        return;
      }
    }
  }

 private:
  // The step that the other workers run, for a worker that joins later.
  std::int64_t CurrentStep() const {
    std::int64_t step = num_steps_;
    for (int i = 0; i < num_shares_; ++i) {
      step = std::min(step, shares_[i].num_finished.load() / num_tasks(i));
    }
    return step;
  }

  bool IsFinished(std::int64_t step) const {
    for (int i = 0; i < num_shares_; ++i) {
      if (shares_[i].num_finished.load() < (step + 1) * num_tasks(i)) {
        return false;
      }
    }
    return true;
  }

  bool WorkAtShare(int i, std::int64_t step, Worker& worker) {
    Share& share = shares_[i];
    const std::int64_t begin = step * num_tasks(i);
    std::int64_t taken = share.num_taken.load(std::memory_order_relaxed);
    while (taken < begin + num_tasks(i)) {
      if (!share.num_taken.compare_exchange_weak(taken, taken + 1)) continue;
      task_(step, first_task(i) + taken - begin, worker.index());
      share.num_finished.fetch_add(1);
      worker.Notify();
      if (!worker.MayContinue()) return false;
      taken = share.num_taken.load(std::memory_order_relaxed);
    }
    return true;
  }
};

// Sequences of steps. A worker holds a share while it runs the sequences of
// that share, one after another. Another worker may continue where it stops.
class PoolExecutor::SequenceJob final : public Job {
 public:
  using Job::Job;

  int num_workers() const override {
    int num_open = 0;
    for (int i = 0; i < num_shares_; ++i) num_open += !IsFinished(i);
    return num_open;
  }

  void Work(Worker& worker) override {
    do {
      for (int i = 0; i < num_shares_; ++i) {
        if (!WorkAtShare(ShareOf(worker, i), worker)) return;
      }
      // The calling thread continues the work that helpers left unfinished.
    } while (worker.is_caller() && num_workers() > 0 &&
             worker.WaitUntil([this] { return IsAnyFree(); }));
  }

 private:
  bool IsFinished(int i) const {
    return shares_[i].num_finished.load() == num_tasks(i) * num_steps_;
  }

  // Whether an unfinished share has no worker, or all shares are finished.
  bool IsAnyFree() const {
    bool are_all_finished = true;
    for (int i = 0; i < num_shares_; ++i) {
      if (IsFinished(i)) continue;
      if (!shares_[i].is_held.load()) return true;
      are_all_finished = false;
    }
    return are_all_finished;
  }

  bool WorkAtShare(int i, Worker& worker) {
    Share& share = shares_[i];
    if (IsFinished(i) || share.is_held.exchange(true)) return true;
    bool may_continue = true;
    while (may_continue && !IsFinished(i)) {
      const std::int64_t done =
          share.num_finished.load(std::memory_order_relaxed);
      task_(done % num_steps_, first_task(i) + done / num_steps_,
            worker.index());
      share.num_finished.store(done + 1);
      may_continue = worker.MayContinue();
    }
    share.is_held.store(false);
    worker.Notify();
    return may_continue;
  }
};

// The workers of one executor, which run one job at a time.
class PoolExecutor::Team : public std::enable_shared_from_this<Team> {
 public:
  Team(const Schedule& schedule, int num_threads, const PoolUsers* users)
      : schedule_(schedule),
        num_threads_(num_threads),
        users_(users),
        shares_(num_threads),
        slots_(num_threads) {}

  Job::Share* shares() { return shares_.data(); }
  SleepEvent& caller_event() { return caller_event_; }

  // How many threads may work now.
  int num_wanted() const {
    return users_ == nullptr ? num_threads_ : users_->FairShare(num_threads_);
  }

  // Runs tasks of the job on the calling thread. Returns when no worker runs
  // any more.
  void Run(Job& job) {
    job_.store(&job);
    num_jobs_.fetch_add(1);
    Worker caller(*this, 0);
    Recruit(Clock::now());
    job.Work(caller);
    // Either a helper sees that the job has ended, or this thread sees the
    // helper.
    job_.store(nullptr);
    caller.WaitUntil([this] { return num_working_.load() == 0; });
  }

  // Runs tasks on a helper.
  void Help(int index) {
    Worker helper(*this, index);
    std::int64_t seen;
    do {
      seen = num_jobs_.load();
      num_working_.fetch_add(1);
      Job* const job = job_.load();
      // A helper may start late, when its thread is needed elsewhere.
      if (job != nullptr && index < num_wanted()) job->Work(helper);
      num_working_.fetch_sub(1);
      caller_event_.WakeSleeper();
    } while (helper.may_continue() && helper.WaitUntil([&] {
      return is_dismissed_.load() || num_jobs_.load() != seen;
    }) && !is_dismissed_.load());
  }

  // Whether a helper may run more tasks.
  bool MayContinue(int index) const {
    return Clock::now() < slots_[index].end.load() && index < num_wanted();
  }

  // Requests helpers from the pool, at intervals.
  void RecruitIfDue() {
    const Clock::time_point now = Clock::now();
    if (now - last_recruitment_ >= kRecruitInterval) Recruit(now);
  }

  void Dismiss() { is_dismissed_.store(true); }

 private:
  // A slot has at most one helper at a time.
  struct alignas(kCacheLine) Slot {
    std::atomic<bool> is_scheduled{false};  // the pool has a closure for it
    std::atomic<bool> is_taken{false};
    std::atomic<Clock::time_point> end{Clock::time_point()};  // of the helper
  };

  // Requests missing helpers from the pool, and replacements for helpers whose
  // time is about to end. Called by the calling thread during a job.
  void Recruit(Clock::time_point now) {
    last_recruitment_ = now;
    const bool has_idle_thread = idle_.IsIdle(now);
    const int num_workers = std::min(
        num_wanted(), job_.load(std::memory_order_relaxed)->num_workers());
    for (int index = 1; index < num_workers; ++index) {
      Slot& slot = slots_[index];
      if (slot.is_scheduled.load()) continue;
      if (slot.is_taken.load()) {
        if (has_idle_thread) slot.end.store(now + kHelperTime);
        if (now < slot.end.load() - kReplacementLead) continue;
      }
      ScheduleHelper(index);
    }
  }

  void ScheduleHelper(int index) {
    slots_[index].is_scheduled.store(true);
    try {
      schedule_([team = shared_from_this(), index,
                 caller = std::this_thread::get_id()] {
        // A pool with a full queue runs the closure immediately on the calling
        // thread, which cannot wait for itself.
        if (std::this_thread::get_id() == caller) {
          team->slots_[index].is_scheduled.store(false);
        } else {
          team->Join(index);
        }
      });
    } catch (...) {
      // Run the job on fewer threads. Helpers may already work at it.
      slots_[index].is_scheduled.store(false);
    }
  }

  // If the slot still has its helper, the pool can spare this thread. The
  // helper then gets more time instead, as long as this thread is idle.
  void Join(int index) {
    Slot& slot = slots_[index];
    slot.end.store(Clock::now() + kHelperTime);
    const bool was_taken = slot.is_taken.exchange(true);
    slot.is_scheduled.store(false);
    if (was_taken) {
      idle_.Watch();
      return;
    }
    Help(index);
    slot.is_taken.store(false);
  }

  const Schedule& schedule_;  // used only by the calling thread
  const int num_threads_;
  const PoolUsers* const users_;
  std::vector<Job::Share> shares_;
  std::vector<Slot> slots_;  // indexed by worker
  Clock::time_point last_recruitment_;
  IdleThread idle_;
  SleepEvent caller_event_;
  alignas(kCacheLine) std::atomic<int> num_working_{0};  // helpers
  // Changed for each job.
  alignas(kCacheLine) std::atomic<Job*> job_{nullptr};
  std::atomic<std::int64_t> num_jobs_{0};  // including the current one
  std::atomic<bool> is_dismissed_{false};
};

PoolExecutor::Worker::Worker(Team& team, int index)
    : team_(team), index_(index) {}

bool PoolExecutor::Worker::MayContinue() {
  if (is_caller()) {
    team_.RecruitIfDue();
  } else {
    may_continue_ = team_.MayContinue(index_);
  }
  return may_continue_;
}

template <typename Condition>
bool PoolExecutor::Worker::WaitUntil(const Condition& condition) {
  if (is_caller()) {
    if (condition()) return true;
    const Clock::time_point begin = Clock::now();
    if (!SpinUntil(condition,
                   [&] { return Clock::now() - begin > kMaxSpin; })) {
      team_.caller_event().SleepUntil(condition);
    }
    return true;
  }
  const Clock::time_point begin = Clock::now();
  return SpinUntil(condition, [&] {
    if (Clock::now() - begin > kMaxSpin) std::this_thread::yield();
    return !MayContinue();
  });
}

void PoolExecutor::Worker::Notify() {
  if (!is_caller()) team_.caller_event().WakeSleeper();
}

PoolExecutor::PoolExecutor(Schedule schedule, int num_threads,
                           IsCancelled is_cancelled, PoolUsers* users)
    : Executor(std::move(is_cancelled)),
      schedule_(std::move(schedule)),
      num_threads_(std::max(1, num_threads)),
      users_(users),
      are_threads_awake_(users != nullptr && users->WereThreadsJustUsed()) {
  if (users_ != nullptr) users_->Enter();
}

PoolExecutor::~PoolExecutor() {
  if (team_ != nullptr) team_->Dismiss();
  if (users_ != nullptr) users_->Leave();
}

bool PoolExecutor::AreThreadsAwake() const { return are_threads_awake_; }

void PoolExecutor::RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                            const StepTask& task) {
  if (!RunAsTeam<StepJob>(num_steps, tasks_per_step, task)) {
    RunStepsSerially(num_steps, tasks_per_step, task);
  }
}

void PoolExecutor::RunSequences(std::int64_t num_steps,
                                std::int64_t num_sequences,
                                const StepTask& task) {
  if (!RunAsTeam<SequenceJob>(num_steps, num_sequences, task)) {
    RunSequencesSerially(num_steps, num_sequences, task);
  }
}

template <typename JobType>
bool PoolExecutor::RunAsTeam(std::int64_t num_steps,
                             std::int64_t tasks_per_step,
                             const StepTask& task) {
  const int num_workers =
      static_cast<int>(std::min<std::int64_t>(tasks_per_step, num_threads_));
  if (num_workers == 1) return false;
  if (team_ == nullptr) {
    try {
      team_ = std::make_shared<Team>(schedule_, num_threads_, users_);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  JobType job(num_steps, tasks_per_step, task, team_->shares(), num_workers);
  team_->Run(job);
  return true;
}

}  // namespace tf_rnn_ops::rnn
