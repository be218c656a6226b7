#include "cc/ops/deep_stack.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "third_party/glibc/older_functions.h"

TF_RNN_OPS_OLDER_FUNCTION(pthread_attr_getstack, "2.2.5");
TF_RNN_OPS_OLDER_FUNCTION(pthread_getattr_np, "2.2.5");

namespace tf_rnn_ops {
namespace {

// The engine takes up to 32 KiB, and more with a sanitizer.
constexpr std::uintptr_t kDeep = std::uintptr_t{128} << 10;

// The lowest address of the calling thread's stack; 0 if unknown.
std::uintptr_t FindStack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* stack = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &stack, &size);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<std::uintptr_t>(stack);
}

}  // namespace

bool HasDeepStack() {
  thread_local const std::uintptr_t stack = FindStack();
  const auto here =
      reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  // A coroutine may run on a stack that is not the thread's own.
  return here < stack || here - stack > kDeep;
}

}  // namespace tf_rnn_ops
