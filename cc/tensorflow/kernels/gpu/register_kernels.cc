// Registers the GPU kernels of our ops when the GPU library is loaded.

#include "cc/ops/device_ops.h"
#include "cc/ops/op.h"
#include "cc/tensorflow/kernels/device_kernels.h"
#include "cc/tensorflow/kernels/gpu/cudnn_rnn.h"
#include "cc/tensorflow/kernels/gpu/cudnn_rnn_backward_grad.h"
#include "cc/tensorflow/kernels/gpu/cudnn_rnn_dropout_masks.h"
#include "cc/tensorflow/kernels/gpu/gru_block_cell.h"
#include "cc/tensorflow/kernels/gpu/op_call.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

struct GpuEngines {
  template <typename E>
  using Network = GpuNetworkEngine<E>;
  template <typename E>
  using NetworkBackwardGrad = GpuNetworkBackwardGradEngine<E>;
  template <typename E>
  using GruBlockCell = GpuGruBlockCellEngine<E>;
  using DropoutMasks = GpuDropoutMasksEngine;
  using Copier = GpuCopier;
};

[[maybe_unused]] const bool registered = [] {
  // Never destroyed, since the kernels refer to it.
  static auto& ops = *new OpList;
  DeviceOps<GpuEngines>::AddTo(&ops);
  RegisterKernels(tensorflow::DEVICE_GPU, "TfRnnOps>", ops.entries());
  RegisterAlignTensor<GpuCopier>(tensorflow::DEVICE_GPU);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
