#include "cc/rnn/step_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

using Places = std::vector<std::int32_t>;

// The steps that a mask keeps, with memory.
struct Masked {
  Masked(const RnnSize& size, bool go_backwards,
         const std::vector<unsigned char>& mask)
      : steps(size, go_backwards),
        places(size.time * size.batch),
        lengths(size.batch) {
    steps.Apply(mask.data(), places.data(), lengths.data());
  }

  StepMask steps;
  Places places;
  Places lengths;
};

TEST(StepMaskTest, WithoutAMaskAllStepsAreKept) {
  const StepMask steps({3, 2}, /*go_backwards=*/true);
  EXPECT_FALSE(steps.has_masked());
  EXPECT_EQ(steps.lengths(), nullptr);
  EXPECT_EQ(steps.order().steps, nullptr);
  EXPECT_TRUE(steps.order().is_input_reversed);
  EXPECT_EQ(steps.length(1), 3);
}

TEST(StepMaskTest, AMaskOfOnesKeepsAllSteps) {
  const Masked masked({3, 2}, false, {1, 1, 2, 255, 1, 1});
  EXPECT_FALSE(masked.steps.has_masked());
  EXPECT_EQ(masked.steps.lengths(), nullptr);
  EXPECT_EQ(masked.steps.order().steps, nullptr);
}

TEST(StepMaskTest, PaddingNeedsNoOrder) {
  const Masked masked({3, 2}, false, {1, 1, 0, 0, 0, 0});
  EXPECT_TRUE(masked.steps.has_masked());
  EXPECT_EQ(masked.lengths, (Places{2, 0}));
  EXPECT_EQ(masked.steps.lengths(), masked.lengths.data());
  EXPECT_EQ(masked.steps.order().steps, nullptr);
}

TEST(StepMaskTest, GapsAreMovedToTheEnd) {
  const std::vector<unsigned char> mask{0, 1, 0, 1, 1, 1, 1, 0};
  const Masked forward({4, 2}, false, mask);
  EXPECT_EQ(forward.places, (Places{1, 3, 0, 2, 0, 1, 2, 3}));
  EXPECT_EQ(forward.lengths, (Places{2, 3}));
  EXPECT_EQ(forward.steps.order().steps, forward.places.data());
  const Masked backward({4, 2}, true, mask);
  EXPECT_EQ(backward.places, (Places{0, 2, 1, 3, 1, 2, 3, 0}));
  EXPECT_TRUE(backward.steps.order().is_input_reversed);
}

// Sizes with more units than are added up at once.
constexpr std::int64_t kTime = 6, kBatch = 5, kUnits = 300;

// A sample without gaps, one with, some that begin or end with masked steps,
// and one without steps.
const std::vector<unsigned char>& Mask() {
  static const auto* const mask = new std::vector<unsigned char>{
      1, 1, 1, 1, 1, 1,  //
      1, 0, 0, 1, 0, 1,  //
      0, 0, 1, 1, 0, 0,  //
      0, 1, 0, 0, 1, 0,  //
      0, 0, 0, 0, 0, 0,
  };
  return *mask;
}

template <typename E>
std::vector<E> SmallIntegers(std::int64_t size, int factor) {
  std::vector<E> values(size);
  for (std::int64_t i = 0; i < size; ++i) {
    values[i] = FromDouble<E>(static_cast<double>(i * factor % 7 - 3));
  }
  return values;
}

template <typename E>
std::vector<double> ToDoubles(const std::vector<E>& values) {
  std::vector<double> doubles;
  for (const E& value : values) doubles.push_back(ToDouble(value));
  return doubles;
}

template <typename E>
double Dot(const std::vector<E>& a, const std::vector<E>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += ToDouble(a[i]) * ToDouble(b[i]);
  }
  return sum;
}

template <typename E>
class MaskedOutputsTest : public testing::Test {};
using StorageTypes = testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(MaskedOutputsTest, StorageTypes);

