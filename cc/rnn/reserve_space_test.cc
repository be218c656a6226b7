#include "cc/rnn/reserve_space.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cc/rnn/float16.h"

namespace tf_rnn_ops::rnn {
namespace {

const RnnConfig kConfig{RnnMode::kLstm, false, 2, 3, 5, 7, 4};
const RnnSize kSize{11, 13};

TEST(ReserveSpaceTest, OverflowingSize) {
  const std::int64_t large = std::int64_t{1} << 31;
  EXPECT_EQ(ReserveSpaceSize<float>(kConfig, {large, large}), -1);
  const RnnConfig config{RnnMode::kGru, false, 1, large, 1, large, 0};
  EXPECT_EQ(ReserveSpaceSize<Half>(config, {1, 1}), -1);
}

TEST(ReserveSpaceTest, SizeOfManyStepsWithoutUnits) {
  const std::int64_t large = std::int64_t{1} << 31;
  const RnnConfig config{RnnMode::kLstm, false, 2, 3, 5, 0, 0};
  EXPECT_EQ(ReserveSpaceSize<float>(config, {large, large}), 64);
}

// tests/test_cudnn_rnn_reserve_space.py tests the other differences.
TEST(ReserveSpaceTest, MismatchOfTheDevice) {
  const std::vector<std::int32_t> lengths(13, 4);
  ReserveSpaceKey key{kConfig, kSize, true, lengths.data(), 0.5f};
  const std::int64_t size = ReserveSpaceSize<float>(kConfig, kSize);
  std::vector<float> space(size);
  WriteReserveSpaceHeader<float>(key, {1, 2, 3}, space.data(),
                                 /*is_sorted=*/true);
  const auto mismatch = [&] {
    return ReserveSpaceMismatch(key, space.data(), size);
  };
  EXPECT_EQ(mismatch(), "");
  key.variant = 1;
  EXPECT_NE(mismatch().find("another version of cuDNN"), std::string::npos);
  key.device = Device::kGpu;
  EXPECT_NE(mismatch().find("the device was CPU, but is GPU"),
            std::string::npos);
}

TEST(ReserveSpaceTest, MismatchOfTheType) {
  const ReserveSpaceKey key{kConfig, kSize, true, nullptr, 0.5f};
  const std::int64_t size = ReserveSpaceSize<Half>(kConfig, kSize);
  std::vector<Half> space(size);
  WriteReserveSpaceHeader<Half>(key, {}, space.data());
  const auto* other = reinterpret_cast<const BFloat16*>(space.data());
  EXPECT_NE(ReserveSpaceMismatch(key, other, size).find("bfloat16"),
            std::string::npos);
}

TEST(ReserveSpaceTest, KeepsTheOrderOfTheSamples) {
  const std::vector<std::int32_t> lengths(13, 4);
  const ReserveSpaceKey key{kConfig, kSize, true, lengths.data(), 0.0f};
  const ReserveSpaceKey key_without{kConfig, kSize, true, nullptr, 0.0f};
  const std::int64_t size = ReserveSpaceSize<float>(kConfig, kSize);
  std::vector<float> space(size);
  for (bool is_sorted : {false, true}) {
    WriteReserveSpaceHeader<float>(key, {}, space.data(), is_sorted);
    EXPECT_EQ(ReserveSpaceIsSorted(CopyReserveSpaceHeader(
                  space.data(), kReserveSpaceHeaderBytes)),
              is_sorted);
    EXPECT_EQ(ReserveSpaceMismatch(key, space.data(), size), "");
    // Samples without lengths cannot be sorted.
    WriteReserveSpaceHeader<float>(key_without, {}, space.data(), is_sorted);
    EXPECT_EQ(ReserveSpaceMismatch(key_without, space.data(), size).empty(),
              !is_sorted);
  }
}

TEST(ReserveSpaceTest, KeepsTheOrderOfTheSteps) {
  const RnnSize one_sample{kSize.time, 1};
  const std::vector<std::int32_t> lengths = {1};
  const ReserveSpaceKey short_one{kConfig, one_sample, false, lengths.data(),
                                  0.0f};
  ReserveSpaceKey reversed{kConfig, one_sample, false, nullptr, 0.0f};
  reversed.step_order.is_input_reversed = true;
  const std::int64_t size = ReserveSpaceSize<float>(kConfig, one_sample);
  std::vector<float> space(size);
  for (bool is_sorted : {false, true}) {
    WriteReserveSpaceHeader<float>(reversed, {}, space.data(), is_sorted);
    EXPECT_EQ(ReserveSpaceMismatch(reversed, space.data(), size).empty(),
              !is_sorted);
    EXPECT_NE(ReserveSpaceMismatch(short_one, space.data(), size), "");
  }
}

TEST(ReserveSpaceTest, KeepsTheStream) {
  std::vector<Half> space(128);
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  WriteReserveSpaceHeader<Half>({kConfig, kSize, true, nullptr, 0.5f},
                                {1, 2, last}, space.data());
  const RandomStream stream = ReserveSpaceStream(
      CopyReserveSpaceHeader(space.data(), kReserveSpaceHeaderBytes));
  EXPECT_EQ(stream.key, 1u);
  EXPECT_EQ(stream.counter_low, 2u);
  EXPECT_EQ(stream.counter_high, last);
}

// Whatever the header contains, its elements are numbers in every type.
TEST(ReserveSpaceTest, HeaderIsFinite) {
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
  std::array<std::uint16_t, kReserveSpaceHeaderBytes / 2> words;
  WriteReserveSpaceHeader<Half>(
      {kConfig, {-1, -1}, true, nullptr, -1.0f, Device::kGpu, last},
      {last, last, last}, words.data());
  // The highest bit of the exponent, in the upper 16 bits of any type.
  for (const std::uint16_t word : words) EXPECT_EQ(word & 0x4000, 0);
}

TEST(ReserveSpaceTest, DropoutSamples) {
  EXPECT_EQ(NumDropoutSamples(kConfig, kSize, 0.0f), 0);
  // 11 * 13 * 8 elements, four per sample, for two layers.
  EXPECT_EQ(NumDropoutSamples(kConfig, kSize, 0.5f), 2 * 286);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
