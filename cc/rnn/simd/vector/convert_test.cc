#include "cc/rnn/simd/vector/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// The value of a finite half, by the definition of IEEE 754.
double ValueOf(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

bool IsFinite(std::uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

TEST(ConvertTest, WidensEveryHalf) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float widened = Widened(half);
    EXPECT_EQ(std::signbit(widened), (bits & 0x8000) != 0) << bits;
    if (IsFinite(half.bits)) {
      EXPECT_EQ(widened, ValueOf(half.bits)) << bits;
    } else {
      EXPECT_EQ(std::isnan(widened), (bits & 1023) != 0) << bits;
      EXPECT_FALSE(std::isfinite(widened)) << bits;
    }
  }
}

// Every half, every midpoint between neighbors, and the floats next to it.
TEST(ConvertTest, RoundsToTheNearestHalf) {
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const double value = ValueOf(bits);
    // After the largest half, 2^16 would be next.
    const std::uint16_t next_bits = bits + 1;
    const double next = IsFinite(next_bits) ? ValueOf(next_bits) : 65536;
    const float middle = static_cast<float>((value + next) / 2);
    const std::uint16_t even = bits % 2 == 0 ? bits : next_bits;
    for (const float sign : {1.0f, -1.0f}) {
      const std::uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(RoundedToHalf(sign * static_cast<float>(value)).bits,
                bits | sign_bit);
      EXPECT_EQ(RoundedToHalf(sign * middle).bits, even | sign_bit) << bits;
      EXPECT_EQ(RoundedToHalf(sign * std::nextafter(middle, 0.0f)).bits,
                bits | sign_bit);
      EXPECT_EQ(RoundedToHalf(sign * std::nextafter(middle, 1e6f)).bits,
                next_bits | sign_bit);
    }
  }
}

TEST(ConvertTest, ConvertsValuesOutsideTheRangeOfHalf) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundedToHalf(1e30f).bits, 0x7c00);
  EXPECT_EQ(RoundedToHalf(-infinity).bits, 0xfc00);
  EXPECT_EQ(RoundedToHalf(1e-30f).bits, 0);
  EXPECT_EQ(RoundedToHalf(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(
      Widened(RoundedToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
