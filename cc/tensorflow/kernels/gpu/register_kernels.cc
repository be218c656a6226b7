// Registers the GPU kernels of our ops when the GPU library is loaded.

#include "cc/ops/bodies.h"
#include "cc/ops/cudnn_rnn.h"
#include "cc/ops/cudnn_rnn_backward_grad.h"
#include "cc/ops/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cudnn_rnn_params.h"
#include "cc/ops/gru_block_cell.h"
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

struct Engines {
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
  static auto& list = *new OpList;
#define TF_RNN_OPS_SKIP(...)
  TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_ADD_BODY, TF_RNN_OPS_SKIP)
#undef TF_RNN_OPS_SKIP
  RegisterKernels(tensorflow::DEVICE_GPU, "TfRnnOps>", list.entries());
  RegisterAlignTensor<GpuCopier>(tensorflow::DEVICE_GPU);
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
