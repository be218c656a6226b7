// The ops, with the CPU engine.

#include <algorithm>
#include <cassert>
#include <string_view>
#include <vector>

#include "cc/ffi/ffi_op.h"
#include "cc/ffi/handlers.h"
#include "cc/ops/bodies.h"
#include "cc/ops/cpu/ops.h"
#include "cc/ops/op.h"
#include "cc/ops/signature.h"

namespace tf_rnn_ops {
namespace {

std::vector<FfiOp>& FfiOps() {
  static auto* const ops = new std::vector<FfiOp>;
  return *ops;
}

bool AddOp(std::string_view name, const char* target,
           XLA_FFI_Handler* handler) {
  FfiOp op = {&FindSignature(name), target, handler, {}};
  for (const OpEntry& entry : TfRnnOps_CpuOps()) {
    // The engine library has its own copy of the signatures.
    if (entry.signature->name == name) op.entries.push_back(&entry);
  }
  FfiOps().push_back(op);
  return true;
}

const FfiOp& FindOp(std::string_view name) {
  const auto found = std::find_if(
      FfiOps().begin(), FfiOps().end(),
      [name](const FfiOp& op) { return op.signature->name == name; });
  assert(found != FfiOps().end());
  return *found;
}

}  // namespace

const std::vector<FfiOp>& TfRnnOps_FfiOps() { return FfiOps(); }

// Defines the handler of an op, and adds it to the list when the library is
// loaded.
#define TF_RNN_OPS_HANDLER(op, ...)                                \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* \
  TfRnnOps_##op(XLA_FFI_CallFrame* call) {                         \
    static const FfiOp& found = FindOp(#op);                       \
    return Handle(found, call);                                    \
  }                                                                \
  [[maybe_unused]] static const bool added_##op =                  \
      AddOp(#op, "TfRnnOps_" #op, &TfRnnOps_##op);

TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_HANDLER, TF_RNN_OPS_HANDLER)

}  // namespace tf_rnn_ops
