// One step of the GRU cell of rnn/gru_block_cell.h on a GPU. Arrays are on the
// GPU, aligned to their elements. Ignores `workspace`.
//
// Returns kUnimplemented if a size overflows cuBLAS's types or 64 bits.

#ifndef TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_H_

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// T: Half, BFloat16, float or double.
// allow_tf32: whether float32 operands of products may be rounded to 10 bits.
template <typename T>
Status RunGruBlockCellForward(const Call& call, Cublas& cublas, bool allow_tf32,
                              const rnn::GruBlockCellForward<T>& step);

template <typename T>
Status RunGruBlockCellBackward(const Call& call, Cublas& cublas,
                               bool allow_tf32,
                               const rnn::GruBlockCellBackward<T>& step);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_H_
