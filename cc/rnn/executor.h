// How the engine spreads work over threads.

#ifndef TF_RNN_OPS_CC_RNN_EXECUTOR_H_
#define TF_RNN_OPS_CC_RNN_EXECUTOR_H_

#include <cstdint>
#include <functional>

namespace tf_rnn_ops::rnn {

// Runs independent tasks. How they are spread over threads never changes what
// they compute: a task sees the same arguments and the same floating-point mode
// (denormals are flushed to zero) wherever it runs.
class Executor {
 public:
  using Task = std::function<void(std::int64_t)>;

  virtual ~Executor() = default;

  // Calls task(0), ..., task(count - 1), each once, in any order, and returns
  // when all have returned.
  void ParallelFor(std::int64_t count, const Task& task);

 private:
  virtual void Run(std::int64_t count, const Task& task) = 0;
};

// Runs every task on the calling thread.
class SerialExecutor final : public Executor {
 private:
  void Run(std::int64_t count, const Task& task) override;
};

// Shares tasks between the calling thread and a pool. The calling thread takes
// tasks like any other and waits only for tasks that a pool thread has already
// begun, so it makes progress even if the pool never starts a thread.
class PoolExecutor final : public Executor {
 public:
  // Hands a closure to the pool, to be run once at any later time.
  using Schedule = std::function<void(std::function<void()>)>;

  // num_threads: how many threads, the calling one included, may work at once.
  PoolExecutor(Schedule schedule, int num_threads);

 private:
  void Run(std::int64_t count, const Task& task) override;

  const Schedule schedule_;
  const int num_threads_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_EXECUTOR_H_
