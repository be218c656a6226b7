// What the engine takes for granted of the caches and of the CPU's speed.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_

#include <cstdint>

#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The bytes of a core's second-level cache.
constexpr std::int64_t kSecondLevelBytes = 2 << 20;

// The multiply-adds of a task at most: half a millisecond's or less, so that a
// thread can soon leave for other work.
template <typename T>
constexpr double kMostTaskWork = kVectorElements<T> * double{1 << 21};

// The least number of tasks for `work` multiply-adds.
template <typename T>
std::int64_t LeastTasks(double work) {
  constexpr double kUncounted = 0x1p31;
  const double tasks = work / kMostTaskWork<T>;
  const std::int64_t whole =
      static_cast<std::int64_t>(tasks < kUncounted ? tasks : kUncounted);
  return whole == 0 || static_cast<double>(whole) < tasks ? whole + 1 : whole;
}

// Whether an array, or null, is best written past the caches: it is too large
// to be in them when it is read, and its runs are whole cache lines.
// size: in elements; run: the elements that are written one after another
template <typename T>
bool IsBestUncached(const T* data, std::int64_t size, std::int64_t run) {
  constexpr std::int64_t kMostCached = kSecondLevelBytes / sizeof(T);
  return kVectorIsLine && data != nullptr && size > kMostCached &&
         run % kVectorElements<T> == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_CACHE_H_
