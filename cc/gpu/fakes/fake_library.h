// What the fakes of the driver, cuDNN and cuBLAS share.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tf_rnn_ops::gpu {

// Unlike all others of the process: what was destroyed, or is left of another
// fake, is not mistaken for something new.
inline std::uintptr_t NewAddress() {
  static std::atomic<std::uintptr_t> last{0};
  return ++last;
}
template <typename Handle>
Handle NewHandle() {
  return reinterpret_cast<Handle>(NewAddress());
}

// Null if there is none.
template <typename Key, typename Value>
Value* FindIn(std::map<Key, Value>& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

struct FakeCall {
  std::string name;  // of the function, without _v2 if it is the driver's
};

// The calls of a library, and which of them are to fail.
// Call: a FakeCall. Status: 0 is success.
template <typename Call, typename Status>
class FakeLibrary {
 public:
  FakeLibrary(const FakeLibrary&) = delete;
  FakeLibrary& operator=(const FakeLibrary&) = delete;

  // Makes a later call of the function `name` do nothing and return `status`:
  // the next one, or that after so many others.
  void Fail(const std::string& name, Status status, int skipped_calls = 0) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    failures_.push_back({name, skipped_calls, status});
  }
  // The same for a call of any function that does not destroy: who gets an
  // error of one that does cannot do anything about it.
  void FailAny(Status status, int skipped_calls = 0) {
    Fail("", status, skipped_calls);
  }
  // Forgets what is still to fail; true if there was something.
  bool ClearFailures() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return !std::exchange(failures_, {}).empty();
  }

  // All calls since the beginning, or since the last ClearCalls, but those of
  // functions that return no status of their own.
  std::vector<Call> calls() const {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return calls_;
  }
  std::vector<Call> calls(const std::string& name) const {
    std::vector<Call> result = calls();
    result.erase(
        std::remove_if(result.begin(), result.end(),
                       [&](const Call& call) { return call.name != name; }),
        result.end());
    return result;
  }
  int CountCalls(const std::string& name) const {
    return static_cast<int>(calls(name).size());
  }
  void ClearCalls() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    calls_.clear();
  }

 protected:
  FakeLibrary() = default;
  ~FakeLibrary() = default;

  // Notes a call. Returns what it is to fail with, or success.
  Status Note(const Call& call) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    calls_.push_back(call);
    const bool destroys = call.name.find("Destroy") != std::string::npos;
    Status status{};
    for (auto failure = failures_.begin(); failure != failures_.end();) {
      const bool is_meant =
          failure->name.empty() ? !destroys : failure->name == call.name;
      if (is_meant && failure->skipped_calls-- == 0) {
        status = failure->status;
        failure = failures_.erase(failure);
      } else {
        ++failure;
      }
    }
    return status;
  }

  mutable std::recursive_mutex mutex_;

 private:
  struct Failure {
    std::string name;  // empty: any
    int skipped_calls;
    Status status;
  };

  std::vector<Failure> failures_;
  std::vector<Call> calls_;
};

// What a call returns. Each check is true if it holds and none before it
// failed.
template <typename Status, Status misuse>
class FakeCallStatus {
 public:
  FakeCallStatus(std::string name, Status status)
      : name_(std::move(name)), status_(status) {}

  bool ok() const { return status_ == Status{}; }
  Status status() const { return status_; }
  const std::string& name() const { return name_; }

  // Fails the test unless the condition holds.
  bool Expect(bool condition, const std::string& otherwise) {
    if (!condition && ok()) ADD_FAILURE() << name_ << ": " << otherwise;
    return Checked(condition);
  }
  // The same for a check that fails the test itself.
  bool Checked(bool holds) { return RefuseUnless(holds, misuse); }
  // Does not fail the test.
  bool RefuseUnless(bool condition, Status status) {
    if (!condition && ok()) status_ = status;
    return ok();
  }

 private:
  const std::string name_;
  Status status_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_
