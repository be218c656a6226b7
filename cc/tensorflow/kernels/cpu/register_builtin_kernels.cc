// Registers CPU kernels for TensorFlow's ops: when the library of these kernels
// is loaded, for the ops that have only GPU kernels; when asked, for the
// others.

#include <vector>

#include "cc/ops/cpu/ops.h"
#include "cc/tensorflow/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

// Never destroyed, since the kernels refer to it.
const std::vector<OpEntry>& OpsOf(BuiltinOp builtin) {
  auto& ops = *new std::vector<OpEntry>;
  for (const OpEntry& op : TfRnnOps_CpuOps()) {
    if (op.signature->builtin == builtin) ops.push_back(op);
  }
  return ops;
}

[[maybe_unused]] const bool registered = [] {
  RegisterKernels(tensorflow::DEVICE_CPU, /*op_prefix=*/"",
                  OpsOf(BuiltinOp::kRunsOnGpusOnly));
  return true;
}();

}  // namespace

// Puts our CPU kernels in front of those that TensorFlow has for some of its
// ops, for all following sessions and functions. Cannot be undone.
extern "C" __attribute__((visibility("default"))) void
TfRnnOps_ReplaceBuiltinKernels() {
  // Two kernels of the same priority would be ambiguous.
  [[maybe_unused]] static const bool registered = [] {
    ReplaceKernels(tensorflow::DEVICE_CPU, OpsOf(BuiltinOp::kRunsOnCpus));
    return true;
  }();
}

}  // namespace tf_rnn_ops
