// Tests of RnnConfig::block_lstm: the LSTM of TensorFlow's ops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/rnn/block_lstm_test_support.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/lstm_block_cell.h"
#include "cc/rnn/network.h"
#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

// Both orders of the gates; vectors with and without a rest; one step and
// several; weights read in place, packed, and in several chunks of steps.
std::vector<LstmCase> LstmCases() {
  const LstmOptions plain{}, all{true, true, 1.5, 0.7f};
  const LstmOptions second{true, false, 1, 0}, peepholes{false, true, 0, 0};
  return {RandomLstm(plain, {5, 3}, 4, 5),
          RandomLstm(all, {6, 3}, 2, 19),
          RandomLstm(second, {1, 1}, 3, 32),
          RandomLstm(all, {1, 20}, 7, 48),
          RandomLstm(plain, {1, 40}, 150, 300),
          RandomLstm(peepholes, {1, 3}, 0, 130),
          RandomLstm(peepholes, {4, 40}, 30, 33),
          RandomLstm(peepholes, {300, 2}, 1, 16),
          RandomLstm(peepholes, {0, 2}, 3, 4)};
}

// Calls check(case, engine) for each case and instruction set.
// is_step: whether for LSTMBlockCell, which has one order of gates.
template <typename T, typename Check>
void ForEachLstm(const Check& check, bool is_step = false) {
  for (InstructionSet instruction_set :
       AllOrOneUnderSanitizers(SupportedInstructionSets())) {
    for (LstmCase k : LstmCases()) {
      if (is_step && k.size.time != 1) continue;
      if (is_step) k.has_new_cell_second = true;
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + ", " +
                   std::to_string(k.size.time) + " steps, " +
                   std::to_string(k.units) + " units");
      LstmEngine<T> engine(instruction_set, k);
      Forward(k);
      check(k, engine);
    }
  }
}

template <typename T>
class BlockLstmTest : public testing::Test {};
TYPED_TEST_SUITE(BlockLstmTest, StorageTypes);

TYPED_TEST(BlockLstmTest, ForwardEqualsTheReference) {
  SerialExecutor executor;
  ForEachLstm<TypeParam>([&](LstmCase& k, LstmEngine<TypeParam>& engine) {
    const std::vector<Array> results = engine.Forward(executor);
    for (int i = 0; i < 6; ++i) {
      ExpectClose(results[i], k.activations[i], kTolerance<TypeParam>,
                  "activation " + std::to_string(i));
    }
    ExpectClose(results[6], k.hs, kTolerance<TypeParam>, "h");
  });
}

TYPED_TEST(BlockLstmTest, GradientsEqualTheReference) {
  SerialExecutor executor;
  ForEachLstm<TypeParam>([&](LstmCase& k, LstmEngine<TypeParam>& engine) {
    for (const bool has_all_gradients : {false, true}) {
      // Rounds the activations of the case, from which the reference starts,
      // too.
      const LstmGradients actual = engine.Backward(executor, has_all_gradients);
      const LstmGradients expected = Backward(k, has_all_gradients);
      constexpr double kMost = kTolerance<TypeParam>;
      ExpectClose(actual.x, expected.x, kMost, "x");
      ExpectClose(actual.c, expected.c, kMost, "c");
      ExpectClose(actual.h, expected.h, kMost, "h");
      ExpectClose(actual.w, expected.w, kMost, "w");
      ExpectClose(actual.b, expected.b, kMost, "b");
      for (int i = 0; i < 3 && k.has_peepholes; ++i) {
        ExpectClose(actual.peepholes[i], expected.peepholes[i], kMost,
                    "peephole " + std::to_string(i));
      }
    }
  });
}

TYPED_TEST(BlockLstmTest, StepsEqualTheReference) {
  SerialExecutor executor;
  ForEachLstm<TypeParam>(
      [&](LstmCase& k, LstmEngine<TypeParam>& engine) {
        constexpr double kMost = kTolerance<TypeParam>;
        const std::vector<Array> results = engine.StepForward(executor);
        for (int i = 0; i < 6; ++i) {
          ExpectClose(results[i], k.activations[i], kMost,
                      "activation " + std::to_string(i));
        }
        ExpectClose(results[6], k.hs, kMost, "h");
        // Rounds the activations of the case.
        const LstmGradients actual = engine.StepBackward(executor);
        const LstmGradients expected = Backward(k, /*has_all_gradients=*/false);
        ExpectClose(actual.c, expected.c, kMost, "c");
        ExpectClose(actual.gates, expected.gates, kMost, "gates");
        for (int i = 0; i < 3 && k.has_peepholes; ++i) {
          ExpectClose(actual.peepholes[i], expected.peepholes[i], kMost,
                      "peephole " + std::to_string(i));
        }
      },
      /*is_step=*/true);
}

TYPED_TEST(BlockLstmTest, BitsOfStepsDoNotDependOnThreads) {
  SerialExecutor serial;
  ForEachLstm<TypeParam>(
      [&](LstmCase&, LstmEngine<TypeParam>& engine) {
        ScatteringExecutor scattered(3);
        EXPECT_EQ(engine.StepForward(serial), engine.StepForward(scattered));
        const LstmGradients expected = engine.StepBackward(serial);
        const LstmGradients actual = engine.StepBackward(scattered);
        EXPECT_EQ(actual.c, expected.c);
        EXPECT_EQ(actual.gates, expected.gates);
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(actual.peepholes[i], expected.peepholes[i]) << i;
        }
      },
      /*is_step=*/true);
}

TYPED_TEST(BlockLstmTest, BitsDoNotDependOnThreads) {
  SerialExecutor serial;
  ForEachLstm<TypeParam>([&](LstmCase&, LstmEngine<TypeParam>& engine) {
    ScatteringExecutor scattered(3);
    EXPECT_EQ(engine.Forward(serial), engine.Forward(scattered));
    const LstmGradients expected = engine.Backward(serial);
    const LstmGradients actual = engine.Backward(scattered);
    EXPECT_EQ(actual.x, expected.x);
    EXPECT_EQ(actual.c, expected.c);
    EXPECT_EQ(actual.h, expected.h);
    EXPECT_EQ(actual.w, expected.w);
    EXPECT_EQ(actual.b, expected.b);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(actual.peepholes[i], expected.peepholes[i]) << i;
    }
  });
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
