#include "cc/rnn/gru_block_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

// ---------------------------------------------------------------------------
// The plain reference: the formulas of gru_block_cell.h, element by element.

struct Case {
  GruBlockCellSize size;
  Array x, h_prev, w_ru, w_c, b_ru, b_c;
  Array d_r, d_u, d_c, d_h;
};

struct ForwardResult {
  Array r, u, c, h;
};

struct BackwardResult {
  Array d_x, d_h_prev, d_c_bar, d_r_bar_u_bar;
};

double Sigmoid(double value) { return 1 / (1 + std::exp(-value)); }

// out[row, col] of [x state] * w + b, w: [I + C, cols].
double Affine(const Case& k, const Array& state, const Array& w, const Array& b,
              std::int64_t cols, std::int64_t row, std::int64_t col) {
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

ForwardResult ReferenceForward(const Case& k) {
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

BackwardResult ReferenceBackward(const Case& k, const ForwardResult& f) {
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

// ---------------------------------------------------------------------------
// The engine under test.

Case RandomCase(const GruBlockCellSize& size, unsigned seed) {
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

// An array that begins `offset` elements after an allocation does, with given
// values or, to be written, with garbage.
template <typename T>
class Shifted {
 public:
  Shifted(const std::vector<T>& values, std::size_t offset)
      : storage_(offset + values.size()), offset_(offset) {
    std::copy(values.begin(), values.end(), data());
  }
  Shifted(std::size_t size, std::size_t offset)
      : storage_(offset + size, FromDouble<T>(77)), offset_(offset) {}

  T* data() { return storage_.data() + offset_; }
  Array ToDoubles() {
    Array result;
    for (auto i = storage_.begin() + offset_; i != storage_.end(); ++i) {
      result.push_back(ToDouble(*i));
    }
    return result;
  }

 private:
  std::vector<T> storage_;
  std::size_t offset_;
};

template <typename T>
struct Engine {
  Engine(InstructionSet instruction_set, Case& k)
      : kernels(GetGruBlockCellKernels<T>(instruction_set)),
        size(k.size),
        x(Rounded<T>(k.x)),
        h_prev(Rounded<T>(k.h_prev)),
        w_ru(Rounded<T>(k.w_ru)),
        w_c(Rounded<T>(k.w_c)),
        b_ru(Rounded<T>(k.b_ru)),
        b_c(Rounded<T>(k.b_c)),
        d_r(Rounded<T>(k.d_r)),
        d_u(Rounded<T>(k.d_u)),
        d_c(Rounded<T>(k.d_c)),
        d_h(Rounded<T>(k.d_h)) {}

  // With every array `offset` elements into its allocation.
  ForwardResult Forward(Executor& executor, std::size_t offset = 0) {
    const std::size_t state = size.batch * size.cell_size;
    const auto in = [offset](const std::vector<T>& values) {
      return Shifted<T>(values, offset);
    };
    Shifted<T> x_in = in(x), h_prev_in = in(h_prev), w_ru_in = in(w_ru),
               w_c_in = in(w_c), b_ru_in = in(b_ru), b_c_in = in(b_c);
    Shifted<T> r(state, offset), u(state, offset), c(state, offset),
        h(state, offset);
    GruBlockCellForward<T> a{};
    a.size = size;
    a.x = x_in.data();
    a.h_prev = h_prev_in.data();
    a.w_ru = w_ru_in.data();
    a.w_c = w_c_in.data();
    a.b_ru = b_ru_in.data();
    a.b_c = b_c_in.data();
    a.r = r.data();
    a.u = u.data();
    a.c = c.data();
    a.h = h.data();
    std::vector<ComputeType<T>> workspace =
        Workspace(kernels.forward_workspace(a, executor.num_threads()), offset);
    a.workspace = workspace.data() + offset;
    kernels.forward(a, executor);
    return {r.ToDoubles(), u.ToDoubles(), c.ToDoubles(), h.ToDoubles()};
  }

  // Of the forward result, rounded to T in place.
  BackwardResult Backward(ForwardResult& f, bool with_gate_gradients,
                          Executor& executor, std::size_t offset = 0) {
    const std::size_t state = size.batch * size.cell_size;
    const auto in = [offset](const std::vector<T>& values) {
      return Shifted<T>(values, offset);
    };
    Shifted<T> h_prev_in = in(h_prev), w_ru_in = in(w_ru), w_c_in = in(w_c),
               r = in(Rounded<T>(f.r)), u = in(Rounded<T>(f.u)),
               c = in(Rounded<T>(f.c)), d_r_in = in(d_r), d_u_in = in(d_u),
               d_c_in = in(d_c), d_h_in = in(d_h);
    Shifted<T> d_x(size.batch * size.input_size, offset),
        d_h_prev(state, offset), d_c_bar(state, offset),
        d_r_bar_u_bar(2 * state, offset);
    GruBlockCellBackward<T> a{};
    a.size = size;
    a.h_prev = h_prev_in.data();
    a.w_ru = w_ru_in.data();
    a.w_c = w_c_in.data();
    a.r = r.data();
    a.u = u.data();
    a.c = c.data();
    a.d_r = with_gate_gradients ? d_r_in.data() : nullptr;
    a.d_u = with_gate_gradients ? d_u_in.data() : nullptr;
    a.d_c = with_gate_gradients ? d_c_in.data() : nullptr;
    a.d_h = d_h_in.data();
    a.d_x = d_x.data();
    a.d_h_prev = d_h_prev.data();
    a.d_c_bar = d_c_bar.data();
    a.d_r_bar_u_bar = d_r_bar_u_bar.data();
    std::vector<ComputeType<T>> workspace = Workspace(
        kernels.backward_workspace(a, executor.num_threads()), offset);
    a.workspace = workspace.data() + offset;
    kernels.backward(a, executor);
    return {d_x.ToDoubles(), d_h_prev.ToDoubles(), d_c_bar.ToDoubles(),
            d_r_bar_u_bar.ToDoubles()};
  }

  // So many bytes of garbage, `offset` elements into an allocation.
  static std::vector<ComputeType<T>> Workspace(std::int64_t bytes,
                                               std::size_t offset) {
    return std::vector<ComputeType<T>>(offset + bytes / sizeof(ComputeType<T>),
                                       ComputeType<T>(1e30));
  }

  GruBlockCellKernels<T> kernels;
  GruBlockCellSize size;
  std::vector<T> x, h_prev, w_ru, w_c, b_ru, b_c, d_r, d_u, d_c, d_h;
};

void ExpectSameBits(const ForwardResult& a, const ForwardResult& b) {
  EXPECT_TRUE(a.r == b.r);
  EXPECT_TRUE(a.u == b.u);
  EXPECT_TRUE(a.c == b.c);
  EXPECT_TRUE(a.h == b.h);
}

void ExpectSameBits(const BackwardResult& a, const BackwardResult& b) {
  EXPECT_TRUE(a.d_x == b.d_x);
  EXPECT_TRUE(a.d_h_prev == b.d_h_prev);
  EXPECT_TRUE(a.d_c_bar == b.d_c_bar);
  EXPECT_TRUE(a.d_r_bar_u_bar == b.d_r_bar_u_bar);
}

template <typename T>
class GruBlockCellTest : public testing::Test {
 protected:
  // Calls check(case, engine) for sizes about those of vectors, tiles, panels,
  // chunks and tasks, and for few rows, under every instruction set.
  void ForEachSize(const std::function<void(Case&, Engine<T>&)>& check) {
    const GruBlockCellSize sizes[] = {
        {1, 1, 1},     {2, 3, 5},    {1, 128, 256}, {3, 17, 33},
        {7, 16, 64},   {0, 3, 4},    {3, 0, 4},     {3, 4, 0},
        {3, 0, 0},     {0, 0, 0},    {129, 5, 8},   {32, 31, 65},
        {5, 130, 200}, {2, 40, 300}, {4, 129, 65},  {13, 260, 33},
        {33, 16, 257}, {1, 513, 70}, {2, 300, 400}, {130, 40, 100},
    };
    for (InstructionSet instruction_set : SupportedInstructionSets()) {
      for (const GruBlockCellSize& size : sizes) {
        SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) +
                     " batch " + std::to_string(size.batch) + " input_size " +
                     std::to_string(size.input_size) + " cell_size " +
                     std::to_string(size.cell_size));
        Case k = RandomCase(size, 1);
        Engine<T> engine(instruction_set, k);
        check(k, engine);
      }
    }
  }
};

using StorageTypes = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GruBlockCellTest, StorageTypes);

TYPED_TEST(GruBlockCellTest, ForwardEqualsTheReference) {
  SerialExecutor executor;
  this->ForEachSize([&](Case& k, Engine<TypeParam>& engine) {
    const ForwardResult actual = engine.Forward(executor);
    const ForwardResult expected = ReferenceForward(k);
    const double tolerance = kTolerance<TypeParam>;
    ExpectClose(actual.r, expected.r, tolerance, "r");
    ExpectClose(actual.u, expected.u, tolerance, "u");
    ExpectClose(actual.c, expected.c, tolerance, "c");
    ExpectClose(actual.h, expected.h, tolerance, "h");
  });
}

TYPED_TEST(GruBlockCellTest, BackwardEqualsTheReference) {
  SerialExecutor executor;
  for (bool with_gate_gradients : {false, true}) {
    this->ForEachSize([&](Case& k, Engine<TypeParam>& engine) {
      ForwardResult forward = ReferenceForward(k);
      const BackwardResult actual =
          engine.Backward(forward, with_gate_gradients, executor);
      if (!with_gate_gradients) {
        for (Array* zero : {&k.d_r, &k.d_u, &k.d_c}) {
          std::fill(zero->begin(), zero->end(), 0.0);
        }
      }
      const BackwardResult expected = ReferenceBackward(k, forward);
      const double tolerance = kTolerance<TypeParam>;
      ExpectClose(actual.d_x, expected.d_x, tolerance, "d_x");
      ExpectClose(actual.d_h_prev, expected.d_h_prev, tolerance, "d_h_prev");
      ExpectClose(actual.d_c_bar, expected.d_c_bar, tolerance, "d_c_bar");
      ExpectClose(actual.d_r_bar_u_bar, expected.d_r_bar_u_bar, tolerance,
                  "d_r_bar_u_bar");
    });
  }
}

TYPED_TEST(GruBlockCellTest, SameBitsForAnyNumberOfThreads) {
  this->ForEachSize([&](Case&, Engine<TypeParam>& engine) {
    SerialExecutor serial;
    ForwardResult forward = engine.Forward(serial);
    const BackwardResult backward = engine.Backward(forward, true, serial);
    for (int num_threads : {2, 5}) {
      Threads threads;
      PoolExecutor pool(threads.Schedule(), num_threads);
      ExpectSameBits(engine.Forward(pool), forward);
      ExpectSameBits(engine.Backward(forward, true, pool), backward);
    }
  });
}

TYPED_TEST(GruBlockCellTest, SameBitsWhereverTheArraysLie) {
  this->ForEachSize([&](Case&, Engine<TypeParam>& engine) {
    SerialExecutor executor;
    ForwardResult forward = engine.Forward(executor);
    const BackwardResult backward = engine.Backward(forward, true, executor);
    for (std::size_t offset : {1, 3, 5, 8}) {
      ExpectSameBits(engine.Forward(executor, offset), forward);
      ExpectSameBits(engine.Backward(forward, true, executor, offset),
                     backward);
    }
  });
}

// The weights of a column, if forward, or of a row are those of all others, and
// so are the samples.
Case UniformCase(const GruBlockCellSize& size, bool forward) {
  Case k = RandomCase(size, 1);
  const std::int64_t fan_in = size.input_size + size.cell_size;
  const auto repeat = [](Array& array, std::int64_t cols, bool by_row) {
    const Array first = array;
    for (std::size_t i = 0; i < array.size(); ++i) {
      array[i] = first[by_row ? i % cols : i / cols * cols];
    }
  };
  for (Array* weights : {&k.w_ru, &k.w_c}) {
    repeat(*weights, static_cast<std::int64_t>(weights->size()) / fan_in,
           /*by_row=*/!forward);
  }
  repeat(k.x, size.input_size, /*by_row=*/true);
  for (Array* array :
       {&k.h_prev, &k.b_ru, &k.b_c, &k.d_h, &k.d_r, &k.d_u, &k.d_c}) {
    std::fill(array->begin(), array->end(), (*array)[0]);
  }
  return k;
}

void ExpectUniform(const Array& array, const std::string& what) {
  for (double value : array) ASSERT_EQ(value, array[0]) << what;
}

TYPED_TEST(GruBlockCellTest, SameBitsWhereverAnElementIs) {
  SerialExecutor executor;
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    for (std::int64_t batch : {1, 3, 11, 41}) {
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) +
                   " batch " + std::to_string(batch));
      const GruBlockCellSize size{batch, 19, 161};
      Case forward = UniformCase(size, true);
      const ForwardResult f =
          Engine<TypeParam>(instruction_set, forward).Forward(executor);
      ExpectUniform(f.r, "r");
      ExpectUniform(f.u, "u");
      ExpectUniform(f.c, "c");
      ExpectUniform(f.h, "h");
      Case backward = UniformCase(size, false);
      ForwardResult gates = f;
      const BackwardResult b = Engine<TypeParam>(instruction_set, backward)
                                   .Backward(gates, true, executor);
      ExpectUniform(b.d_x, "d_x");
      ExpectUniform(b.d_h_prev, "d_h_prev");
      ExpectUniform(b.d_c_bar, "d_c_bar");
    }
  }
}

