#include "cc/rnn/float16_conversion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "cc/rnn/float16.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

inline Half To(float value, Half*) { return ToHalf(value); }
inline BFloat16 To(float value, BFloat16*) { return ToBFloat16(value); }

template <typename T>
T To(float value) {
  return To(value, static_cast<T*>(nullptr));
}

template <typename T>
T FromBits(int bits) {
  return {static_cast<std::uint16_t>(bits)};
}

template <typename T>
class Float16ConversionTest : public testing::Test {};
using Types = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Float16ConversionTest, Types);

TYPED_TEST(Float16ConversionTest, RoundTripsEveryValue) {
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const TypeParam value = FromBits<TypeParam>(bits);
    const double expected = ToDouble(value);
    const float actual = ToFloat(value);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual));
      EXPECT_TRUE(std::isnan(ToDouble(To<TypeParam>(actual))));
    } else {
      EXPECT_EQ(actual, expected);
      EXPECT_EQ(std::signbit(actual), std::signbit(expected));
      EXPECT_EQ(To<TypeParam>(actual).bits, bits);
    }
  }
}

// The midpoint of two neighbors rounds to the even one.
TYPED_TEST(Float16ConversionTest, RoundsToNearestEven) {
  const int infinity = To<TypeParam>(INFINITY).bits;
  for (int sign : {0, 1 << 15}) {
    for (int bits = 0; bits + 1 < infinity; ++bits) {
      const float low = ToFloat(FromBits<TypeParam>(sign | bits));
      const float high = ToFloat(FromBits<TypeParam>(sign | (bits + 1)));
      const float middle = static_cast<float>((double{low} + high) / 2);
      EXPECT_EQ(To<TypeParam>(middle).bits, sign | (bits + (bits & 1)));
      EXPECT_EQ(To<TypeParam>(std::nextafter(middle, low)).bits, sign | bits);
      EXPECT_EQ(To<TypeParam>(std::nextafter(middle, high)).bits,
                sign | (bits + 1));
    }
  }
}

TYPED_TEST(Float16ConversionTest, OverflowIsInfinite) {
  const int infinity = To<TypeParam>(INFINITY).bits;
  const float largest = ToFloat(FromBits<TypeParam>(infinity - 1));
  const float step = largest - ToFloat(FromBits<TypeParam>(infinity - 2));
  const float limit = largest + step / 2;
  EXPECT_EQ(To<TypeParam>(limit).bits, infinity);
  EXPECT_EQ(To<TypeParam>(std::nextafter(limit, 0.0f)).bits, infinity - 1);
  EXPECT_EQ(To<TypeParam>(-limit).bits, infinity | 1 << 15);
  EXPECT_EQ(To<TypeParam>(std::numeric_limits<float>::max()).bits, infinity);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
