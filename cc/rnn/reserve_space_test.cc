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

TEST(ReserveSpaceTest, SizeIsTheHeaderAndTheActivations) {
  // Cells: 6 pseudo-layers of 5 * 7 values; outputs: 2 layers of 2 * 4.
  const std::int64_t lstm = 11 * 13 * (6 * 5 * 7 + 2 * 2 * 4);
  EXPECT_EQ(ReserveSpaceSize<double>(kConfig, kSize), 32 + lstm);
  EXPECT_EQ(ReserveSpaceSize<float>(kConfig, kSize), 64 + lstm);
  EXPECT_EQ(ReserveSpaceSize<Half>(kConfig, kSize), 128 + 2 * lstm);
  EXPECT_EQ(ReserveSpaceSize<BFloat16>(kConfig, kSize), 128 + 2 * lstm);
}

TEST(ReserveSpaceTest, SizeOfEachMode) {
  const auto size = [](RnnMode mode, auto element) {
    return ReserveSpaceSize<decltype(element)>({mode, false, 1, 2, 3, 10, 0},
                                               {1, 1});
  };
  EXPECT_EQ(size(RnnMode::kLstm, 1.0f), 64 + 2 * 50 + 10);
  EXPECT_EQ(size(RnnMode::kGru, 1.0f), 64 + 2 * 40 + 10);
  // Includes the last layer's output, except for LSTM.
  EXPECT_EQ(size(RnnMode::kLstm, Half{}), 128 + 2 * (2 * 50 + 10));
  EXPECT_EQ(size(RnnMode::kGru, Half{}), 128 + 2 * (2 * 40 + 20));
  for (RnnMode plain : {RnnMode::kTanh, RnnMode::kRelu}) {
    EXPECT_EQ(size(plain, 1.0f), 64 + 10);
    EXPECT_EQ(size(plain, Half{}), 128 + 2 * 20);
  }
}

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

TEST(ReserveSpaceTest, MismatchListsTheDifferences) {
  const std::vector<std::int32_t> lengths(13, 4), others(13, 5);
  const ReserveSpaceKey key{kConfig, kSize, true, lengths.data(), 0.5f};
  const std::int64_t size = ReserveSpaceSize<float>(kConfig, kSize);
  std::vector<float> space(size);
  WriteReserveSpaceHeader<float>(key, {1, 2, 3}, space.data(),
                                 /*is_sorted=*/true);
  EXPECT_EQ(ReserveSpaceMismatch(key, space.data(), size), "");

  struct Difference {
    ReserveSpaceKey key;
    const char* name;
  };
  std::vector<Difference> differences;
  const auto differ = [&](const char* name) -> ReserveSpaceKey& {
    differences.push_back({key, name});
    return differences.back().key;
  };
  differ("rnn_mode was lstm, but is gru").config.mode = RnnMode::kGru;
  differ("skip_input").config.skip_input = true;
  differ("the number of directions").config.num_directions = 1;
  differ("num_layers was 3, but is 2").config.num_layers = 2;
  differ("input_size").config.input_size = 6;
  differ("num_units").config.num_units = 8;
  differ("num_proj").config.num_proj = 0;
  differ("time was 11, but is 13").size = {13, 13};
  differ("batch").size = {11, 12};
  differ("time_major").time_major = false;
  differ("dropout").dropout = 0.25f;
  differ("sequence_lengths").sequence_lengths = others.data();
  differ("sequence_lengths").sequence_lengths = nullptr;
  differ("the device was CPU, but is GPU").device = Device::kGpu;
  differ("another version of cuDNN").variant = 1;
  for (const Difference& difference : differences) {
    const std::string message =
        ReserveSpaceMismatch(difference.key, space.data(), size);
    EXPECT_NE(message.find(difference.name), std::string::npos)
        << difference.name << ": " << message;
  }
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

TEST(ReserveSpaceTest, MismatchIfNotFromAForwardPass) {
  const ReserveSpaceKey key{kConfig, kSize, true, nullptr, 0.0f};
  const std::int64_t size = ReserveSpaceSize<double>(kConfig, kSize);
  std::vector<double> space(size);
  EXPECT_NE(ReserveSpaceMismatch(key, space.data(), size), "");
  const double* none = nullptr;
  EXPECT_NE(ReserveSpaceMismatch(key, none, 0), "");
  WriteReserveSpaceHeader<double>(key, {}, space.data());
  EXPECT_EQ(ReserveSpaceMismatch(key, space.data(), size), "");
  EXPECT_NE(ReserveSpaceMismatch(key, space.data(), size - 1), "");
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
