// Assumptions about the CPU's caches and speed.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_

#include <cstdint>

#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The size of a core's second-level cache.
constexpr std::int64_t kSecondLevelBytes = 2 << 20;

// Maximum multiply-adds of a task: at most half a millisecond, so that a thread
// can soon leave for other work.
template <typename T>
constexpr double kMostTaskWork = kVectorElements<T> * double{1 << 21};

// Minimum number of tasks for `work` multiply-adds.
template <typename T>
std::int64_t LeastTasks(double work) {
  constexpr double kUncounted = 0x1p31;
  const double tasks = work / kMostTaskWork<T>;
  const std::int64_t whole =
      static_cast<std::int64_t>(tasks < kUncounted ? tasks : kUncounted);
  return whole == 0 || static_cast<double>(whole) < tasks ? whole + 1 : whole;
}

// Whether an array should be written past the caches: it is too large to be
// cached when it is read later, and its runs are whole cache lines. `data` may
// be null.
// size: in elements; run: the number of consecutive elements written
template <typename T>
bool IsBestUncached(const T* data, std::int64_t size, std::int64_t run) {
  constexpr std::int64_t kMostCached = kSecondLevelBytes / sizeof(T);
  return kVectorIsLine && data != nullptr && size > kMostCached &&
         run % kVectorElements<T> == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_
