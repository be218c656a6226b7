// One step of the GRU cell that applies the reset gate before the recurrent
// product, forward and backward:
//
//   [r_bar u_bar] = [x h_prev] * w_ru + b_ru
//   r = sigmoid(r_bar)
//   u = sigmoid(u_bar)
//   c_bar = [x (h_prev ∘ r)] * w_c + b_c
//   c = tanh(c_bar)
//   h = u ∘ h_prev + (1 - u) ∘ c
//
// All arrays are dense, row-major and owned by the caller. Shapes are given in
// comments: B = batch, I = input_size and C = cell_size. An output must not
// overlap an input or another output. Arrays of size zero may be null.

#ifndef TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// T: Half, BFloat16, float or double.
template <typename T>
struct GruBlockCellForward {
  BlockCellSize size;
  const T* x;       // [B, I]
  const T* h_prev;  // [B, C]
  const T* w_ru;    // [I + C, 2C], reset gate first
  const T* w_c;     // [I + C, C]
  const T* b_ru;    // [2C]
  const T* b_c;     // [C]
  T* r;             // [B, C]
  T* u;             // [B, C]
  T* c;             // [B, C]
  T* h;             // [B, C]
  void* workspace;  // [GruBlockCellKernels::forward_workspace] bytes
};

// The vector-Jacobian product of the step, up to the gates. The gradients of
// the weights are products of these results with the inputs.
//
//   d_c_bar = (d_c + d_h ∘ (1 - u)) ∘ (1 - c ∘ c)
//   d_u_bar = (d_u + d_h ∘ (h_prev - c)) ∘ u ∘ (1 - u)
//   [d_x_2 d_h_prevr] = d_c_bar * w_c^T
//   d_r_bar = (d_r + d_h_prevr ∘ h_prev) ∘ r ∘ (1 - r)
//   [d_x_1 d_h_prev_1] = [d_r_bar d_u_bar] * w_ru^T
//   d_x = d_x_1 + d_x_2
//   d_h_prev = d_h_prev_1 + d_h_prevr ∘ r + d_h ∘ u
template <typename T>
struct GruBlockCellBackward {
  BlockCellSize size;
  const T* h_prev;   // [B, C]
  const T* w_ru;     // [I + C, 2C]
  const T* w_c;      // [I + C, C]
  const T* r;        // [B, C]
  const T* u;        // [B, C]
  const T* c;        // [B, C]
  const T* d_r;      // [B, C], or null for zeros
  const T* d_u;      // [B, C], or null for zeros
  const T* d_c;      // [B, C], or null for zeros
  const T* d_h;      // [B, C]
  T* d_x;            // [B, I]
  T* d_h_prev;       // [B, C]
  T* d_c_bar;        // [B, C]
  T* d_r_bar_u_bar;  // [B, 2C]
  void* workspace;   // [GruBlockCellKernels::backward_workspace] bytes
};

// The step, compiled for one instruction set.
template <typename T>
struct GruBlockCellKernels {
  // The bytes of scratch memory that a step needs with up to `num_threads`
  // threads, or -1 if they overflow std::int64_t. Only null pointers in the
  // arguments count.
  std::int64_t (*forward_workspace)(const GruBlockCellForward<T>&,
                                    int num_threads);
  std::int64_t (*backward_workspace)(const GruBlockCellBackward<T>&,
                                     int num_threads);
  // The results are bit-identical for any executor.
  void (*forward)(const GruBlockCellForward<T>&, Executor&);
  void (*backward)(const GruBlockCellBackward<T>&, Executor&);
};

// The kernels for a supported instruction set.
template <typename T>
GruBlockCellKernels<T> GetGruBlockCellKernels(InstructionSet instruction_set);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_H_
