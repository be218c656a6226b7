// The ops that XLA calls.

#ifndef TF_RNN_OPS_CC_FFI_FFI_OP_H_
#define TF_RNN_OPS_CC_FFI_FFI_OP_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "cc/ops/op.h"
#include "cc/ops/signature.h"
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

// An op with its handler.
struct FfiOp {
  const Signature* signature;
  // The symbol of the handler. The handler is registered under the same name
  // for the stages instantiate and execute.
  const char* target;
  XLA_FFI_Handler* handler;
  // One for each type that the op supports.
  std::vector<const OpEntry*> entries;

  // The allowed types of an argument; kTypeOfOp if it has the type that the op
  // runs on.
  ElementTypes TypesOf(const Argument& argument) const {
    const std::string_view type = argument.type;
    if (type == "bool") return SetOf(XLA_FFI_DataType_PRED);
    if (type == "float") return SetOf(XLA_FFI_DataType_F32);
    if (type == "int8") return SetOf(XLA_FFI_DataType_S8);
    if (type == "int32") return SetOf(XLA_FFI_DataType_S32);
    if (type == "int64") return SetOf(XLA_FFI_DataType_S64);
    if (type == "masks_type") {
      return SetOf(XLA_FFI_DataType_F32) | SetOf(XLA_FFI_DataType_F64);
    }
    return kTypeOfOp;
  }
  // The types that the op runs on.
  ElementTypes types() const {
    ElementTypes types = 0;
    for (const OpEntry* entry : entries) types |= SetOf(ToFfiType(entry->type));
    return types;
  }
};

// All ops. Only for code that is built together with this library.
extern "C" __attribute__((visibility("default"))) const std::vector<FfiOp>&
TfRnnOps_FfiOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_FFI_FFI_OP_H_
