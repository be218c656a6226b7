// Registers kernels for TensorFlow's own ops, which have some for GPUs alone,
// when the library of these kernels is loaded.

#include <vector>

#include "cc/calls/cpu/ops.h"
#include "cc/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  // They outlive the kernels, which are never destroyed.
  static auto& ops = *new std::vector<OpEntry>;
  for (const OpEntry& op : TfRnnOps_CpuOps()) {
    if (op.is_tensorflows) ops.push_back(op);
  }
  RegisterKernels(tensorflow::DEVICE_CPU, /*op_prefix=*/"", ops);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
