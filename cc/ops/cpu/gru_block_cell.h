// The CPU engine of GRUBlockCell and its gradients.

#ifndef TF_RNN_OPS_CC_OPS_CPU_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_OPS_CPU_GRU_BLOCK_CELL_H_

#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/gru_block_cell.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

template <typename E>
class CpuGruBlockCellEngine {
 public:
  Status Forward(CallFrame* frame, const GruBlockCellInputs& inputs,
                 rnn::GruBlockCellForward<E>* step) const {
    return RunPass(frame, inputs, kernels_.forward_workspace, kernels_.forward,
                   step);
  }

  Status Backward(CallFrame* frame, const GruBlockCellInputs& inputs,
                  rnn::GruBlockCellBackward<E>* step) const {
    return RunPass(frame, inputs, kernels_.backward_workspace,
                   kernels_.backward, step);
  }

 private:
  const rnn::GruBlockCellKernels<E> kernels_ =
      rnn::GetGruBlockCellKernels<E>(rnn::ActiveInstructionSet());
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_GRU_BLOCK_CELL_H_
