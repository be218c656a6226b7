// The ops, with the CPU engine.

#include "cc/ops/cpu/ops.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cc/ffi/handlers.h"
#include "cc/ffi/op.h"
#include "cc/ops/op.h"
#include "cc/ops/signature.h"

namespace tf_rnn_ops {
namespace {

// The position of an op in TfRnnOps_FfiOps.
const FfiOp& FindOp(std::string_view name) {
  const auto& ops = TfRnnOps_FfiOps();
  return *std::find_if(ops.begin(), ops.end(), [name](const FfiOp& op) {
    return op.signature->name == name;
  });
}

}  // namespace

#define TF_RNN_OPS_FOR_EACH_OP(define)                                      \
  define(GRUBlockCell) define(GRUBlockCellGrad) define(GRUBlockCellGradV2)  \
      define(CudnnRNN) define(CudnnRNNV2) define(CudnnRNNV3)                \
          define(StatelessCudnnRNN) define(CudnnRNNBackprop)                \
              define(CudnnRNNBackpropV2) define(CudnnRNNBackpropV3)         \
                  define(CudnnRNNBackpropGrad) define(CudnnRNNDropoutMasks) \
                      define(CudnnRNNParamsSize)                            \
                          define(CudnnRNNCanonicalToParams)                 \
                              define(CudnnRNNCanonicalToParamsV2)           \
                                  define(CudnnRNNParamsToCanonical)         \
                                      define(CudnnRNNParamsToCanonicalV2)   \
                                          define(KerasRNN)                  \
                                              define(KerasRNNBackprop)

#define TF_RNN_OPS_HANDLER(op)                                     \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* \
  TfRnnOps_##op(XLA_FFI_CallFrame* call) {                         \
    static const FfiOp& found = FindOp(#op);                       \
    return Handle(found, call);                                    \
  }
TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_HANDLER)

const std::vector<FfiOp>& TfRnnOps_FfiOps() {
  static const auto* const ops = [] {
#define TF_RNN_OPS_ENTRY(op) \
  {&FindSignature(#op), "TfRnnOps_" #op, &TfRnnOps_##op, {}},
    auto* list =
        new std::vector<FfiOp>{TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_ENTRY)};
    for (FfiOp& op : *list) {
      for (const OpEntry& entry : TfRnnOps_CpuOps()) {
        // The engine library has its own copy of the signatures.
        if (entry.signature->name == op.signature->name) {
          op.entries.push_back(&entry);
        }
      }
    }
    return list;
  }();
  return *ops;
}

}  // namespace tf_rnn_ops
