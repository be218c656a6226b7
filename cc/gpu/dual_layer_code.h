// The compiled kernels of dual_layer.cu.

#ifndef TF_RNN_OPS_CC_GPU_DUAL_LAYER_CODE_H_
#define TF_RNN_OPS_CC_GPU_DUAL_LAYER_CODE_H_

#include "cc/gpu/device_code.h"

namespace tf_rnn_ops::gpu {

extern const DeviceCode kDualLayerCode;

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DUAL_LAYER_CODE_H_
