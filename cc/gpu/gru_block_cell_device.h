// The element-wise parts of one step of GRUBlockCell, between its matrix
// products, for host and device. rnn/gru_block_cell.h has the formulas.
//
// A kernel is a struct with its arguments: dense row-major arrays with B =
// batch, I = input_size and C = cell_size. Compute(row, col) computes kWidth
// columns of one row of [B, width()].

#ifndef TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_DEVICE_H_
#define TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_DEVICE_H_

#include <cstdint>

#include "cc/gpu/device_math.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::gpu {

struct GruBlockCellShape {
  std::int64_t batch;
  std::int64_t input_size;
  std::int64_t cell_size;
  // Whether all rows of all arrays are aligned for vector access.
  bool is_aligned;
};

// Forward

// Concatenates the left operand of w_ru: [x h_prev].
template <typename T>
struct GruBlockCellJoin {
  GruBlockCellShape shape;
  const T* x;       // [B, I]
  const T* h_prev;  // [B, C]
  T* joined;        // [B, I + C]

  std::int64_t width() const { return shape.input_size + shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t state_col = col - shape.input_size;
    const T* from = state_col < 0 ? x + row * shape.input_size + col
                                  : h_prev + row * shape.cell_size + state_col;
    Copy<kWidth>(from, joined + row * width() + col);
  }
};

// r = sigmoid(r_bar + b_r), u = sigmoid(u_bar + b_u), and the left operand of
// w_c: [x r ∘ h_prev].
template <typename T>
struct GruBlockCellGates {
  GruBlockCellShape shape;
  const rnn::ComputeType<T>* bar;  // [B, 2C]: [r_bar u_bar] without biases
  const T* b_ru;                   // [2C]
  const T* h_prev;                 // [B, C]
  T* r;                            // [B, C]
  T* u;                            // [B, C]
  T* joined;                       // [B, I + C]: writes from column I

  std::int64_t width() const { return shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t cell_size = shape.cell_size;
    const std::int64_t fan_in = shape.input_size + cell_size;
    const std::int64_t i = row * cell_size + col;
    const auto* row_bar = bar + row * 2 * cell_size + col;
    const auto r_values =
        Sigmoid(Load<kWidth>(row_bar) + Load<kWidth>(b_ru + col));
    const auto u_values = Sigmoid(Load<kWidth>(row_bar + cell_size) +
                                  Load<kWidth>(b_ru + cell_size + col));
    const auto reset_state = r_values * Load<kWidth>(h_prev + i);
    Store(r_values, r + i);
    Store(u_values, u + i);
    Store(reset_state, joined + row * fan_in + shape.input_size + col);
  }
};

// c = tanh(c_bar + b_c), h = u ∘ h_prev + (1 - u) ∘ c
template <typename T>
struct GruBlockCellCandidate {
  GruBlockCellShape shape;
  const rnn::ComputeType<T>* bar;  // [B, C]: c_bar without bias
  const T* b_c;                    // [C]
  const T* h_prev;                 // [B, C]
  const T* u;                      // [B, C]
  T* c;                            // [B, C]
  T* h;                            // [B, C]

  std::int64_t width() const { return shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row * shape.cell_size + col;
    const auto c_values = Tanh(Load<kWidth>(bar + i) + Load<kWidth>(b_c + col));
    const auto u_values = Load<kWidth>(u + i);
    const auto state = Load<kWidth>(h_prev + i);
    Store(c_values, c + i);
    Store(u_values * state + (1 - u_values) * c_values, h + i);
  }
};

// Backward

// d_c_bar = (d_c + d_h ∘ (1 - u)) ∘ (1 - c ∘ c)
// d_u_bar = (d_u + d_h ∘ (h_prev - c)) ∘ u ∘ (1 - u)
template <typename T>
struct GruBlockCellCandidateGradient {
  GruBlockCellShape shape;
  const T* h_prev;   // [B, C]
  const T* u;        // [B, C]
  const T* c;        // [B, C]
  const T* d_u;      // [B, C], or null for zeros
  const T* d_c;      // [B, C], or null for zeros
  const T* d_h;      // [B, C]
  T* d_c_bar;        // [B, C]
  T* d_r_bar_u_bar;  // [B, 2C]: writes d_u_bar, from column C

