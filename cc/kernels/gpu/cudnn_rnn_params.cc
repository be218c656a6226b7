#include "cc/kernels/cudnn_rnn_params.h"

#include "cc/kernels/gpu/engine.h"
#include "cc/kernels/gpu/kernels.h"

namespace tf_rnn_ops {

void AddGpuCudnnRnnParamsKernels(const DeviceKernels& kernels) {
  CudnnRnnParamsKernelsOn<GpuCopier>::Add(kernels);
}

}  // namespace tf_rnn_ops
