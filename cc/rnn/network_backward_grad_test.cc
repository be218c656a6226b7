// Compares the gradient of the backward pass with finite differences of the
// passes that network_test.cc compares with the plain reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

// The case moved by `step` along the directions dot_*.
Case Moved(Case k, double step) {
  const auto move = [step](Array& array, const Array& direction) {
    for (std::size_t i = 0; i < array.size(); ++i) {
      array[i] += step * direction[i];
    }
  };
  move(k.input, k.dot_input);
  move(k.input_h, k.dot_input_h);
  move(k.input_c, k.dot_input_c);
  move(k.params, k.dot_params);
  return k;
}

// (above - below) / distance
Array Slope(const Array& above, const Array& below, double distance) {
  Array slope(above.size());
  for (std::size_t i = 0; i < slope.size(); ++i) {
    slope[i] = (above[i] - below[i]) / distance;
  }
  return slope;
}

BackwardGradResult CentralDifferences(const Case& k) {
  // Small enough to keep rectifiers away from their kinks.
  constexpr double kStep = 1e-6;
  SerialExecutor executor;
  Case above = Moved(k, kStep), below = Moved(k, -kStep);
  Engine<double> engine_above(InstructionSet::kBaseline, above);
  Engine<double> engine_below(InstructionSet::kBaseline, below);
  const ForwardResult f_above = engine_above.Forward(true, executor);
  const ForwardResult f_below = engine_below.Forward(true, executor);
  const BackwardResult b_above = engine_above.Backward(executor);
  const BackwardResult b_below = engine_below.Backward(executor);
  const auto slope = [](const Array& a, const Array& b) {
    return Slope(a, b, 2 * kStep);
  };
  return {slope(b_above.input, b_below.input),
          slope(b_above.input_h, b_below.input_h),
          slope(b_above.input_c, b_below.input_c),
          slope(b_above.params, b_below.params),
          slope(f_above.output, f_below.output),
          slope(f_above.output_h, f_below.output_h),
          slope(f_above.output_c, f_below.output_c)};
}

// Baseline only: the next test compares the other sets with the baseline.
TEST(NetworkBackwardGradDifferencesTest, EqualsCentralDifferences) {
  SerialExecutor executor;
  for (Case& k : Cases()) {
    SCOPED_TRACE(Describe(k));
    Engine<double> engine(InstructionSet::kBaseline, k);
    engine.Forward(/*is_training=*/true, executor);
    ExpectAllClose(k.config, engine.BackwardGrad(executor),
                   CentralDifferences(k), 1e-7);
  }
}

template <typename T>
class NetworkBackwardGradTest : public testing::Test {};
TYPED_TEST_SUITE(NetworkBackwardGradTest, StorageTypes);

TYPED_TEST(NetworkBackwardGradTest, EqualsDoublePrecision) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    // The engine has rounded the case to TypeParam.
    Engine<double> wide(InstructionSet::kBaseline, k);
    wide.Forward(/*is_training=*/true, executor);
    ExpectAllClose(k.config, engine.BackwardGrad(executor),
                   wide.BackwardGrad(executor), kTolerance<TypeParam>);
  });
}

// Replaces the arrays that `parts` omits by zeros.
Case WithZeros(Case k, const BackwardGradParts& parts) {
  const auto clear = [](Array& array) {
    std::fill(array.begin(), array.end(), 0);
  };
  if (!parts.has_dot_input) clear(k.dot_input);
  if (!parts.has_dot_states) clear(k.dot_input_h);
  if (!parts.has_dot_states) clear(k.dot_input_c);
  if (!parts.has_dot_params) clear(k.dot_params);
  return k;
}

// The next two tests choose which parts are present, as bits: some, but not
// all. Successive cases use successive choices, because running every case with
// every choice takes minutes under sanitizers.

// A null array has the same effect as zeros.
TYPED_TEST(NetworkBackwardGradTest, NullIsZeros) {
  SerialExecutor executor;
  unsigned turn = 0;
  for (const Case& full : Cases()) {
    for (InstructionSet instruction_set : InstructionSetsOfCase()) {
      const unsigned choice = 1 + turn++ % 6;
      BackwardGradParts parts;
      parts.has_dot_input = (choice & 1) != 0;
      parts.has_dot_states = (choice & 2) != 0;
      parts.has_dot_params = (choice & 4) != 0;
      Case k = WithZeros(full, parts);
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                   Describe(k) + " choice " + std::to_string(choice));
      Engine<TypeParam> engine(instruction_set, k);
      engine.Forward(/*is_training=*/true, executor);
      ExpectAllClose(k.config, engine.BackwardGrad(executor, parts),
                     engine.BackwardGrad(executor), kTolerance<TypeParam> / 10);
    }
  }
}

// Omitting a result does not change the others.
TYPED_TEST(NetworkBackwardGradTest, NullResultsAreSkipped) {
  SerialExecutor executor;
  unsigned turn = 0;
  ForEachCase<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    const BackwardGradResult all = engine.BackwardGrad(executor);
    const unsigned choice = 1 + turn++ % 14;
    SCOPED_TRACE("choice " + std::to_string(choice));
    BackwardGradParts parts;
    parts.wants_input = (choice & 1) != 0;
    parts.wants_states = (choice & 2) != 0;
    parts.wants_params = (choice & 4) != 0;
    parts.wants_outputs = (choice & 8) != 0;
    const BackwardGradResult result = engine.BackwardGrad(executor, parts);
    EXPECT_TRUE(!parts.wants_input || result.input == all.input);
    EXPECT_TRUE(!parts.wants_states || (result.input_h == all.input_h &&
                                        result.input_c == all.input_c));
    EXPECT_TRUE(!parts.wants_params || result.params == all.params);
    EXPECT_TRUE(!parts.wants_outputs || (result.d_output == all.d_output &&
                                         result.d_output_h == all.d_output_h &&
                                         result.d_output_c == all.d_output_c));
  });
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
