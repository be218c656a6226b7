#include "cc/ops/cpu/ops.h"

#include <vector>

#include "cc/ops/cpu/copier.h"
#include "cc/ops/cpu/cudnn_rnn.h"
#include "cc/ops/cpu/cudnn_rnn_backward_grad.h"
#include "cc/ops/cpu/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cpu/gru_block_cell.h"
#include "cc/ops/cpu/keras_rnn.h"
#include "cc/ops/device_ops.h"
#include "cc/ops/op.h"

namespace tf_rnn_ops {
namespace {

struct CpuEngines {
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
    auto* list = new OpList;
    DeviceOps<CpuEngines>::AddTo(list);
    list->AddForEachFloat<KerasRnnForwardOp>("KerasRNN");
    list->AddForEachFloat<KerasRnnBackwardOp>("KerasRNNBackprop");
    list->AddForEachFloat<KerasRnnBackwardGradOp>("KerasRNNBackpropGrad");
    return list;
  }();
  return ops->entries();
}

}  // namespace tf_rnn_ops
