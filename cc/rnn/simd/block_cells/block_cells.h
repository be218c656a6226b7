// Defined in gru_block_cell.cc and lstm_block_cell.cc, once for each
// instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_BLOCK_CELLS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_BLOCK_CELLS_H_

#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/lstm_block_cell.h"

namespace tf_rnn_ops::rnn {

namespace baseline {
template <typename T>
GruBlockCellKernels<T> GruBlockCell();
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace baseline

namespace avx2 {
template <typename T>
GruBlockCellKernels<T> GruBlockCell();
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace avx2

namespace avx512 {
template <typename T>
GruBlockCellKernels<T> GruBlockCell();
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace avx512

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_BLOCK_CELLS_H_
