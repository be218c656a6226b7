// A stack that is deep enough for the engine, for threads whose stack is small.

#ifndef TF_RNN_OPS_CC_OPS_DEEP_STACK_H_
#define TF_RNN_OPS_CC_OPS_DEEP_STACK_H_

#include <string_view>
#include <thread>

#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// Whether the rest of the calling thread's stack is deep enough.
bool HasDeepStack();

// Returns body(), a Status. If the stack is not deep, another thread runs it.
// Throws an exception if that cannot be started.
// name: of the op.
template <typename Body>
Status OnDeepStack(std::string_view name, const Body& body) {
  if (HasDeepStack()) return body();
  Status status;
  std::thread([&] { status = CatchExceptions(name, body); }).join();
  return status;
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_DEEP_STACK_H_
