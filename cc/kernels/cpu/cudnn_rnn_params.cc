#include "cc/kernels/cudnn_rnn_params.h"

#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"

namespace tf_rnn_ops {

void AddCudnnRnnParamsKernels(const DeviceKernels& kernels) {
  CudnnRnnParamsKernelsOn<CpuCopier>::Add(kernels);
}

}  // namespace tf_rnn_ops
