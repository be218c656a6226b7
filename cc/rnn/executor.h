// How the engine spreads work over threads.

#ifndef TF_RNN_OPS_CC_RNN_EXECUTOR_H_
#define TF_RNN_OPS_CC_RNN_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tf_rnn_ops::rnn {

// Minimum serial time, in microseconds, worth sharing with other threads: with
// those that spin for work already, and with those that must be woken first.
constexpr double kMinSharedMicros = 5;
constexpr double kMinWakeMicros = 20;

// Runs tasks. How they are spread over threads never changes what they compute:
// a task has the same arguments and the same floating-point mode (denormals are
// flushed to zero) on each thread. `worker` tells tasks that run at the same
// time apart, so that each worker can have scratch memory of its own. Tasks do
// not call the executor, and take at most a millisecond: threads join and leave
// between tasks.
//
// Once the executor is cancelled, it skips tasks, so that all calls return
// soon. A task that is still running may then read memory that a skipped task
// has not written: tasks never take an index or address from such memory.
class Executor {
 public:
  // Whether nobody needs the results any more. Once true, it stays true.
  using IsCancelled = std::function<bool()>;
  using Task = std::function<void(std::int64_t task)>;
  using WorkerTask = std::function<void(std::int64_t task, int worker)>;
  using StepTask =
      std::function<void(std::int64_t step, std::int64_t task, int worker)>;

  // Not inline, like the constructors: code that is compiled for one
  // instruction set must not be linked into code for another.
  virtual ~Executor();

  // How many tasks may run at the same time: `worker` is less.
  virtual int num_threads() const = 0;

  // Whether work that takes one thread this long is worth sharing.
  bool IsWorthSharing(double microseconds) const;

  // Whether tasks are skipped: the results are then not to be used.
  bool is_cancelled() const { return is_cancelled_ && is_cancelled_(); }

  // Calls task(0), ..., task(count - 1), each once, in any order, and returns
  // when all have returned.
  void ParallelFor(std::int64_t count, const Task& task);
  void ParallelFor(std::int64_t count, const WorkerTask& task);

  // Does so `num_steps` times: the tasks of a step see what the tasks of all
  // steps before it wrote. A step costs no more than a hand-over between
  // running threads.
  void ParallelSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                     const StepTask& task);

  // The same for tasks that see only what the task of the same number wrote in
  // the steps before: sequences, none of which waits for another.
  void ParallelSequences(std::int64_t num_steps, std::int64_t num_sequences,
                         const StepTask& task);

 protected:
  // is_cancelled: empty if the executor is never cancelled.
  explicit Executor(IsCancelled is_cancelled);

 private:
  // Whether threads other than the calling one spin for work.
  virtual bool AreThreadsAwake() const = 0;
  // There is at least one step and one task.
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

// Counts the executors that use a pool, and keeps when the last one left.
class PoolUsers {
 public:
  void Enter();
  void Leave();

  // How many of `num_threads` threads each of them may use.
  int FairShare(int num_threads) const;

  // Whether an executor left the pool so recently that the pool's threads still
  // spin for work. If calls follow one another that closely, the second may
  // have to wake threads, and later ones find them awake.
  bool WereThreadsJustUsed() const;

 private:
  std::atomic<int> num_users_{0};
  // std::chrono::steady_clock's ticks.
  std::atomic<std::int64_t> last_{0};
};

// Shares tasks between the calling thread and a pool.
//
// The calling thread takes tasks like any other worker, and waits only for
// tasks that have begun: it makes progress even if the pool never starts a
// thread. It asks the pool for helpers. A helper spins for work between tasks,
// which costs less than waking a thread for each call. It leaves within 2 ms,
// when the executor is destroyed, or when the pool has so many users that its
// thread is needed elsewhere. Shortly before that, the calling thread
// asks the pool for a replacement, which queues behind the pool's other work.
// If the replacement starts before the helper has left, then the pool has a
// thread to spare: the helper stays for as long as that thread is idle.
class PoolExecutor final : public Executor {
 public:
  // Hands a closure to the pool, to be run once at any later time.
  using Schedule = std::function<void(std::function<void()>)>;

  // num_threads: the most threads at once, with the calling one; less than 1
  // is 1. users: the pool's users, to which this one is added; if null, it is
  // the only one, and the pool's threads count as asleep.
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
  // Returns false if there is no other thread, or no memory.
  template <typename JobType>
  bool RunAsTeam(std::int64_t num_steps, std::int64_t tasks_per_step,
                 const StepTask& task);

  const Schedule schedule_;
  const int num_threads_;
  PoolUsers* const users_;
  const bool are_threads_awake_;
  std::shared_ptr<Team> team_;  // made when there is work to share
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_EXECUTOR_H_
