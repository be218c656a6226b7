// Registers the kernels of our own ops when the op library is loaded.

#include "cc/calls/cpu/engine.h"
#include "cc/calls/cpu/ops.h"
#include "cc/kernels/align_tensor.h"
#include "cc/kernels/device_kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  using AlignTensor = AlignTensorKernel<CpuCopier>;
  const DeviceKernels kernels(tensorflow::DEVICE_CPU, "TfRnnOps>");
  AddCpuCudnnRnnOps(kernels);
  AddOtherCpuOps(kernels);
  kernels.AddForEachFloat<AlignTensor, AlignTensor, AlignTensor, AlignTensor>(
      "AlignTensor");
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
