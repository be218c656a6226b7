// Device code, compiled by //third_party/cuda:device_code.bzl.

#ifndef TF_RNN_OPS_CC_GPU_DEVICE_CODE_H_
#define TF_RNN_OPS_CC_GPU_DEVICE_CODE_H_

#include <cstddef>

namespace tf_rnn_ops::gpu {

// An image for one compute capability, for cuModuleLoadData: machine code, or
// PTX, which the driver compiles.
struct DeviceImage {
  int major;
  int minor;
  bool is_ptx;
  const void* data;
  std::size_t size;
};

// The same code for several compute capabilities.
struct DeviceCode {
  const DeviceImage* images;
  std::size_t num_images;
};

// The kernels of arrays.cu, dual_layer.cu and gru_block_cell.cu.
extern const DeviceCode kArraysCode, kDualLayerCode, kGruBlockCellCode;

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DEVICE_CODE_H_
