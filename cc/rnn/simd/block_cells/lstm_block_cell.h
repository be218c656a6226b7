// Defined in lstm_block_cell.cc, once for each instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_CELL_H_

#include "cc/rnn/lstm_block_cell.h"

namespace tf_rnn_ops::rnn {

namespace baseline {
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace baseline

namespace avx2 {
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace avx2

namespace avx512 {
template <typename T>
LstmBlockCellKernels<T> LstmBlockCell();
}  // namespace avx512

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_CELL_H_