TYPED_TEST(GruBlockCellTest, WorkspaceIsCounted) {
  const std::int64_t huge = std::int64_t{1} << 61;
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    const auto kernels = GetGruBlockCellKernels<TypeParam>(instruction_set);
    GruBlockCellForward<TypeParam> forward{};
    GruBlockCellBackward<TypeParam> backward{};
    const auto expect = [&](const GruBlockCellSize& size, int num_threads,
                            std::int64_t expected) {
      forward.size = backward.size = size;
      EXPECT_EQ(kernels.forward_workspace(forward, num_threads), expected);
      EXPECT_EQ(kernels.backward_workspace(backward, num_threads), expected);
    };
    expect({0, huge, huge}, 4, 0);
    expect({huge, huge, 0}, 4, 0);
    expect({huge, 1, huge}, 4, -1);
    expect({huge, 0, 9}, 4, -1);
  }
}

TYPED_TEST(GruBlockCellTest, SpecialValuesPropagate) {
  SerialExecutor executor;
  const double inf = std::numeric_limits<double>::infinity();
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    SCOPED_TRACE(InstructionSetName(instruction_set));
    Case k = RandomCase({3, 2, 20}, 1);
    Engine<TypeParam> engine(instruction_set, k);
    const double special[] = {inf, -inf,
                              std::numeric_limits<double>::quiet_NaN()};
    for (double value : special) {
      for (TypeParam& bias : engine.b_ru) {
        bias = FromDouble<TypeParam>(value);
      }
      const ForwardResult f = engine.Forward(executor);
      for (std::size_t i = 0; i < f.u.size(); ++i) {
        if (std::isnan(value)) {
          EXPECT_TRUE(std::isnan(f.r[i]) && std::isnan(f.u[i]) &&
                      std::isnan(f.c[i]) && std::isnan(f.h[i]));
        } else {
          EXPECT_EQ(f.r[i], value > 0 ? 1 : 0);
          EXPECT_EQ(f.u[i], value > 0 ? 1 : 0);
          EXPECT_EQ(f.h[i], value > 0 ? k.h_prev[i] : f.c[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
