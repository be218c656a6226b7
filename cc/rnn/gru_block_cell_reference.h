// Shared by the tests of GRUBlockCell's engines: cells, their inputs, and the
// plain reference.

#ifndef TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_REFERENCE_H_
#define TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_REFERENCE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "cc/rnn/float16.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {

struct Case {
  BlockCellSize size;
  Array x, h_prev, w_ru, w_c, b_ru, b_c;
  Array d_r, d_u, d_c, d_h;
};

struct ForwardResult {
  Array r, u, c, h;
};

struct BackwardResult {
  Array d_x, d_h_prev, d_c_bar, d_r_bar_u_bar;
};

inline Case RandomCase(const BlockCellSize& size, unsigned seed) {
  std::mt19937 generator(seed);
  const auto random = [&](std::int64_t count, double scale) {
    return RandomArray(count, scale, generator);
  };
  const auto [batch, input_size, cell_size] = size;
  const std::int64_t state = batch * cell_size;
  const std::int64_t fan_in = input_size + cell_size;
  const double scale = fan_in == 0 ? 1 : 1 / std::sqrt(fan_in);
  return Case{size,
              random(batch * input_size, 1),
              random(state, 1),
              random(fan_in * 2 * cell_size, scale),
              random(fan_in * cell_size, scale),
              random(2 * cell_size, 1),
              random(cell_size, 1),
              random(state, 1),
              random(state, 1),
              random(state, 1),
              random(state, 1)};
}

inline void ExpectClose(const ForwardResult& actual,
                        const ForwardResult& expected, double tolerance) {
  ExpectClose(actual.r, expected.r, tolerance, "r");
  ExpectClose(actual.u, expected.u, tolerance, "u");
  ExpectClose(actual.c, expected.c, tolerance, "c");
  ExpectClose(actual.h, expected.h, tolerance, "h");
}

inline void ExpectClose(const BackwardResult& actual,
                        const BackwardResult& expected, double tolerance) {
  ExpectClose(actual.d_x, expected.d_x, tolerance, "d_x");
  ExpectClose(actual.d_h_prev, expected.d_h_prev, tolerance, "d_h_prev");
  ExpectClose(actual.d_c_bar, expected.d_c_bar, tolerance, "d_c_bar");
  ExpectClose(actual.d_r_bar_u_bar, expected.d_r_bar_u_bar, tolerance,
              "d_r_bar_u_bar");
}

inline void ExpectSameBits(const ForwardResult& a, const ForwardResult& b) {
  EXPECT_TRUE(a.r == b.r);
  EXPECT_TRUE(a.u == b.u);
  EXPECT_TRUE(a.c == b.c);
  EXPECT_TRUE(a.h == b.h);
}

inline void ExpectSameBits(const BackwardResult& a, const BackwardResult& b) {
  EXPECT_TRUE(a.d_x == b.d_x);
  EXPECT_TRUE(a.d_h_prev == b.d_h_prev);
  EXPECT_TRUE(a.d_c_bar == b.d_c_bar);
  EXPECT_TRUE(a.d_r_bar_u_bar == b.d_r_bar_u_bar);
}

// Near the sizes of vectors, tiles, panels, chunks and tasks, and with few
// rows.
constexpr BlockCellSize kGruBlockCellSizes[] = {
    {1, 1, 1},     {2, 3, 5},     {1, 128, 256}, {3, 17, 33},   {7, 16, 64},
    {0, 3, 4},     {3, 0, 4},     {3, 4, 0},     {3, 0, 0},     {0, 0, 0},
    {129, 5, 8},   {32, 31, 65},  {5, 130, 200}, {2, 40, 300},  {4, 129, 65},
    {13, 260, 33}, {33, 16, 257}, {1, 513, 70},  {2, 300, 400}, {130, 40, 100},
};

using StorageTypes = testing::Types<float, double, Half, BFloat16>;

// ---------------------------------------------------------------------------
// The formulas of gru_block_cell.h, element by element.

inline double Sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

