#include "cc/rnn/sample_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {
namespace {

using Lengths = std::vector<std::int32_t>;

TEST(ComputedStepsTest, CountsSamplesBeforeTheLastActiveOne) {
  const Lengths lengths{3, 0, 7, 2};
  EXPECT_EQ(ComputedSteps(lengths.data(), 4), 7 + 7 + 7 + 2);
  EXPECT_EQ(ComputedSteps(lengths.data(), 2), 3);
  EXPECT_EQ(ComputedSteps(lengths.data(), 0), 0);
}

TEST(SortSamplesTest, LongestFirstAndStable) {
  const Lengths lengths{3, 0, 7, 3, 9, 0};
  std::vector<std::int64_t> samples(lengths.size());
  SortSamples(lengths.data(), 6, samples.data());
  EXPECT_EQ(samples, (std::vector<std::int64_t>{4, 2, 0, 3, 1, 5}));
}

bool AreWorthSorting(const Lengths& lengths, std::int64_t num_units,
                     bool is_training = false) {
  const RnnConfig config{RnnMode::kLstm, false, 1, 1, 128, num_units, 0};
  const std::int64_t batch = static_cast<std::int64_t>(lengths.size());
  return IsWorthSorting(lengths.data(), config, {100, batch}, is_training);
}

TEST(IsWorthSortingTest, TrueIfItSavesMoreThanCopiesCost) {
  EXPECT_TRUE(AreWorthSorting({25, 50, 75, 100}, 256));
  EXPECT_TRUE(AreWorthSorting({100, 25, 50, 75}, 256));
  // Saves little.
  EXPECT_FALSE(AreWorthSorting({100, 99, 98, 99}, 256));
  // The work is small compared with the copies.
  EXPECT_FALSE(AreWorthSorting({25, 50, 75, 100}, 8));
  // Training copies more.
  EXPECT_TRUE(AreWorthSorting({25, 50, 75, 100}, 128));
  EXPECT_FALSE(AreWorthSorting({25, 50, 75, 100}, 128, /*is_training=*/true));
}

TEST(IsWorthSortingTest, FalseIfAlreadySortedOrEmpty) {
  EXPECT_FALSE(AreWorthSorting({100, 75, 50, 25}, 256));
  EXPECT_FALSE(AreWorthSorting({100, 100, 100}, 256));
  EXPECT_FALSE(AreWorthSorting({0, 0}, 256));
  const RnnConfig config{RnnMode::kLstm, false, 1, 1, 128, 256, 0};
  const std::int32_t none = 0;
  EXPECT_FALSE(IsWorthSorting(&none, config, {100, 0}, false));
  EXPECT_FALSE(IsWorthSorting(nullptr, config, {100, 32}, false));
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
