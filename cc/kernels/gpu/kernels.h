// The kernels for GPUs, op family by op family.

#ifndef TF_RNN_OPS_CC_KERNELS_GPU_KERNELS_H_
#define TF_RNN_OPS_CC_KERNELS_GPU_KERNELS_H_

#include "cc/kernels/device_kernels.h"

namespace tf_rnn_ops {

// CudnnRNN, its versions and their backprops.
void AddGpuCudnnRnnKernels(const DeviceKernels& kernels);

// CudnnRNNBackpropGrad, which TensorFlow has not.
void AddGpuCudnnRnnBackpropGradKernels(const DeviceKernels& kernels);

// CudnnRNNDropoutMasks, which TensorFlow has not.
void AddGpuCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels);

// CudnnRNNParamsSize, CudnnRNNCanonicalToParams, CudnnRNNParamsToCanonical and
// the versions of these.
void AddGpuCudnnRnnParamsKernels(const DeviceKernels& kernels);

// AlignTensor, which TensorFlow has not.
void AddGpuAlignTensorKernels(const DeviceKernels& kernels);

// GRUBlockCell and its gradients.
void AddGpuGruBlockCellKernels(const DeviceKernels& kernels);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_GPU_KERNELS_H_
