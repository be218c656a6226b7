#include "cc/ops/cpu/ops.h"

#include <vector>

#include "cc/ops/cpu/copier.h"
#include "cc/ops/cpu/cudnn_rnn.h"
#include "cc/ops/cpu/cudnn_rnn_backward_grad.h"
#include "cc/ops/cpu/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cpu/gru_block_cell.h"
#include "cc/ops/cpu/keras_rnn.h"
#include "cc/ops/op.h"
#include "cc/ops/ops.h"

namespace tf_rnn_ops {
namespace {

struct CpuEngines {
  template <typename E>
  using Network = CpuNetwork<E>;
  template <typename E>
  using NetworkBackwardGrad = CpuNetworkBackwardGrad<E>;
  template <typename E>
  using GruBlockCell = CpuGruBlockCell<E>;
  using DropoutMasks = CpuDropoutMasks;
  using Copier = CpuCopier;
};

}  // namespace

const std::vector<OpEntry>& TfRnnOps_CpuOps() {
  static const auto* const ops = [] {
    auto* list = new OpList;
    Ops<CpuEngines>::AddTo(list);
    list->AddForEachFloat<KerasRnnForwardCall>("KerasRNN");
    list->AddForEachFloat<KerasRnnBackwardCall>("KerasRNNBackprop");
    list->AddForEachFloat<KerasRnnBackwardGradCall>("KerasRNNBackpropGrad");
    return list;
  }();
  return ops->entries();
}

}  // namespace tf_rnn_ops
