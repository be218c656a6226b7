// The GPU kernels for second derivatives, compiled for the host.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_DUAL_LAYER_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_DUAL_LAYER_H_

#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/host_device.h"
// Must be included last: it is code.
#include "cc/gpu/dual_layer.cu"

namespace tf_rnn_ops::gpu {

inline void RegisterDualLayerKernels(FakeCudaDriver* driver) {
#define TF_RNN_OPS_REGISTER(name, Kernel) \
  driver->RegisterKernel(#name, OnHost(name));
  TF_RNN_OPS_DUAL_LAYER_KERNELS(TF_RNN_OPS_REGISTER)
#undef TF_RNN_OPS_REGISTER
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_DUAL_LAYER_H_
