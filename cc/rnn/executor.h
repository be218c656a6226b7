// How the engine spreads work over threads.

#ifndef TF_RNN_OPS_CC_RNN_EXECUTOR_H_
#define TF_RNN_OPS_CC_RNN_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace tf_rnn_ops::rnn {

// Minimum serial time, in microseconds, worth sharing among threads: those that
// look out for work already, and those that must be woken first.
constexpr double kMinSharedMicros = 5;
constexpr double kMinWakeMicros = 20;

// Runs tasks. How they are spread over threads never changes what they compute:
// a task sees the same arguments and the same floating-point mode (denormals
// are flushed to zero) wherever it runs. Only `worker` tells where that is: no
// two tasks that run at the same time are given the same one, so that each
// worker can have scratch memory of its own. Tasks do not call the executor
// themselves, and take no longer than a millisecond: threads come and go
// between tasks.
//
// From when the executor is cancelled on, tasks are left out, so that the
// calls that remain return at once. One that runs already may then read what a
// task that was left out has not written: no task takes a place in memory from
// what another wrote.
class Executor {
 public:
  // Whether nobody wants the results any more. Never takes it back.
  using IsCancelled = std::function<bool()>;
  using Task = std::function<void(std::int64_t task)>;
  using WorkerTask = std::function<void(std::int64_t task, int worker)>;
  using StepTask =
      std::function<void(std::int64_t step, std::int64_t task, int worker)>;

  // Not inline, like the constructors: what creates an executor for one
  // instruction set must not be linked into code for another.
  virtual ~Executor();

  // How many tasks may run at the same time: `worker` is less.
  virtual int num_threads() const = 0;

  // Whether work is better shared, among threads if there are several, that
  // takes one of them so long.
  bool IsWorthSharing(double microseconds) const;

  // Whether tasks are left out: what they write is then not to be used.
  bool is_cancelled() const { return is_cancelled_ && is_cancelled_(); }

  // Calls task(0), ..., task(count - 1), each once, in any order, and returns
  // when all have returned.
  void ParallelFor(std::int64_t count, const Task& task);
  void ParallelFor(std::int64_t count, const WorkerTask& task);

  // Does so `num_steps` times, one step after another: the tasks of a step see
  // what those of all steps before it did. A step costs no more than a
  // hand-over between threads that are already there.
  void ParallelSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                     const StepTask& task);

  // The same for tasks that see only what the task of the same number did in
  // the steps before: sequences, none of which waits for another.
  void ParallelSequences(std::int64_t num_steps, std::int64_t num_sequences,
                         const StepTask& task);

 protected:
  // is_cancelled: nothing, if it never is.
  explicit Executor(IsCancelled is_cancelled);

 private:
  // Whether threads other than the calling one are looking out for work.
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

// The executors that use a pool now, and when the last one went.
class PoolUsers {
 public:
  void Enter();
  void Leave();

  // How many threads each of them may use, of so many.
  int FairShare(int num_threads) const;

  // Whether one was there just now, be there work for the pool's threads or
  // not: for a while after they had some, these look out for more. Where calls
  // follow one another more closely than that, the second may have to wake
  // threads, and those after it find them awake.
  bool WasOneThereJustNow() const;

 private:
  std::atomic<int> num_users_{0};
  // std::chrono::steady_clock's ticks.
  std::atomic<std::int64_t> last_{0};
};

// Shares tasks between the calling thread and a pool.
//
// The calling thread takes tasks like any other and waits only for tasks that
// have begun, so it makes progress even if the pool never starts a thread. It
// asks the pool for helpers. A helper looks out for work between tasks, which
// costs less than to wake one for each call. It leaves 2 ms after it came, when
// the executor is gone, or when the pool has so many users that its thread is
// wanted elsewhere. Shortly before the 2 ms are over, the calling thread asks
// the pool for the next one, which comes after what waits in the pool. If it
// comes before the helper has left, then the pool has a thread to spare and
// nothing waits: the helper stays in its place, and on for as long as the spare
// thread has nothing to do.
class PoolExecutor final : public Executor {
 public:
  // Hands a closure to the pool, to be run once at any later time.
  using Schedule = std::function<void(std::function<void()>)>;

  // num_threads: how many threads, the calling one included, may work at once;
  // less than one means the calling one.
  // users: those of the pool, among which this one is counted; if null, it is
  // the only one, and the pool's threads are taken to be asleep.
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
  // Whether that was possible; there may be no other thread, or no memory.
  template <typename JobType>
  bool RunAsTeam(std::int64_t num_steps, std::int64_t tasks_per_step,
                 const StepTask& task);

  const Schedule schedule_;
  const int num_threads_;
  PoolUsers* const users_;
  const bool are_threads_awake_;
  std::shared_ptr<Team> team_;  // made when there is work to be shared
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_EXECUTOR_H_
