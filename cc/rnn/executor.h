// Runs the engine's tasks on one or more threads.

#ifndef TF_RNN_OPS_CC_RNN_EXECUTOR_H_
#define TF_RNN_OPS_CC_RNN_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tf_rnn_ops::rnn {

// Minimum serial time, in microseconds, worth parallelizing: with threads that
// already spin for work, and with threads that must be woken first.
constexpr double kMinSharedMicros = 5;
constexpr double kMinWakeMicros = 20;

// Runs tasks. How tasks are spread over threads never changes what they
// compute: a task has the same arguments and the same floating-point mode
// (denormals are flushed to zero) on every thread. `worker` differs between
// tasks that run at the same time, so each worker can have its own scratch
// memory. Tasks must not call the executor, and must take at most a millisecond
// because threads join and leave between tasks.
//
// A cancelled executor skips tasks, so all calls return soon. A task that is
// still running may then read memory that a skipped task has not written.
// Therefore a task must never read an index or address from such memory.
class Executor {
 public:
  // Whether the results are no longer needed. Once true, it stays true.
  using IsCancelled = std::function<bool()>;
  using Task = std::function<void(std::int64_t task)>;
  using WorkerTask = std::function<void(std::int64_t task, int worker)>;
  using StepTask =
      std::function<void(std::int64_t step, std::int64_t task, int worker)>;

  // Not inline, and neither are the constructors: code compiled for one
  // instruction set must not be linked into code for another.
  virtual ~Executor();

  // Maximum number of tasks that run at the same time; `worker` is less.
  virtual int num_threads() const = 0;

  // Whether work with this serial time is worth parallelizing.
  bool IsWorthSharing(double microseconds) const;

  // Whether tasks are skipped. The results must then not be used.
  bool is_cancelled() const { return is_cancelled_ && is_cancelled_(); }

  // Calls task(0), ..., task(count - 1), each once, in any order. Returns when
  // all have returned.
  void ParallelFor(std::int64_t count, const Task& task);
  void ParallelFor(std::int64_t count, const WorkerTask& task);

  // Runs `num_steps` such loops. The tasks of a step see what all tasks of
  // earlier steps wrote. A step costs no more than synchronizing running
  // threads.
  void ParallelSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                     const StepTask& task);

  // The same for independent sequences: a task sees only what the tasks with
  // the same number wrote in earlier steps, and no sequence waits for another.
  void ParallelSequences(std::int64_t num_steps, std::int64_t num_sequences,
                         const StepTask& task);

 protected:
  // is_cancelled: empty if the executor is never cancelled.
  explicit Executor(IsCancelled is_cancelled);

 private:
  // Whether threads other than the calling one spin for work.
  virtual bool AreThreadsAwake() const = 0;
  // Called with at least one step and one task.
  virtual void RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                        const StepTask& task) = 0;
  virtual void RunSequences(std::int64_t num_steps, std::int64_t num_sequences,
                            const StepTask& task) = 0;

  void RunTask(const StepTask& task, std::int64_t step, std::int64_t i,
               int worker) const;

  const IsCancelled is_cancelled_;
};

// Runs every task on the calling thread.
class SerialExecutor final : public Executor {
 public:
  SerialExecutor();
  explicit SerialExecutor(IsCancelled is_cancelled);

  int num_threads() const override { return 1; }

 private:
  bool AreThreadsAwake() const override;
  void RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                const StepTask& task) override;
  void RunSequences(std::int64_t num_steps, std::int64_t num_sequences,
                    const StepTask& task) override;
};

// Counts the executors that use a pool, and records when the last one left. In
// a forked process, the executors of its parent no longer count.
class PoolUsers {
 public:
  void Enter();
  void Leave();

  // How many of `num_threads` threads each executor may use.
  int FairShare(int num_threads) const;

  // Whether an executor left the pool so recently that the pool's threads still
  // spin for work. In a quick succession of calls, the second call may have to
  // wake threads, and later calls find them awake.
  bool WereThreadsJustUsed() const;

 private:
  // The number of users, and in the upper half the process that counted them.
  std::atomic<std::uint64_t> users_{0};
  // In ticks of std::chrono::steady_clock.
  std::atomic<std::int64_t> last_{0};
};

// Shares tasks between the calling thread and the threads of a pool.
//
// The calling thread runs tasks like any other worker, and waits only for tasks
// that have begun: it makes progress even if the pool never starts a thread. It
// requests helpers from the pool. A helper spins for work between tasks, which
// costs less than waking a thread for each call. A helper leaves within 2 ms,
// when the executor is destroyed, or when the pool has so many users that its
// thread is needed elsewhere. Shortly before a helper leaves, the calling
// thread requests a replacement, which queues behind the pool's other work. If
// the replacement starts before the helper has left, the pool has a thread to
// spare, and the helper stays as long as that thread is idle.
class PoolExecutor final : public Executor {
 public:
  // Passes a closure to the pool, which runs it once at any later time, or
  // destroys it. If this throws an exception, the executor does without that
  // helper for now.
  using Schedule = std::function<void(std::function<void()>)>;

  // num_threads: the maximum number of threads, including the calling one;
  // values less than 1 mean 1. users: the users of the pool, to which this
  // executor is added. If null, this executor is the only user, and the threads
  // of the pool are assumed to be asleep.
  PoolExecutor(Schedule schedule, int num_threads,
               IsCancelled is_cancelled = {}, PoolUsers* users = nullptr);
  ~PoolExecutor() override;
  PoolExecutor(const PoolExecutor&) = delete;
  PoolExecutor& operator=(const PoolExecutor&) = delete;

  int num_threads() const override { return num_threads_; }

 private:
  class Job;
  class StepJob;
  class SequenceJob;
  class Team;
  class Worker;

  bool AreThreadsAwake() const override;
  void RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                const StepTask& task) override;
  void RunSequences(std::int64_t num_steps, std::int64_t num_sequences,
                    const StepTask& task) override;
  // Returns false if there is no other thread or not enough memory.
  template <typename JobType>
  bool RunAsTeam(std::int64_t num_steps, std::int64_t tasks_per_step,
                 const StepTask& task);

  const Schedule schedule_;
  const int num_threads_;
  PoolUsers* const users_;
  const bool are_threads_awake_;
  std::shared_ptr<Team> team_;  // created when there is work to share
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_EXECUTOR_H_
