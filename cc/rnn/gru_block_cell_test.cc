#include "cc/rnn/gru_block_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "cc/rnn/gru_block_cell_reference.h"
#include "cc/rnn/gru_block_cell_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename T>
class GruBlockCellTest : public testing::Test {};
TYPED_TEST_SUITE(GruBlockCellTest, StorageTypes);

TYPED_TEST(GruBlockCellTest, ForwardEqualsTheReference) {
  SerialExecutor executor;
  ForEachSize<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
    ExpectClose(engine.Forward(executor), ReferenceForward(k),
                kTolerance<TypeParam>);
  });
}

TYPED_TEST(GruBlockCellTest, BackwardEqualsTheReference) {
  SerialExecutor executor;
  for (bool with_gate_gradients : {false, true}) {
    ForEachSize<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
      ForwardResult forward = ReferenceForward(k);
      const BackwardResult actual =
          engine.Backward(forward, with_gate_gradients, executor);
      if (!with_gate_gradients) {
        for (Array* zero : {&k.d_r, &k.d_u, &k.d_c}) {
          std::fill(zero->begin(), zero->end(), 0.0);
        }
      }
      ExpectClose(actual, ReferenceBackward(k, forward), kTolerance<TypeParam>);
    });
  }
}

TYPED_TEST(GruBlockCellTest, BitsDoNotDependOnAlignment) {
  ForEachSize<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
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

// All samples are equal, and the weights of all columns (if forward) or rows
// are equal.
Case UniformCase(const BlockCellSize& size, bool forward) {
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

TYPED_TEST(GruBlockCellTest, BitsDoNotDependOnElementPosition) {
  SerialExecutor executor;
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    for (std::int64_t batch : {1, 3, 11, 41}) {
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) +
                   " batch " + std::to_string(batch));
      const BlockCellSize size{batch, 19, 161};
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
    const auto expect = [&](const BlockCellSize& size, int num_threads,
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
