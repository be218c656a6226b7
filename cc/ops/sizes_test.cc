#include "cc/ops/sizes.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace tf_rnn_ops {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Array ArrayOf(std::initializer_list<std::int64_t> sizes) {
  Array array;
  array.shape = Shape(sizes);
  return array;
}

// The sizes of a cell, whose weights are [inputs + units, 2 * units].
struct Sizes {
  Status Match(const Array& weights) {
    return MatchShape("weights", {rows, columns}, weights);
  }
  Status Match(std::int64_t num_rows, std::int64_t num_columns) {
    return Match(ArrayOf({num_rows, num_columns}));
  }

  Size inputs{"inputs"}, units{"units"};
  Dimension rows{inputs, units}, columns{2, units};
};

TEST(SizesTest, ShapesDetermineUnknownSizes) {
  Sizes sizes;
  // The first call finds units in the columns; inputs follow in the second.
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(sizes.Match(7, 8).ok());
  EXPECT_EQ(sizes.units.value(), 4);
  EXPECT_EQ(sizes.inputs.value(), 3);
}

TEST(SizesTest, UnknownShapesMatchAndDetermineNothing) {
  Sizes sizes;
  Array array;
  array.shape = Shape::OfAnyRank();
  EXPECT_TRUE(sizes.Match(array).ok());
  EXPECT_TRUE(sizes.Match(kAnySize, kAnySize).ok());
  EXPECT_FALSE(sizes.inputs.is_known());
  EXPECT_FALSE(sizes.units.is_known());
  EXPECT_EQ(ShapeOf({sizes.rows, sizes.columns}).ToString(), "[?,?]");
}

TEST(SizesTest, NumbersOfUnknownSizesAreKeptUntilTheSizeIsKnown) {
  Size units("units");
  constexpr std::int64_t kNumber = kAnySize - 5;
  EXPECT_TRUE(MatchShape("a", {units}, ArrayOf({kNumber})).ok());
  EXPECT_EQ(ShapeOf({units})[0], kNumber);
  EXPECT_TRUE(MatchShape("a", {units}, ArrayOf({kNumber - 1})).ok());
  EXPECT_EQ(ShapeOf({units})[0], kNumber);
  EXPECT_TRUE(MatchShape("a", {units}, ArrayOf({3})).ok());
  EXPECT_EQ(units.value(), 3);
}

TEST(SizesTest, ContradictionsAreRejectedWithTheNamesOfTheSizes) {
  Sizes sizes;
  sizes.units.set(4);
  EXPECT_EQ(sizes.Match(7, 9).message(),
            "weights must have the shape [inputs + units, 2 * units] = [?,8], "
            "but has [7,9]");
  EXPECT_EQ(sizes.Match(3, 8).message(),
            "weights must have the shape [inputs + units, 2 * units] = [?,8], "
            "but has [3,8]");
  EXPECT_EQ(sizes.Match(ArrayOf({7})).message(),
            "weights must have the shape [inputs + units, 2 * units] = [?,8], "
            "but has [7]");
}

TEST(SizesTest, SizesThatOneShapeDeterminesTwiceMustBeEqual) {
  Size units("units");
  EXPECT_TRUE(MatchShape("a", {units, units}, ArrayOf({3, 3})).ok());
  Size others("others");
  EXPECT_EQ(MatchShape("a", {others, others}, ArrayOf({3, 4})).message(),
            "a must have the shape [others, others] = [3,3], but has [3,4]");
}

TEST(SizesTest, MultiplesMustBeDivisible) {
  Size units("units");
  EXPECT_EQ(MatchShape("a", {{2, units}}, ArrayOf({7})).message(),
            "a must have a multiple of 2 as dimension 0 (2 * units), but has "
            "the shape [7]");
  EXPECT_EQ(
      MatchShape("a", {{3, units, "gates"}}, ArrayOf({7})).message(),
      "a must have a multiple of gates = 3 as dimension 0 (gates * units), but "
      "has the shape [7]");
}

TEST(SizesTest, DimensionsThatOverflowMatchNothing) {
  Sizes sizes;
  sizes.inputs.set(1);
  sizes.units.set(kMax);
  EXPECT_EQ(sizes.rows.value(), Dimension::kTooLarge);
  EXPECT_EQ(sizes.columns.value(), Dimension::kTooLarge);
  EXPECT_EQ(sizes.Match(kAnySize, kAnySize).message(),
            "weights must be smaller: inputs + units overflows int64");
}

}  // namespace
}  // namespace tf_rnn_ops
