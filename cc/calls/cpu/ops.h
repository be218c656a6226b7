// All ops of the CPU.

#ifndef TF_RNN_OPS_CC_CALLS_CPU_OPS_H_
#define TF_RNN_OPS_CC_CALLS_CPU_OPS_H_

#include "cc/calls/cpu/cudnn_rnn.h"
#include "cc/calls/cpu/cudnn_rnn_backward_grad.h"
#include "cc/calls/cpu/cudnn_rnn_dropout_masks.h"
#include "cc/calls/cpu/engine.h"
#include "cc/calls/cpu/gru_block_cell.h"
#include "cc/calls/cpu/keras_rnn.h"
#include "cc/calls/ops.h"

namespace tf_rnn_ops {

struct CpuEngines {
  template <typename E>
  using CudnnRnn = CpuCudnnRnn<E>;
  template <typename E>
  using CudnnRnnBackwardGrad = CpuCudnnRnnBackwardGrad<E>;
  template <typename E>
  using GruBlockCell = CpuGruBlockCell<E>;
  using DropoutMasks = CpuDropoutMasks;
  using Copier = CpuCopier;
};

// Those whose names TensorFlow has, too, with kernels for GPUs alone.
template <typename Registry>
void AddCpuCudnnRnnOps(Registry&& registry) {
  Ops<CpuEngines>::AddCudnnRnn(registry);
}

// All others.
template <typename Registry>
void AddOtherCpuOps(Registry&& registry) {
  Ops<CpuEngines>::AddOthers(registry);
  registry.template AddForEachFloat<KerasRnnForwardCall>("KerasRNN");
  registry.template AddForEachFloat<KerasRnnBackwardCall>("KerasRNNBackprop");
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CPU_OPS_H_
