#include "cc/rnn/simd/vector/finite_pair.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

std::uint32_t BitsOf(float x) { return __builtin_bit_cast(std::uint32_t, x); }
float Pair(float x) { return ToFinitePair(Broadcast(x))[0]; }
float Original(float x) { return FromFinitePair(Broadcast(x))[0]; }

// All lower halves, with upper halves of any sign and magnitude.
template <typename Check>
void ForEachFloat(const Check& check) {
  for (const float upper :
       {0.0f, -0.0f, 1e-40f, -1e-20f, 0.999f, -1.0f, 65504.0f, -1e30f}) {
    for (std::uint32_t lower = 0; lower < 0x10000; ++lower) {
      const std::uint32_t bits = (BitsOf(upper) & 0xffff0000) | lower;
      check(__builtin_bit_cast(float, bits));
    }
  }
}

TEST(FinitePairTest, BothHalvesAreFiniteInBothTypes) {
  ForEachFloat([](float x) {
    std::array<std::uint16_t, 2> halves;
    const float pair = Pair(x);
    std::memcpy(halves.data(), &pair, sizeof(pair));
    for (const std::uint16_t bits : halves) {
      ASSERT_TRUE(std::isfinite(Widened(Half{bits}))) << x;
      ASSERT_TRUE(std::isfinite(Widened(BFloat16{bits}))) << x;
    }
  });
}

TEST(FinitePairTest, OnlyTheLastBitIsLost) {
  ForEachFloat([](float x) {
    ASSERT_EQ(BitsOf(Original(Pair(x))), BitsOf(x) & ~1u) << x;
  });
}

TEST(FinitePairTest, IsCloseToTheOriginal) {
  ForEachFloat([](float x) {
    if (std::fabs(x) < 1e-37f) return;  // subnormal
    ASSERT_LT(std::fabs(Pair(x) - x), 0x1p-12f * std::fabs(x)) << x;
  });
}

TEST(FinitePairTest, NumbersOfSixteenBitsAreUnchanged) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    for (const float x : {Widened(Half{half}), Widened(BFloat16{half})}) {
      if (!std::isfinite(x)) continue;
      ASSERT_EQ(BitsOf(Pair(x)), BitsOf(x)) << x;
      ASSERT_EQ(BitsOf(Original(x)), BitsOf(x)) << x;
    }
  }
}

TEST(FinitePairTest, ConvertsArraysOfAnySize) {
  SerialExecutor executor;
  for (const std::int64_t size : {0, 1, 15, 16, 33, (1 << 16) + 5}) {
    std::vector<float> array(size + 1);
    for (std::int64_t i = 0; i <= size; ++i) array[i] = std::sin(i + 1.0f);
    const std::vector<float> before = array;
    ToFinitePairs(array.data(), size, executor);
    for (std::int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(array[i], Pair(before[i])) << i;
    }
    EXPECT_EQ(array[size], before[size]);
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
