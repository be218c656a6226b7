// Registers kernels for TensorFlow's own ops, which have some for GPUs alone,
// when the library of these kernels is loaded.

#include "cc/calls/cpu/ops.h"
#include "cc/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  AddCpuCudnnRnnOps(DeviceKernels(tensorflow::DEVICE_CPU, /*op_prefix=*/""));
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
