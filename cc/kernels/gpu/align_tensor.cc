#include "cc/kernels/align_tensor.h"

#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"

namespace tf_rnn_ops {

void AddGpuAlignTensorKernels(const DeviceKernels& kernels) {
  AlignTensorKernelsOn<GpuCopier>::Add(kernels);
}

}  // namespace tf_rnn_ops
