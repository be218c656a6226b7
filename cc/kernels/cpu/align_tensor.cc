#include "cc/kernels/align_tensor.h"

#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"

namespace tf_rnn_ops {

void AddAlignTensorKernels(const DeviceKernels& kernels) {
  AlignTensorKernelsOn<CpuCopier>::Add(kernels);
}

}  // namespace tf_rnn_ops
