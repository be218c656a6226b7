// Shared by the tests of RnnConfig::block_lstm: the LSTM of TensorFlow's ops, a
// reference, and the engine.

#ifndef TF_RNN_OPS_CC_RNN_BLOCK_LSTM_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_BLOCK_LSTM_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cc/rnn/lstm_block_cell.h"
#include "cc/rnn/network.h"
#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::rnn {

// S = steps, B = batch, I = input_size, U = units.
struct LstmCase {
  BlockLstm options;
  bool has_new_cell_second;
  bool has_peepholes;
  RnnSize size;
  std::int64_t input_size;
  std::int64_t units;
  Array x;                       // [S, B, I]
  Array c, h;                    // [B, U], before the first step
  Array w;                       // [I + U, 4 * U]
  Array b;                       // [4 * U]
  Array peepholes[3];            // [U]
  Array d_activations[6], d_hs;  // [S, B, U]
  Array activations[6];          // of the reference, [S, B, U]
  Array hs;                      // [S, B, U]
};

inline RnnConfig ConfigOf(const LstmCase& k) {
  RnnConfig config{RnnMode::kLstm, false, 1, 1, k.input_size, k.units, 0};
  config.block_lstm = k.options;
  return config;
}

inline double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// The column of a gate, in the order i, f, g, o.
inline std::int64_t Col(const LstmCase& k, std::int64_t gate) {
  const bool swaps = k.has_new_cell_second && gate % 3 != 0;
  return (swaps ? 3 - gate : gate) * k.units;
}

// Fills the results of the forward pass.
inline void Forward(LstmCase& k) {
  const auto [time, batch] = k.size;
  const std::int64_t n = k.units, cols = 4 * n, step = batch * n;
  for (Array& array : k.activations) array.assign(time * step, 0);
  k.hs.assign(time * step, 0);
  Array &i = k.activations[0], &f = k.activations[1], &g = k.activations[2],
        &o = k.activations[3], &tanh_c = k.activations[4],
        &c = k.activations[5];
  const auto peephole = [&k](int index, std::int64_t unit) {
    return k.has_peepholes ? k.peepholes[index][unit] : 0;
  };
  for (std::int64_t row = 0; row < time * batch; ++row) {
    for (std::int64_t u = 0; u < n; ++u) {
      const std::int64_t at = row * n + u, before = at - step;
      double sums[4];
      for (int gate = 0; gate < 4; ++gate) {
        const std::int64_t col = Col(k, gate) + u;
        sums[gate] = k.b[col] + (gate == 1 ? k.options.forget_bias : 0);
        for (std::int64_t j = 0; j < k.input_size; ++j) {
          sums[gate] += k.x[row * k.input_size + j] * k.w[j * cols + col];
        }
        for (std::int64_t j = 0; j < n; ++j) {
          const double h_prev =
              row < batch ? k.h[row * n + j] : k.hs[(row - batch) * n + j];
          sums[gate] += h_prev * k.w[(k.input_size + j) * cols + col];
        }
      }
      const double c_prev = row < batch ? k.c[at] : c[before];
      i[at] = Sigmoid(sums[0] + peephole(0, u) * c_prev);
      f[at] = Sigmoid(sums[1] + peephole(1, u) * c_prev);
      g[at] = std::tanh(sums[2]);
      c[at] = i[at] * g[at] + f[at] * c_prev;
      const double clip = k.options.cell_clip;
      if (clip > 0) c[at] = std::clamp(c[at], -clip, clip);
      o[at] = Sigmoid(sums[3] + peephole(2, u) * c[at]);
      tanh_c[at] = std::tanh(c[at]);
      k.hs[at] = o[at] * tanh_c[at];
    }
  }
}

struct LstmGradients {
  Array x, c, h, w, b, peepholes[3], gates;
};

