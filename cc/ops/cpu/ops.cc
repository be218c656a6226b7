#include "cc/ops/cpu/ops.h"

#include <vector>

#include "cc/ops/cpu/block_lstm.h"
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

template <typename E>
using Lstm = BlockLstmForwardOp<E, LstmVersion::kV1>;
template <typename E>
using LstmGrad = BlockLstmBackwardOp<E, LstmVersion::kV1>;
template <typename E>
using LstmV2 = BlockLstmForwardOp<E, LstmVersion::kV2>;
template <typename E>
using LstmGradV2 = BlockLstmBackwardOp<E, LstmVersion::kV2>;
template <typename E>
using LstmGradV3 = BlockLstmBackwardOp<E, LstmVersion::kV3>;

}  // namespace

const std::vector<OpEntry>& TfRnnOps_CpuOps() {
  static const auto* const ops = [] {
    auto* list = new OpList;
    DeviceOps<CpuEngines>::AddTo(list);
    list->AddForEachFloat<LstmBlockCellForwardOp>("LSTMBlockCell");
    list->AddForEachFloat<LstmBlockCellBackwardOp>("LSTMBlockCellGrad");
    list->AddForEachFloat<Lstm>("BlockLSTM");
    list->AddForEachFloat<LstmGrad>("BlockLSTMGrad");
    list->AddForEachFloat<LstmV2>("BlockLSTMV2");
    list->AddForEachFloat<LstmGradV2>("BlockLSTMGradV2");
    list->AddForEachFloat<LstmGradV3>("BlockLSTMGradV3");
    list->AddForEachFloat<KerasRnnForwardOp>("KerasRNN");
    list->AddForEachFloat<KerasRnnBackwardOp>("KerasRNNBackprop");
    list->AddForEachFloat<KerasRnnBackwardGradOp>("KerasRNNBackpropGrad");
    return list;
  }();
  return ops->entries();
}

}  // namespace tf_rnn_ops
