// Registers CPU kernels for TensorFlow's ops that have only GPU kernels, when
// the library of these kernels is loaded.

#include <vector>

#include "cc/ops/cpu/ops.h"
#include "cc/tensorflow/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  // Never destroyed, since the kernels refer to it.
  static auto& ops = *new std::vector<OpEntry>;
  for (const OpEntry& op : TfRnnOps_CpuOps()) {
    if (op.signature->is_builtin) ops.push_back(op);
  }
  RegisterKernels(tensorflow::DEVICE_CPU, /*op_prefix=*/"", ops);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