// From the activations of the reference, as the ops do.
// has_all_gradients: whether there are gradients with respect to all
//   activations, instead of c only.
inline LstmGradients Backward(const LstmCase& k, bool has_all_gradients) {
  const auto [time, batch] = k.size;
  const std::int64_t n = k.units, cols = 4 * n, step = batch * n;
  const Array &i = k.activations[0], &f = k.activations[1],
              &g = k.activations[2], &o = k.activations[3],
              &tanh_c = k.activations[4], &c = k.activations[5];
  LstmGradients d{
      Array(k.x.size()),         Array(step), Array(step),
      Array(k.w.size()),         Array(cols), {Array(n), Array(n), Array(n)},
      Array(time * batch * cols)};
  const auto peephole = [&k](int index, std::int64_t unit) {
    return k.has_peepholes ? k.peepholes[index][unit] : 0;
  };
  for (std::int64_t row = time * batch - 1; row >= 0; --row) {
    const std::int64_t sample = row % batch;
    const auto c_prev = [&](std::int64_t u) {
      return row < batch ? k.c[row * n + u] : c[(row - batch) * n + u];
    };
    for (std::int64_t u = 0; u < n; ++u) {
      const std::int64_t at = row * n + u;
      const double d_h = k.d_hs[at] + d.h[sample * n + u];
      const auto given = [&](int index) {
        return has_all_gradients || index == 5 ? k.d_activations[index][at] : 0;
      };
      const double d_o = (given(3) + d_h * tanh_c[at]) * o[at] * (1 - o[at]);
      const double d_c =
          given(5) + d.c[sample * n + u] +
          (given(4) + d_h * o[at]) * (1 - tanh_c[at] * tanh_c[at]) +
          d_o * peephole(2, u);
      const double d_i = (given(0) + d_c * g[at]) * i[at] * (1 - i[at]);
      const double d_f = (given(1) + d_c * c_prev(u)) * f[at] * (1 - f[at]);
      const double d_g = (given(2) + d_c * i[at]) * (1 - g[at] * g[at]);
      d.c[sample * n + u] =
          d_c * f[at] + d_i * peephole(0, u) + d_f * peephole(1, u);
      const double bars[] = {d_i, d_f, d_g, d_o};
      for (int gate = 0; gate < 4; ++gate) {
        d.gates[row * cols + Col(k, gate) + u] = bars[gate];
      }
      d.peepholes[0][u] += d_i * c_prev(u);
      d.peepholes[1][u] += d_f * c_prev(u);
      d.peepholes[2][u] += d_o * c[at];
    }
    std::fill_n(d.h.begin() + sample * n, n, 0.0);
    for (std::int64_t col = 0; col < cols; ++col) {
      const double d_bar = d.gates[row * cols + col];
      d.b[col] += d_bar;
      for (std::int64_t j = 0; j < k.input_size; ++j) {
        const std::int64_t at = row * k.input_size + j;
        d.x[at] += d_bar * k.w[j * cols + col];
        d.w[j * cols + col] += d_bar * k.x[at];
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t weight = (k.input_size + j) * cols + col;
        d.h[sample * n + j] += d_bar * k.w[weight];
        d.w[weight] += d_bar * (row < batch ? k.h[row * n + j]
                                            : k.hs[(row - batch) * n + j]);
      }
    }
  }
  return d;
}

struct LstmOptions {
  bool has_new_cell_second, has_peepholes;
  float forget_bias, cell_clip;
};

inline LstmCase RandomLstm(const LstmOptions& options, const RnnSize& size,
                           std::int64_t input_size, std::int64_t units) {
  std::mt19937 generator(1);
  const auto random = [&](std::int64_t count, double scale = 1) {
    return RandomArray(count, scale, generator);
  };
  const std::int64_t state = size.batch * units;
  const double scale = 1 / std::sqrt(1.0 + units);
  LstmCase k;
  k.options = {true, options.forget_bias, options.cell_clip};
  k.has_new_cell_second = options.has_new_cell_second;
  k.has_peepholes = options.has_peepholes;
  k.size = size;
  k.input_size = input_size;
  k.units = units;
  k.x = random(size.time * size.batch * input_size);
  k.c = random(state);
  k.h = random(state);
  k.w = random((input_size + units) * 4 * units, scale);
  k.b = random(4 * units);
  for (Array& peephole : k.peepholes) peephole = random(units, scale);
  for (Array& d : k.d_activations) d = random(size.time * state);
  k.d_hs = random(size.time * state);
  return k;
}

