// Common code of the fake driver, cuDNN and cuBLAS.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Returns an address that is unique in the process, so that destroyed handles
// and handles of other fakes are detected.
inline std::uintptr_t NewAddress() {
  static std::atomic<std::uintptr_t> last{0};
  return ++last;
}
template <typename Handle>
Handle NewHandle() {
  return reinterpret_cast<Handle>(NewAddress());
}

// Returns null if the key is missing.
template <typename Key, typename Value>
Value* FindIn(std::map<Key, Value>& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

struct FakeCall {
  std::string name;  // of the function; driver functions without _v2
};

// Records the calls of a library, and makes some of them fail.
// Call: a FakeCall. Status: 0 is success.
template <typename Call, typename Status>
class FakeLibrary {
 public:
  FakeLibrary(const FakeLibrary&) = delete;
  FakeLibrary& operator=(const FakeLibrary&) = delete;

  // Makes a later call of the function `name` do nothing and return `status`:
  // the first one after `skipped_calls` calls.
  void Fail(const std::string& name, Status status, int skipped_calls = 0) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    failures_.push_back({name, skipped_calls, status});
  }
  // The same for any function except destroy functions, whose errors callers
  // cannot handle.
  void FailAny(Status status, int skipped_calls = 0) {
    Fail("", status, skipped_calls);
  }
  // Removes pending failures. Returns whether there were any.
  bool ClearFailures() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return !std::exchange(failures_, {}).empty();
  }

  // All calls since construction or the last ClearCalls, except of functions
  // that do not return a status.
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

  // Records a call. Returns the status to fail with, or success.
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

// Calls run() while the first, second, ... call of a library fails with
// `error`, until none fails. Expects statuses with a code, and messages that
// contain `texts`. Calls prepare() before each run, and then() after each that
// failed. Returns the number of runs that failed.
template <typename Library, typename Error>
int ExpectEachFailureIsReported(
    Library& library, Error error, StatusCode code,
    const std::vector<std::string>& texts, const std::function<Status()>& run,
    const std::function<void()>& prepare = [] {},
    const std::function<void()>& then = [] {}) {
  for (int failures = 0; failures < 10000; ++failures) {
    prepare();
    library.FailAny(error, failures);
    const Status status = run();
    if (library.ClearFailures()) {  // fewer calls than that
      EXPECT_TRUE(status.ok()) << status.message();
      return failures;
    }
    EXPECT_EQ(status.code(), code) << failures << ": " << status.message();
    for (const std::string& text : texts) {
      EXPECT_NE(status.message().find(text), std::string::npos)
          << failures << ": " << status.message();
    }
    then();
  }
  ADD_FAILURE() << "failures never end";
  return 0;
}

// The status of a call. Checks return true if they succeed and no earlier check
// has failed.
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
  // The same for a condition whose check has already failed the test.
  bool Checked(bool holds) { return FailCallUnless(holds, misuse); }
  // The same without failing the test.
  bool FailCallUnless(bool condition, Status status) {
    if (!condition && ok()) status_ = status;
    return ok();
  }

 private:
  const std::string name_;
  Status status_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_LIBRARY_H_
