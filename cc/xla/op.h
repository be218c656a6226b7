// The ops that XLA calls, and what they are given and make.

#ifndef TF_RNN_OPS_CC_XLA_OP_H_
#define TF_RNN_OPS_CC_XLA_OP_H_

#include <cstdint>
#include <vector>

#include "cc/calls/op.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// A set of element types.
using ElementTypes = std::uint64_t;
constexpr ElementTypes SetOf(XLA_FFI_DataType type) {
  return ElementTypes{1} << type;
}
// No type of its own, but that which the op runs on.
constexpr ElementTypes kTypeOfOp = 0;

// The attribute of a call that names outputs that need not be made, a list of
// strings.
constexpr char kUnwantedOutputs[] = "unwanted_outputs";

// An input or output, as the op's definition in cc/ops has it.
struct Argument {
  const char* name;
  ElementTypes types = kTypeOfOp;
  // The attribute that counts the arrays of a list; null if there is one array.
  const char* count = nullptr;
  // Whether sizes of outputs follow from the elements of an input.
  bool is_size = false;
};

inline XLA_FFI_DataType ToFfiType(ElementType type) {
  switch (type) {
    case ElementType::kFloat:
      return XLA_FFI_DataType_F32;
    case ElementType::kDouble:
      return XLA_FFI_DataType_F64;
    case ElementType::kHalf:
      return XLA_FFI_DataType_F16;
    case ElementType::kBFloat16:
      return XLA_FFI_DataType_BF16;
    case ElementType::kInt32:
      return XLA_FFI_DataType_S32;
    case ElementType::kInt64:
      return XLA_FFI_DataType_S64;
  }
  return XLA_FFI_DataType_INVALID;
}

struct OpDefinition {
  // Without a prefix.
  const char* name;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  // The symbol of the handler, which it is registered under, too, for the
  // stages instantiate and execute.
  const char* target;
  XLA_FFI_Handler* handler;
  // One for each type that the op runs on.
  std::vector<const OpEntry*> entries = {};

  ElementTypes types() const {
    ElementTypes types = 0;
    for (const OpEntry* entry : entries) types |= SetOf(ToFfiType(entry->type));
    return types;
  }
};

// All of them, for a library that is built together with this one.
extern "C" __attribute__((visibility("default")))
const std::vector<OpDefinition>&
TfRnnOps_FfiOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_XLA_OP_H_
