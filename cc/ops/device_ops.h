// The bodies of the ops that every device supports, by the names of the ops.

#ifndef TF_RNN_OPS_CC_OPS_DEVICE_OPS_H_
#define TF_RNN_OPS_CC_OPS_DEVICE_OPS_H_

#include "cc/ops/cudnn_rnn.h"
#include "cc/ops/cudnn_rnn_backward_grad.h"
#include "cc/ops/cudnn_rnn_dropout_masks.h"
#include "cc/ops/cudnn_rnn_params.h"
#include "cc/ops/gru_block_cell.h"
#include "cc/ops/op.h"
#include "cc/rnn/join.h"

namespace tf_rnn_ops {

// Engines: has as members the engines of one device:
//
//   template <typename E> class Network;  // a NetworkEngine
//   template <typename E> class NetworkBackwardGrad;
//     // a NetworkBackwardGradEngine
//   template <typename E> class GruBlockCell;  // a GruBlockCellEngine
//   class DropoutMasks;                        // a DropoutMasksEngine
//   class Copier;                              // a Copier
template <typename Engines>
struct DeviceOps {
  template <typename E>
  using CudnnRnn =
      CudnnRnnForwardOp<typename Engines::template Network<E>, E, 1>;
  template <typename E>
  using CudnnRnnV2 =
      CudnnRnnForwardOp<typename Engines::template Network<E>, E, 2>;
  template <typename E>
  using CudnnRnnV3 =
      CudnnRnnForwardOp<typename Engines::template Network<E>, E, 3>;
  template <typename E>
  using StatelessCudnnRnn =
      CudnnRnnForwardOp<typename Engines::template Network<E>, E, 3,
                        /*is_stateless=*/true>;
  template <typename E>
  using CudnnRnnBackprop =
      CudnnRnnBackwardOp<typename Engines::template Network<E>, E, 1>;
  template <typename E>
  using CudnnRnnBackpropV2 =
      CudnnRnnBackwardOp<typename Engines::template Network<E>, E, 2>;
  template <typename E>
  using CudnnRnnBackpropV3 =
      CudnnRnnBackwardOp<typename Engines::template Network<E>, E, 3>;
  template <typename E>
  using CanonicalToParams =
      CudnnRnnCanonicalToParamsOp<typename Engines::Copier, E>;
  template <typename E>
  using ParamsToCanonical =
      CudnnRnnParamsToCanonicalOp<typename Engines::Copier, E>;
  template <typename E>
  using BackpropGrad =
      CudnnRnnBackwardGradOp<typename Engines::template NetworkBackwardGrad<E>,
                             E>;
  template <typename E>
  using DropoutMasks =
      CudnnRnnDropoutMasksOp<typename Engines::DropoutMasks, E>;
  template <typename E>
  using Cell =
      GruBlockCellForwardOp<typename Engines::template GruBlockCell<E>, E>;
  template <typename E>
  using CellGrad =
      GruBlockCellBackwardOp<typename Engines::template GruBlockCell<E>, E,
                             false>;
  template <typename E>
  using CellGradV2 =
      GruBlockCellBackwardOp<typename Engines::template GruBlockCell<E>, E,
                             true>;

  static void AddTo(OpList* list) {
    list->template AddForEachFloat<CudnnRnn>("CudnnRNN");
    list->template AddForEachFloat<CudnnRnnV2>("CudnnRNNV2");
    list->template AddForEachFloat<CudnnRnnV3>("CudnnRNNV3");
    list->template AddForEachFloat<StatelessCudnnRnn>("StatelessCudnnRNN");
    list->template AddForEachFloat<CudnnRnnBackprop>("CudnnRNNBackprop");
    list->template AddForEachFloat<CudnnRnnBackpropV2>("CudnnRNNBackpropV2");
    list->template AddForEachFloat<CudnnRnnBackpropV3>("CudnnRNNBackpropV3");
    list->template AddForEachFloat<BackpropGrad>("CudnnRNNBackpropGrad");
    list->template AddForEachFloat<DropoutMasks>("CudnnRNNDropoutMasks");
    list->template AddForEachInteger<CudnnRnnParamsSizeOp>(
        "CudnnRNNParamsSize");
    for (const char* version : {"", "V2"}) {
      list->template AddForEachFloat<CanonicalToParams>(
          rnn::Join("CudnnRNNCanonicalToParams", version));
      list->template AddForEachFloat<ParamsToCanonical>(
          rnn::Join("CudnnRNNParamsToCanonical", version));
    }
    list->template AddForEachFloat<Cell>("GRUBlockCell");
    list->template AddForEachFloat<CellGrad>("GRUBlockCellGrad");
    list->template AddForEachFloat<CellGradV2>("GRUBlockCellGradV2");
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_DEVICE_OPS_H_
