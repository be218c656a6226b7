// A plain pool of threads, for tests and benchmarks.

#ifndef TF_RNN_OPS_CC_RNN_THREADS_H_
#define TF_RNN_OPS_CC_RNN_THREADS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/rnn/executor.h"

namespace tf_rnn_ops::rnn {

// A pool of threads.
class Threads {
 public:
  explicit Threads(int size = 4) {
    for (int i = 0; i < size; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }
  // Runs what is still in the queue.
  ~Threads() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  PoolExecutor::Schedule Schedule() {
    return [this](std::function<void()> closure) {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(closure));
      changed_.notify_one();
    };
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> closure = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      closure();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_THREADS_H_
