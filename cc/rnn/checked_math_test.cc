#include "cc/rnn/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tf_rnn_ops::rnn {
namespace {

constexpr std::int64_t kLarge = std::int64_t{1} << 62;

TEST(CheckedIntTest, Counts) {
  const CheckedInt size = CheckedInt(3) * 5 + 7;
  EXPECT_TRUE(size.valid());
  EXPECT_EQ(size.value(), 22);
  EXPECT_EQ((CheckedInt(kLarge) + (kLarge - 1)).value(), 2 * (kLarge - 1) + 1);
}

TEST(CheckedIntTest, RecordsOverflow) {
  EXPECT_FALSE((CheckedInt(kLarge) * 2).valid());
  EXPECT_FALSE((CheckedInt(kLarge) + kLarge).valid());
  EXPECT_FALSE((CheckedInt(kLarge) * 2 * 2).valid());
  EXPECT_FALSE((CheckedInt(kLarge) * 4 + 1).valid());
  EXPECT_FALSE((CheckedInt(1) + CheckedInt(kLarge) * 4).valid());
}

TEST(CheckedIntTest, ZeroTimesOverflowIsZero) {
  for (const CheckedInt size :
       {CheckedInt(kLarge) * 2 * 0, 0 * (CheckedInt(kLarge) * 2),
        CheckedInt(kLarge) * 0 * 2}) {
    EXPECT_TRUE(size.valid());
    EXPECT_EQ(size.value(), 0);
  }
  // A product that overflows to the value 0 is invalid too.
  EXPECT_FALSE((CheckedInt(kLarge) * 4 * 2).valid());
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
