// One step of TensorFlow's LSTMBlockCell, forward and backward. BlockLstm in
// rnn_config.h describes the options, and lstm_cell.h the formulas. The gates
// are in the order i, g, f, o in w and b.
//
// All arrays are dense, row-major and owned by the caller. Shapes are given in
// comments: B = batch, I = input_size and C = cell_size. An output must not
// overlap an input or another output. Arrays of size zero may be null.

#ifndef TF_RNN_OPS_CC_RNN_LSTM_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_RNN_LSTM_BLOCK_CELL_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn {

// T: Half, BFloat16, float or double.
template <typename T>
struct LstmBlockCellForward {
  BlockCellSize size;
  BlockLstm options;
  const T* x;                      // [B, I]
  const T* c_prev;                 // [B, C]
  const T* h_prev;                 // [B, C]
  const T* w;                      // [I + C, 4C]
  const T* b;                      // [4C]
  Peepholes<const T> peepholes;    // [C]
  LstmActivations<T> activations;  // [B, C], or null if not needed
  T* h;                            // [B, C], or null if not needed
  void* workspace;  // [LstmBlockCellKernels::forward_workspace] bytes
};

// The vector-Jacobian product of the step, up to the gates.
template <typename T>
struct LstmBlockCellBackward {
  BlockCellSize size;
  BlockLstm options;
  const T* c_prev;                       // [B, C]
  Peepholes<const T> peepholes;          // [C]
  LstmActivations<const T> activations;  // [B, C]
  const T* d_c;                          // [B, C]
  const T* d_h;                          // [B, C]
  T* d_c_prev;                           // [B, C]
  T* d_gates;                            // [B, 4C], in the order of w
  Peepholes<T> d_peepholes;              // [C]
  void* workspace;  // [LstmBlockCellKernels::backward_workspace] bytes
};

// The step, compiled for one instruction set.
template <typename T>
struct LstmBlockCellKernels {
  // The bytes of scratch memory that a step needs with up to `num_threads`
  // threads, or -1 if they overflow std::int64_t. Only null pointers in the
  // arguments count.
  std::int64_t (*forward_workspace)(const LstmBlockCellForward<T>&,
                                    int num_threads);
  std::int64_t (*backward_workspace)(const LstmBlockCellBackward<T>&,
                                     int num_threads);
  // The results are bit-identical for any executor.
  void (*forward)(const LstmBlockCellForward<T>&, Executor&);
  void (*backward)(const LstmBlockCellBackward<T>&, Executor&);
};

// The kernels for a supported instruction set.
template <typename T>
LstmBlockCellKernels<T> GetLstmBlockCellKernels(InstructionSet instruction_set);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_LSTM_BLOCK_CELL_H_