TYPED_TEST(MaskedOutputsTest, MaskedStepsRepeatTheOutputBefore) {
  const Masked masked({kTime, kBatch}, false, Mask());
  // The engine writes zeros where steps are masked.
  std::vector<TypeParam> kept =
      SmallIntegers<TypeParam>(kTime * kBatch * kUnits, 3);
  std::vector<TypeParam> expected = kept;
  for (std::int64_t step = 0; step < kTime * kBatch; ++step) {
    if (Mask()[step] != 0) continue;
    for (std::int64_t i = step * kUnits; i < (step + 1) * kUnits; ++i) {
      kept[i] = TypeParam{};
      expected[i] = step % kTime == 0 ? TypeParam{} : expected[i - kUnits];
    }
  }
  const MaskedOutputs<TypeParam> repeated(masked.steps, kUnits, false);
  ASSERT_TRUE(repeated.repeats());
  std::vector<TypeParam> outputs = kept;
  repeated.Repeat(outputs.data());
  EXPECT_EQ(ToDoubles(outputs), ToDoubles(expected));

  // The transpose of a linear function: <Repeat(kept), d> = <kept, AddUp(d)>.
  const std::vector<TypeParam> d = SmallIntegers<TypeParam>(kept.size(), 5);
  std::vector<TypeParam> d_kept(kept.size());
  repeated.AddUp(d.data(), d_kept.data());
  EXPECT_EQ(Dot(outputs, d), Dot(kept, d_kept));

  const MaskedOutputs<TypeParam> zeroed(masked.steps, kUnits, true);
  EXPECT_FALSE(zeroed.repeats());
  outputs = kept;
  zeroed.Repeat(outputs.data());
  EXPECT_EQ(ToDoubles(outputs), ToDoubles(kept));
}

// Each gradient arrives at the step whose output was repeated, or nowhere.
TYPED_TEST(MaskedOutputsTest, GradientsOfRepeatedOutputsAreAddedUp) {
  const Masked masked({kTime, kBatch}, false, Mask());
  const MaskedOutputs<TypeParam> outputs(masked.steps, kUnits, false);
  const std::vector<TypeParam> ones(kTime * kBatch * kUnits,
                                    FromDouble<TypeParam>(1));
  std::vector<TypeParam> sums(ones.size());
  outputs.AddUp(ones.data(), sums.data());
  const std::vector<double> expected{
      1, 1, 1, 1, 1, 1,  //
      3, 0, 0, 2, 0, 1,  //
      0, 0, 1, 3, 0, 0,  //
      0, 3, 0, 0, 2, 0,  //
      0, 0, 0, 0, 0, 0,
  };
  for (std::size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(ToDouble(sums[i]), expected[i / kUnits]) << i;
  }
}

TYPED_TEST(MaskedOutputsTest, TheLastOutputIsTheFinalStateOrZeros) {
  const Masked masked({kTime, kBatch}, false, Mask());
  const std::vector<TypeParam> h = SmallIntegers<TypeParam>(kBatch * kUnits, 3);
  const std::vector<TypeParam> d = SmallIntegers<TypeParam>(kBatch * kUnits, 5);
  const std::vector<TypeParam> none(h.size());
  for (const bool zero_output_for_mask : {false, true}) {
    SCOPED_TRACE(zero_output_for_mask);
    const MaskedOutputs<TypeParam> outputs(masked.steps, kUnits,
                                           zero_output_for_mask);
    std::vector<TypeParam> last(h.size()), d_h(h.size()), sum(h.size());
    outputs.TakeLast(h.data(), last.data());
    outputs.AddLast(d.data(), none.data(), d_h.data());
    outputs.AddLast(d.data(), h.data(), sum.data());
    for (std::size_t i = 0; i < h.size(); ++i) {
      const std::size_t sample = i / kUnits;
      const bool is_final = sample < 2 || (sample < 4 && !zero_output_for_mask);
      EXPECT_EQ(ToDouble(last[i]), is_final ? ToDouble(h[i]) : 0) << i;
      EXPECT_EQ(ToDouble(d_h[i]), is_final ? ToDouble(d[i]) : 0) << i;
      EXPECT_EQ(ToDouble(sum[i]), ToDouble(h[i]) + ToDouble(d_h[i])) << i;
    }
  }
}

TEST(EmptyMaskedOutputsTest, NoStepsHaveNoOutput) {
  const StepMask steps({0, 2}, false);
  const MaskedOutputs<float> outputs(steps, 1, false);
  const std::vector<float> h{1, 2};
  std::vector<float> last{3, 4};
  outputs.TakeLast(h.data(), last.data());
  EXPECT_EQ(last, (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
