#include "cc/rnn/simd/network/dropout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cc/rnn/random_stream.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

using Words = std::array<std::uint32_t, 4>;

Words FirstWords(const RandomStream& stream, std::uint64_t offset = 0) {
  std::uint32_t words[kPhiloxWords];
  Philox(stream, offset, words);
  return {words[0], words[1], words[2], words[3]};
}

// The known answers of Random123, the reference library of Philox's authors.
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(FirstWords({0, 0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(FirstWords({ones, ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      FirstWords({0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UsesTheWholeCounter) {
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t words[kPhiloxWords];
  Philox({1, last - 1, 5}, 0, words);
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const std::uint64_t high = i < 2 ? 5 : 6;
    const Words expected = FirstWords({1, last - 1 + i, high});
    const std::uint32_t* const row = words + 4 * i;
    EXPECT_EQ((Words{row[0], row[1], row[2], row[3]}), expected) << i;
  }
}

TEST(DropoutTest, ScalesKeptElementsAndZeroesTheRest) {
  const std::int64_t size = 100'003;
  const std::vector<double> from(size, 3.0);
  for (float rate : {0.1f, 0.5f, 0.9f}) {
    std::vector<double> to(size);
    DropoutMask(rate, {7, 0, 0}, 0).Apply(from.data(), to.data(), 0, size);
    std::int64_t kept = 0;
    for (double value : to) {
      if (value == 0) continue;
      EXPECT_DOUBLE_EQ(value, 3.0 / (1.0 - double{rate}));
      ++kept;
    }
    const double expected = size * (1.0 - rate);
    EXPECT_LT(std::fabs(kept - expected), 4 * std::sqrt(expected * rate))
        << rate;
  }
}

TEST(DropoutTest, RateZeroAndOne) {
  const std::vector<float> from(1000, 2.0f);
  std::vector<float> to(1000);
  DropoutMask(0.0f, {7, 0, 0}, 0).Apply(from.data(), to.data(), 0, 1000);
  EXPECT_EQ(to, from);
  DropoutMask(1.0f, {7, 0, 0}, 0).Apply(from.data(), to.data(), 0, 1000);
  EXPECT_EQ(to, std::vector<float>(1000, 0.0f));
}

std::vector<float> MaskElements(const DropoutMask& mask, std::int64_t first,
                                std::int64_t size) {
  std::vector<float> elements(size, 1.0f);
  mask.Apply(elements.data(), elements.data(), first, size);
  return elements;
}

TEST(DropoutTest, MaskIsTheTailOfAnEarlierMask) {
  const std::vector<float> all = MaskElements({0.5f, {7, 9, 0}, 0}, 0, 1000);
  const std::vector<float> tail = MaskElements({0.5f, {7, 9, 0}, 100}, 0, 600);
  EXPECT_EQ(tail, std::vector<float>(all.begin() + 400, all.end()));
  EXPECT_NE(tail, std::vector<float>(all.begin(), all.begin() + 600));
}

TEST(DropoutTest, PartOfAMaskEqualsTheWhole) {
  const DropoutMask mask(0.5f, {7, 9, 0}, 3);
  const std::vector<float> all = MaskElements(mask, 0, 300);
  for (std::int64_t first : {0, 1, 5, 63, 64, 65, 200}) {
    for (std::int64_t size : {0, 1, 59, 64, 100}) {
      EXPECT_EQ(
          MaskElements(mask, first, size),
          std::vector<float>(all.begin() + first, all.begin() + first + size))
          << first << " " << size;
    }
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
