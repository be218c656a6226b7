// Registers the kernels of our own ops for GPUs when the GPU library is loaded.

#include "cc/kernels/device_kernels.h"
#include "cc/kernels/gpu/kernels.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  const DeviceKernels kernels(tensorflow::DEVICE_GPU, "TfRnnOps>");
  AddGpuAlignTensorKernels(kernels);
  AddGpuCudnnRnnKernels(kernels);
  AddGpuCudnnRnnBackpropGradKernels(kernels);
  AddGpuCudnnRnnDropoutMasksKernels(kernels);
  AddGpuCudnnRnnParamsKernels(kernels);
  AddGpuGruBlockCellKernels(kernels);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
