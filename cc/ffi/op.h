// The ops that XLA calls, and their inputs and outputs.

#ifndef TF_RNN_OPS_CC_FFI_OP_H_
#define TF_RNN_OPS_CC_FFI_OP_H_

#include <cstdint>
#include <vector>

#include "cc/ops/op.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// A set of element types.
using ElementTypes = std::uint64_t;
constexpr ElementTypes SetOf(XLA_FFI_DataType type) {
  return ElementTypes{1} << type;
}
// For an argument that has the type that the op runs on.
constexpr ElementTypes kTypeOfOp = 0;

// The attribute of a call that lists the names of outputs not to compute.
constexpr char kUnwantedOutputs[] = "unwanted_outputs";

// An input or output, as in the op definition in cc/tensorflow/ops.
struct Argument {
  const char* name;
  ElementTypes types = kTypeOfOp;
  // For a list, the attribute with the number of its arrays; else null.
  const char* count = nullptr;
  // Whether sizes of outputs depend on the values of this input.
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
  // The symbol of the handler. The handler is registered under the same name
  // for the stages instantiate and execute.
  const char* target;
  XLA_FFI_Handler* handler;
  // One for each type that the op supports.
  std::vector<const OpEntry*> entries = {};

  ElementTypes types() const {
    ElementTypes types = 0;
    for (const OpEntry* entry : entries) types |= SetOf(ToFfiType(entry->type));
    return types;
  }
};

// All ops. Only for code that is built together with this library.
extern "C" __attribute__((visibility("default")))
const std::vector<OpDefinition>&
TfRnnOps_FfiOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_FFI_OP_H_
