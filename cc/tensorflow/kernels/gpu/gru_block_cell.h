// The GPU engine of GRUBlockCell and its gradients.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_GRU_BLOCK_CELL_H_

#include "cc/gpu/cublas.h"
#include "cc/gpu/gru_block_cell.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/gru_block_cell.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/gpu/op_call.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"

namespace tf_rnn_ops {

template <typename E>
class GpuGruBlockCellEngine {
 public:
  Status Forward(CallFrame* frame, const GruBlockCellInputs&,
                 rnn::GruBlockCellForward<E>* step) const {
    return Run(frame, gpu::RunGruBlockCellForward<E>, *step);
  }

  Status Backward(CallFrame* frame, const GruBlockCellInputs&,
                  rnn::GruBlockCellBackward<E>* step) const {
    return Run(frame, gpu::RunGruBlockCellBackward<E>, *step);
  }

 private:
  template <typename Step>
  static Status Run(CallFrame* frame,
                    Status (*run)(const gpu::Call&, gpu::Cublas&,
                                  bool allow_tf32, const Step&),
                    const Step& step) {
    OpCall call(ContextOf(frame));
    TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
    gpu::Cublas* cublas;
    TF_RNN_OPS_RETURN_IF_ERROR(gpu::Cublas::Get(&cublas));
    return run(call.call(), *cublas, AllowsTf32(), step);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_GRU_BLOCK_CELL_H_
