// The ops that XLA calls: what they are given and make, and their bodies.

#ifndef TF_RNN_OPS_CC_XLA_OP_H_
#define TF_RNN_OPS_CC_XLA_OP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// A set of element types.
using ElementTypes = std::uint64_t;
constexpr ElementTypes SetOf(XLA_FFI_DataType type) {
  return ElementTypes{1} << type;
}
// No type of its own, but that which the op runs on.
constexpr ElementTypes kTypeOfOp = 0;

// An input or output, as the op's definition in cc/ops has it.
struct Argument {
  const char* name;
  ElementTypes types = kTypeOfOp;
  // The attribute that counts the arrays of a list; null if there is one array.
  const char* count = nullptr;
  // Whether sizes of outputs follow from the elements of an input.
  bool is_size = false;
};

// The body of an op for each type that it runs on.
class Op {
 public:
  virtual ~Op() = default;

  // As the members of a class in cc/calls.
  virtual Status Init(const Attributes& attributes) = 0;
  virtual Status Run(XLA_FFI_DataType type, CallFrame* frame) = 0;
};

struct OpDefinition {
  // Without a prefix.
  const char* name;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  // The symbol of the handler, which it is registered under, too, for the
  // stages instantiate and execute.
  const char* target;
  XLA_FFI_Handler* handler;
  std::unique_ptr<Op> (*make)() = nullptr;
  // That the op runs on.
  ElementTypes types = 0;
  // Whether TensorFlow has an op of the same name.
  bool is_tensorflows = false;
};

// All of them, for a library that is built together with this one.
extern "C" __attribute__((visibility("default")))
const std::vector<OpDefinition>&
TfRnnOps_FfiOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_XLA_OP_H_