  std::int64_t width() const { return shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t cell_size = shape.cell_size;
    const std::int64_t i = row * cell_size + col;
    const auto u_values = Load<kWidth>(u + i);
    const auto c_values = Load<kWidth>(c + i);
    const auto d_h_values = Load<kWidth>(d_h + i);
    const auto d_c_values =
        LoadOrZero<kWidth>(d_c, i) + d_h_values * (1 - u_values);
    const auto d_u_values = LoadOrZero<kWidth>(d_u, i) +
                            d_h_values * (Load<kWidth>(h_prev + i) - c_values);
    Store(d_c_values * (1 - c_values * c_values), d_c_bar + i);
    Store(d_u_values * u_values * (1 - u_values),
          d_r_bar_u_bar + row * 2 * cell_size + cell_size + col);
  }
};

// d_r_bar = (d_r + d_h_prevr ∘ h_prev) ∘ r ∘ (1 - r)
// and replaces d_h_prevr by d_h_prevr ∘ r + d_h ∘ u
template <typename T>
struct GruBlockCellResetGradient {
  GruBlockCellShape shape;
  const T* h_prev;                  // [B, C]
  const T* r;                       // [B, C]
  const T* u;                       // [B, C]
  const T* d_r;                     // [B, C], or null for zeros
  const T* d_h;                     // [B, C]
  rnn::ComputeType<T>* d_operands;  // [B, I + C]: [d_x_2 d_h_prevr]
  T* d_r_bar_u_bar;                 // [B, 2C]: writes d_r_bar, up to column C

  std::int64_t width() const { return shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t cell_size = shape.cell_size;
    const std::int64_t fan_in = shape.input_size + cell_size;
    const std::int64_t i = row * cell_size + col;
    auto* d_operand = d_operands + row * fan_in + shape.input_size + col;
    const auto r_values = Load<kWidth>(r + i);
    const auto d_h_prevr = Load<kWidth>(d_operand);
    const auto d_r_values =
        LoadOrZero<kWidth>(d_r, i) + d_h_prevr * Load<kWidth>(h_prev + i);
    const auto d_h_prev =
        d_h_prevr * r_values + Load<kWidth>(d_h + i) * Load<kWidth>(u + i);
    Store(d_r_values * r_values * (1 - r_values),
          d_r_bar_u_bar + row * 2 * cell_size + col);
    Store(d_h_prev, d_operand);
  }
};

// Splits the gradient of [x h_prev].
template <typename T>
struct GruBlockCellSplit {
  GruBlockCellShape shape;
  const rnn::ComputeType<T>* d_operands;  // [B, I + C]
  T* d_x;                                 // [B, I]
  T* d_h_prev;                            // [B, C]

  std::int64_t width() const { return shape.input_size + shape.cell_size; }

  template <int kWidth>
  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t state_col = col - shape.input_size;
    T* to = state_col < 0 ? d_x + row * shape.input_size + col
                          : d_h_prev + row * shape.cell_size + state_col;
    Store(Load<kWidth>(d_operands + row * width() + col), to);
  }
};

// Calls F(name, Kernel, T) for every kernel and type.
#define TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(F)                             \
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS_OF(F, float, float)                  \
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS_OF(F, double, double)                \
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS_OF(F, half, ::tf_rnn_ops::rnn::Half) \
  TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS_OF(F, bfloat16, ::tf_rnn_ops::rnn::BFloat16)
#define TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS_OF(F, type, T)                     \
  F(gru_block_cell_join_##type, GruBlockCellJoin, T)                         \
  F(gru_block_cell_gates_##type, GruBlockCellGates, T)                       \
  F(gru_block_cell_candidate_##type, GruBlockCellCandidate, T)               \
  F(gru_block_cell_candidate_gradient_##type, GruBlockCellCandidateGradient, \
    T)                                                                       \
  F(gru_block_cell_reset_gradient_##type, GruBlockCellResetGradient, T)      \
  F(gru_block_cell_split_##type, GruBlockCellSplit, T)

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_GRU_BLOCK_CELL_DEVICE_H_
