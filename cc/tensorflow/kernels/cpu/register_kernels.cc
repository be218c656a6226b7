// Registers the kernels of our own ops when the op library is loaded.

#include "cc/ops/cpu/copier.h"
#include "cc/ops/cpu/ops.h"
#include "cc/tensorflow/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  RegisterKernels(tensorflow::DEVICE_CPU, "TfRnnOps>", TfRnnOps_CpuOps());
  RegisterAlignTensor<CpuCopier>(tensorflow::DEVICE_CPU);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
