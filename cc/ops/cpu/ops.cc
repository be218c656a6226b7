#include "cc/ops/cpu/ops.h"

#include <vector>

#include "cc/ops/bodies.h"
#include "cc/ops/cpu/block_lstm.h"
#include "cc/ops/cpu/copier.h"
#include "cc/ops/cpu/cudnn_rnn.h"
#include "cc/ops/cpu/cudnn_rnn_backward_grad.h"
#include "cc/ops/cpu/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cpu/gru_block_cell.h"
#include "cc/ops/cpu/keras_rnn.h"
#include "cc/ops/cudnn_rnn.h"
#include "cc/ops/cudnn_rnn_backward_grad.h"
#include "cc/ops/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cudnn_rnn_params.h"
#include "cc/ops/gru_block_cell.h"
#include "cc/ops/op.h"

namespace tf_rnn_ops {
namespace {

struct Engines {
  template <typename E>
  using Network = CpuNetworkEngine<E>;
  template <typename E>
  using NetworkBackwardGrad = CpuNetworkBackwardGradEngine<E>;
  template <typename E>
  using GruBlockCell = CpuGruBlockCellEngine<E>;
  using DropoutMasks = CpuDropoutMasksEngine;
  using Copier = CpuCopier;
};

}  // namespace

const std::vector<OpEntry>& TfRnnOps_CpuOps() {
  static const auto* const ops = [] {
    OpList list;
    TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_ADD_BODY, TF_RNN_OPS_ADD_BODY)
    return new std::vector<OpEntry>(list.entries());
  }();
  return *ops;
}

}  // namespace tf_rnn_ops