// The engine on arrays of type T.
template <typename T>
class LstmEngine {
 public:
  // Rounds the arrays of the case.
  LstmEngine(InstructionSet instruction_set, LstmCase& k)
      : LstmEngine(GetNetworkKernels<T>(instruction_set, ConfigOf(k)),
                   instruction_set, k) {}
  LstmEngine(const NetworkKernels<T>& kernels, InstructionSet instruction_set,
             LstmCase& k)
      : k_(k),
        kernels_(kernels),
        step_(GetLstmBlockCellKernels<T>(instruction_set)),
        x_(Rounded<T>(k.x)),
        c_(Rounded<T>(k.c)),
        h_(Rounded<T>(k.h)),
        w_(Rounded<T>(k.w)),
        b_(Rounded<T>(k.b)),
        d_hs_(Rounded<T>(k.d_hs)) {
    for (Array& peephole : k.peepholes) {
      peepholes_.emplace_back(Rounded<T>(peephole));
    }
    for (Array& d : k.d_activations) d_activations_.emplace_back(Rounded<T>(d));
  }

  // The activations, and the hidden states last.
  std::vector<Array> Forward(Executor& executor) {
    std::vector<Buffer<T>> results;
    for (int i = 0; i < 7; ++i) results.emplace_back(k_.hs.size());
    Buffer<T> final_h(k_.h.size()), final_c(k_.c.size());
    NetworkForward<T> a{};
    Fill(a);
    LstmActivations<T> kept{};
    for (int i = 0; i < 6; ++i) kept.arrays[i] = results[i].data();
    a.kept = Kept<T>::Activations(kept);
    a.output = results[6].data();
    a.output_h = final_h.data();
    a.output_c = final_c.data();
    Buffer<char> workspace(
        kernels_.forward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    kernels_.forward(a, executor);
    return ToDoubles(results);
  }

  // From the activations of the case.
  // has_all_gradients: as in the reference.
  LstmGradients Backward(Executor& executor, bool has_all_gradients = false) {
    std::vector<Buffer<T>> activations;
    for (Array& array : k_.activations) {
      activations.emplace_back(Rounded<T>(array));
    }
    Buffer<T> hs(Rounded<T>(k_.hs)), zeros(std::vector<T>(k_.h.size()));
    Buffer<T> d_x(k_.x.size()), d_c(k_.c.size()), d_h(k_.h.size());
    Buffer<T> d_w(k_.w.size()), d_b(k_.b.size());
    std::vector<Buffer<T>> d_peepholes;
    for (int i = 0; i < 3; ++i) {
      d_peepholes.emplace_back(k_.has_peepholes ? k_.units : 0);
    }
    NetworkBackward<T> a{};
    Fill(a);
    LstmActivations<const T> kept{};
    for (int i = 0; i < 6; ++i) kept.arrays[i] = activations[i].data();
    a.kept = Kept<const T>::Activations(kept);
    a.output = hs.data();
    a.output_backprop = d_hs_.data();
    for (int i = has_all_gradients ? 0 : 5; i < 6; ++i) {
      a.activations_backprop.arrays[i] = d_activations_[i].data();
    }
    a.output_h_backprop = a.output_c_backprop = zeros.data();
    a.input_h_backprop = d_h.data();
    a.input_c_backprop = d_c.data();
    a.input_backprop = d_x.data();
    a.weights_backprop = WeightsOf(d_w, d_b, d_peepholes);
    Buffer<char> workspace(
        kernels_.backward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    kernels_.backward(a, executor);
    const std::vector<Array> peepholes = ToDoubles(d_peepholes);
    return {d_x.ToDoubles(),
            d_c.ToDoubles(),
            d_h.ToDoubles(),
            d_w.ToDoubles(),
            d_b.ToDoubles(),
            {peepholes[0], peepholes[1], peepholes[2]},
            {}};
  }

  // The same for the step of LSTMBlockCell: one step, with a gradient of c only
  // and no gradients that need the weights.
  std::vector<Array> StepForward(Executor& executor) {
    std::vector<Buffer<T>> results;
    for (int i = 0; i < 7; ++i) results.emplace_back(k_.hs.size());
    LstmBlockCellForward<T> a{};
    FillStep(a);
    a.x = x_.data();
    a.h_prev = h_.data();
    a.w = w_.data();
    a.b = b_.data();
    for (int i = 0; i < 6; ++i) a.activations.arrays[i] = results[i].data();
    a.h = results[6].data();
    Buffer<char> workspace(step_.forward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    step_.forward(a, executor);
    return ToDoubles(results);
  }
  LstmGradients StepBackward(Executor& executor) {
    std::vector<Buffer<T>> activations, d_peepholes;
    Buffer<T> d_c(k_.c.size()), d_gates(4 * k_.c.size());
    LstmBlockCellBackward<T> a{};
    FillStep(a);
    for (int i = 0; i < 6; ++i) {
      activations.emplace_back(Rounded<T>(k_.activations[i]));
    }
    for (int i = 0; i < 3; ++i) {
      d_peepholes.emplace_back(k_.has_peepholes ? k_.units : 0);
    }
    for (int i = 0; i < 6; ++i) a.activations.arrays[i] = activations[i].data();
    a.d_peepholes = PeepholesOf<T>(d_peepholes);
    a.d_c = d_activations_[5].data();
    a.d_h = d_hs_.data();
    a.d_c_prev = d_c.data();
    a.d_gates = d_gates.data();
    Buffer<char> workspace(step_.backward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    step_.backward(a, executor);
    const std::vector<Array> peepholes = ToDoubles(d_peepholes);
    return {{},
            d_c.ToDoubles(),
            {},
            {},
            {},
            {peepholes[0], peepholes[1], peepholes[2]},
            d_gates.ToDoubles()};
  }

 private:
  template <typename E = T>
  Weights<E> WeightsOf(Buffer<T>& w, Buffer<T>& b,
                       std::vector<Buffer<T>>& peepholes) const {
    return Weights<E>::BlockLstm(w.data(), b.data(), PeepholesOf<E>(peepholes),
                                 k_.has_new_cell_second, k_.input_size,
                                 k_.units);
  }
  template <typename E>
  Peepholes<E> PeepholesOf(std::vector<Buffer<T>>& buffers) const {
    if (!k_.has_peepholes) return {};
    return {{buffers[0].data(), buffers[1].data(), buffers[2].data()}};
  }
  static std::vector<Array> ToDoubles(std::vector<Buffer<T>>& buffers) {
    std::vector<Array> arrays;
    for (Buffer<T>& buffer : buffers) arrays.push_back(buffer.ToDoubles());
    return arrays;
  }
  template <typename Pass>
  void Fill(Pass& a) {
    a.config = ConfigOf(k_);
    a.size = k_.size;
    a.time_major = true;
    a.input = x_.data();
    a.input_h = h_.data();
    a.input_c = c_.data();
    a.weights = WeightsOf<const T>(w_, b_, peepholes_);
  }

  template <typename Step>
  void FillStep(Step& a) {
    a.size = {k_.size.batch, k_.input_size, k_.units};
    a.options = k_.options;
    a.c_prev = c_.data();
    a.peepholes = PeepholesOf<const T>(peepholes_);
  }

  LstmCase& k_;
  const NetworkKernels<T> kernels_;
  const LstmBlockCellKernels<T> step_;
  Buffer<T> x_, c_, h_, w_, b_, d_hs_;
  std::vector<Buffer<T>> peepholes_, d_activations_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_BLOCK_LSTM_TEST_SUPPORT_H_
