// Registers kernels for TensorFlow's own ops, which have some for GPUs alone,
// when the library of these kernels is loaded.

#include "cc/kernels/cpu_kernels.h"
#include "cc/kernels/kernels.h"

namespace tf_rnn_ops {
namespace {

[[maybe_unused]] const bool registered = [] {
  const CpuKernels kernels(/*op_prefix=*/"");
  AddCudnnRnnKernels(kernels);
  AddCudnnRnnParamsKernels(kernels);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
