// Registers the kernels of our own ops when the op library is loaded.

#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/device_kernels.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  const DeviceKernels kernels(tensorflow::DEVICE_CPU, "TfRnnOps>");
  AddAlignTensorKernels(kernels);
  AddCudnnRnnKernels(kernels);
  AddCudnnRnnBackpropGradKernels(kernels);
  AddCudnnRnnDropoutMasksKernels(kernels);
  AddCudnnRnnParamsKernels(kernels);
  AddGruBlockCellKernels(kernels);
  AddKerasRnnKernels(kernels);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