// out[row, col] of [x state] * w + b, w: [I + C, cols].
inline double Affine(const Case& k, const Array& state, const Array& w,
                     const Array& b, std::int64_t cols, std::int64_t row,
                     std::int64_t col) {
  const auto [batch, input_size, cell_size] = k.size;
  double sum = b[col];
  for (std::int64_t i = 0; i < input_size; ++i) {
    sum += k.x[row * input_size + i] * w[i * cols + col];
  }
  for (std::int64_t i = 0; i < cell_size; ++i) {
    sum += state[row * cell_size + i] * w[(input_size + i) * cols + col];
  }
  return sum;
}

inline ForwardResult ReferenceForward(const Case& k) {
  const auto [batch, input_size, cell_size] = k.size;
  const std::size_t state = batch * cell_size;
  ForwardResult out{Array(state), Array(state), Array(state), Array(state)};
  Array reset_state(state);
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t j = 0; j < cell_size; ++j) {
      const std::int64_t i = n * cell_size + j;
      out.r[i] =
          Sigmoid(Affine(k, k.h_prev, k.w_ru, k.b_ru, 2 * cell_size, n, j));
      out.u[i] = Sigmoid(
          Affine(k, k.h_prev, k.w_ru, k.b_ru, 2 * cell_size, n, cell_size + j));
      reset_state[i] = k.h_prev[i] * out.r[i];
    }
  }
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t j = 0; j < cell_size; ++j) {
      const std::int64_t i = n * cell_size + j;
      out.c[i] =
          std::tanh(Affine(k, reset_state, k.w_c, k.b_c, cell_size, n, j));
      out.h[i] = out.u[i] * k.h_prev[i] + (1 - out.u[i]) * out.c[i];
    }
  }
  return out;
}

inline BackwardResult ReferenceBackward(const Case& k, const ForwardResult& f) {
  const auto [batch, input_size, cell_size] = k.size;
  const std::int64_t fan_in = input_size + cell_size;
  const std::size_t state = batch * cell_size;
  BackwardResult out{Array(batch * input_size), Array(state), Array(state),
                     Array(2 * state)};
  for (std::int64_t n = 0; n < batch; ++n) {
    double* d_bar = out.d_r_bar_u_bar.data() + n * 2 * cell_size;
    const std::int64_t first = n * cell_size;
    for (std::int64_t j = 0; j < cell_size; ++j) {
      const std::int64_t i = first + j;
      out.d_c_bar[i] =
          (k.d_c[i] + k.d_h[i] * (1 - f.u[i])) * (1 - f.c[i] * f.c[i]);
      d_bar[cell_size + j] = (k.d_u[i] + k.d_h[i] * (k.h_prev[i] - f.c[i])) *
                             f.u[i] * (1 - f.u[i]);
    }
    Array d_operand(fan_in);  // [d_x_2 d_h_prevr]
    for (std::int64_t row = 0; row < fan_in; ++row) {
      for (std::int64_t j = 0; j < cell_size; ++j) {
        d_operand[row] += out.d_c_bar[first + j] * k.w_c[row * cell_size + j];
      }
    }
    for (std::int64_t j = 0; j < cell_size; ++j) {
      const std::int64_t i = first + j;
      const double d_h_prevr = d_operand[input_size + j];
      d_bar[j] = (k.d_r[i] + d_h_prevr * k.h_prev[i]) * f.r[i] * (1 - f.r[i]);
      out.d_h_prev[i] = d_h_prevr * f.r[i] + k.d_h[i] * f.u[i];
    }
    for (std::int64_t row = 0; row < fan_in; ++row) {
      double sum = 0;
      for (std::int64_t j = 0; j < 2 * cell_size; ++j) {
        sum += d_bar[j] * k.w_ru[row * 2 * cell_size + j];
      }
      if (row < input_size) {
        out.d_x[n * input_size + row] = d_operand[row] + sum;
      } else {
        out.d_h_prev[first + row - input_size] += sum;
      }
    }
  }
  return out;
}

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_GRU_BLOCK_CELL_REFERENCE_H_
