// The kernels, op family by op family.

#ifndef TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_
#define TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_

#include "cc/kernels/device_kernels.h"

namespace tf_rnn_ops {

// CudnnRNN, its versions and their backprops.
void AddCudnnRnnKernels(const DeviceKernels& kernels);

// CudnnRNNBackpropGrad, which TensorFlow has not.
void AddCudnnRnnBackpropGradKernels(const DeviceKernels& kernels);

// CudnnRNNDropoutMasks, which TensorFlow has not.
void AddCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels);

// CudnnRNNParamsSize, CudnnRNNCanonicalToParams, CudnnRNNParamsToCanonical and
// the versions of these.
void AddCudnnRnnParamsKernels(const DeviceKernels& kernels);

// KerasRNN and its gradient, which TensorFlow has not.
void AddKerasRnnKernels(const DeviceKernels& kernels);

// AlignTensor, which TensorFlow has not.
void AddAlignTensorKernels(const DeviceKernels& kernels);

// GRUBlockCell and its gradients.
void AddGruBlockCellKernels(const DeviceKernels& kernels);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_
