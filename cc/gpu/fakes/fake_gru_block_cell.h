// The GPU kernels of GRUBlockCell, compiled for the host.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_GRU_BLOCK_CELL_H_

#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/host_device.h"
// Must be included last: it is code.
#include "cc/gpu/gru_block_cell.cu"

namespace tf_rnn_ops::gpu {

inline void RegisterGruBlockCellKernels(FakeCudaDriver* driver) {
#define TF_RNN_OPS_REGISTER(name, Kernel, T) \
  driver->RegisterKernel(#name, OnHost(name));
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(TF_RNN_OPS_REGISTER)
#undef TF_RNN_OPS_REGISTER
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_GRU_BLOCK_CELL_H_
