#include "cc/gpu/fakes/fake_gpu.h"

#include "cc/gpu/fakes/host_device.h"
// Must be included last: they are code.
#include "cc/gpu/arrays.cu"
#include "cc/gpu/dual_layer.cu"
#include "cc/gpu/gru_block_cell.cu"

namespace tf_rnn_ops::gpu {

FakeGpu::FakeGpu() {
#define TF_RNN_OPS_REGISTER(name, ...) \
  driver_.RegisterKernel(#name, OnHost(name));
  TF_RNN_OPS_ARRAY_KERNELS(TF_RNN_OPS_REGISTER)
  TF_RNN_OPS_DUAL_LAYER_KERNELS(TF_RNN_OPS_REGISTER)
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(TF_RNN_OPS_REGISTER)
#undef TF_RNN_OPS_REGISTER
  UseNewContext();
}

void FakeGpu::UseNewContext() {
  scope_.emplace(*driver_.driver());
  stream_ = driver_.NewStream(driver_.NewContext());
  EXPECT_TRUE(scope_->Enter(stream_).ok());
}

}  // namespace tf_rnn_ops::gpu
