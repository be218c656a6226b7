// Allocates arrays from one block of scratch memory.

#ifndef TF_RNN_OPS_CC_RNN_ARENA_H_
#define TF_RNN_OPS_CC_RNN_ARENA_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/checked_math.h"

namespace tf_rnn_ops::rnn {

// Allocates arrays from one block of memory, one after another. Without a
// block, only counts the bytes that these arrays need.
class Arena {
 public:
  // The alignment of each array, in bytes from the start of the block.
  static constexpr std::int64_t kAlignment = 64;

  // memory: the block; null to count only.
  explicit Arena(void* memory) : memory_(static_cast<char*>(memory)) {}

  // An array of `count` elements; null when only counting.
  template <typename T>
  T* Take(CheckedInt count) {
    assert(memory_ == nullptr || (used_ + count).valid());
    char* const array = memory_ == nullptr ? nullptr : memory_ + used_.value();
    const CheckedInt bytes = count * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t rest = bytes.value() % kAlignment;
    used_ = used_ + bytes + (rest == 0 ? 0 : kAlignment - rest);
    return reinterpret_cast<T*>(array);
  }

  // Accounts for the arrays taken from `copy`, a copy of this arena that may
  // share memory with the arrays taken from this one since it was copied.
  void Share(const Arena& copy) {
    if (!used_.valid()) return;
    if (!copy.used_.valid() || copy.used_.value() > used_.value()) {
      used_ = copy.used_;
    }
  }

  // The bytes allocated, or -1 if the count overflows std::int64_t.
  std::int64_t used() const { return used_.valid() ? used_.value() : -1; }

 private:
  char* const memory_;
  CheckedInt used_ = 0;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_ARENA_H_
