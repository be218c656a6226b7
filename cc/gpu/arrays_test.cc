// Runs the device code, compiled for the host.

#include "cc/gpu/arrays.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/rnn/network_test_support.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

// Values of an array [outer, inner, width].
std::vector<double> Rows(const RowCounts& counts) {
  std::vector<double> rows(counts.outer * counts.inner * counts.width);
  std::iota(rows.begin(), rows.end(), 1);
  return rows;
}

template <typename T>
class ArraysTest : public testing::Test {
 protected:
  // Copies rows to an array with the inner dimension first, and with a gap of
  // one row before each row.
  void ExpectTransposed(const RowCounts& counts) {
    FakeGpu gpu;
    rnn::Array values = Rows(counts);
    const std::vector<T> rows = rnn::Rounded<T>(values);
    const std::int64_t row = 2 * counts.width;
    const RowStrides from = {counts.inner * counts.width, counts.width};
    const RowStrides to = {row, counts.outer * row};
    FakeDeviceArray<T> source(&gpu.driver(), rows);
    FakeDeviceArray<T> target(&gpu.driver(), std::vector<T>(2 * rows.size()));
    ASSERT_TRUE(CopyRows(gpu.Call(), DataTypeOf<T>, counts, source.data(), from,
                         target.data(), to)
                    .ok());
    const std::vector<T> result = target.ToVector();
    for (std::int64_t o = 0; o < counts.outer; ++o) {
      for (std::int64_t i = 0; i < counts.inner; ++i) {
        for (std::int64_t j = 0; j < counts.width; ++j) {
          const std::int64_t at = i * to.inner + o * to.outer + j;
          EXPECT_EQ(rnn::ToDouble(result[at]),
                    values[o * from.outer + i * from.inner + j]);
          EXPECT_EQ(rnn::ToDouble(result[at + counts.width]), 0);
        }
      }
    }
  }
};
TYPED_TEST_SUITE(ArraysTest, rnn::StorageTypes);

TYPED_TEST(ArraysTest, CopiesRows) {
  this->ExpectTransposed({2, 3, 5});
  this->ExpectTransposed({1, 1, 300});
  this->ExpectTransposed({7, 1, 1});
  this->ExpectTransposed({40, 9, 33});
}

TYPED_TEST(ArraysTest, CopiesEmptyArrays) {
  for (const RowCounts& counts :
       {RowCounts{0, 3, 5}, RowCounts{2, 0, 5}, RowCounts{2, 3, 0}}) {
    this->ExpectTransposed(counts);
  }
}

TEST(ArraysTest, WidensEveryBFloat16AndRoundsItBack) {
  FakeGpu gpu;
  std::vector<rnn::BFloat16> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].bits = static_cast<std::uint16_t>(i);
  }
  FakeDeviceArray<rnn::BFloat16> source(&gpu.driver(), all);
  FakeDeviceArray<rnn::BFloat16> back(&gpu.driver(), all.size());
  FakeDeviceArray<float> wide(&gpu.driver(), all.size());
  const Call call = gpu.Call();
  ASSERT_TRUE(WidenBFloat16(call, all.size(), source.data(), wide.data()).ok());
  ASSERT_TRUE(RoundToBFloat16(call, all.size(), wide.data(), back.data()).ok());
  const std::vector<float> widened = wide.ToVector();
  const std::vector<rnn::BFloat16> rounded = back.ToVector();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = rnn::ToDouble(all[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(widened[i]));
      EXPECT_TRUE(std::isnan(rnn::ToDouble(rounded[i])));
    } else {
      EXPECT_EQ(widened[i], expected);
      EXPECT_EQ(rounded[i].bits, all[i].bits);
    }
  }
}

TEST(ArraysTest, RoundsToNearestTiesToEven) {
  FakeGpu gpu;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {1 + 0x1p-8f,
                                     1 + 0x1.8p-8f,
                                     1 + 0x3p-8f,
                                     -1 - 0x1p-8f,
                                     std::numeric_limits<float>::max(),
                                     kInfinity};
  const std::vector<double> expected = {1,  1 + 0x1p-7, 1 + 0x1p-6,
                                        -1, kInfinity,  kInfinity};
  FakeDeviceArray<float> source(&gpu.driver(), values);
  FakeDeviceArray<rnn::BFloat16> target(&gpu.driver(), values.size());
  ASSERT_TRUE(
      RoundToBFloat16(gpu.Call(), values.size(), source.data(), target.data())
          .ok());
  const std::vector<rnn::BFloat16> rounded = target.ToVector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(rnn::ToDouble(rounded[i]), expected[i]) << values[i];
  }
}

// The masks of the CPU engine for several layers, [S, B, W] each.
template <typename T>
std::vector<T> CpuMasks(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                        float rate, const rnn::RandomStream& stream) {
  std::vector<T> masks((config.num_layers - 1) * size.time * size.batch *
                       config.num_units);
  rnn::SerialExecutor executor;
  rnn::GetNetworkKernels<T>(rnn::InstructionSet::kBaseline, config)
      .dropout_masks(config, size, rate, stream, masks.data(), executor);
  return masks;
}

// Different layouts and offsets in the mask, widths that are not multiples of
// four, and counters that carry.
template <typename T>
void ExpectCpuMasks(float rate, std::int64_t width) {
  const rnn::RnnConfig config = {rnn::RnnMode::kTanh, false, 1, 3, 1, width, 0};
  const rnn::RnnSize size = {5, 4};
  const rnn::RandomStream stream = {12345, ~std::uint64_t{7}, 9};
  const std::vector<T> expected = CpuMasks<T>(config, size, rate, stream);
  const std::int64_t layer_size = size.time * size.batch * width;
  constexpr std::int64_t kFirst = 1,
                         kSamples = 2;  // samples to apply dropout to
  const RowStrides mask_strides = {size.batch * width, width};
  // Batch-major.
  const RowStrides strides = {width, size.time * width};
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const DropoutMask mask = MakeDropoutMask(
        rate, stream, layer * rnn::NumLayerDropoutSamples(config, size));
    const MaskRows rows = {mask, kFirst * width, mask_strides};
    const RowCounts counts = {size.time, kSamples, width};
    FakeGpu gpu;
    const Call call = gpu.Call();
    std::vector<T> values(size.time * kSamples * width);
    std::iota(values.begin(), values.end(), 1);
    FakeDeviceArray<T> array(&gpu.driver(), values);
    FakeDeviceArray<T> factors(&gpu.driver(), values.size());
    ASSERT_TRUE(ApplyDropout(call, DataTypeOf<T>, counts, rows, nullptr,
                             strides, factors.data())
                    .ok());
    ASSERT_TRUE(ApplyDropout(call, DataTypeOf<T>, counts, rows, array.data(),
                             strides, array.data())
                    .ok());
    for (std::int64_t t = 0; t < size.time; ++t) {
      for (std::int64_t b = 0; b < kSamples; ++b) {
        for (std::int64_t i = 0; i < width; ++i) {
          const T factor = expected[layer * layer_size +
                                    (t * size.batch + kFirst + b) * width + i];
          const std::int64_t at = (b * size.time + t) * width + i;
          EXPECT_EQ(factors.ToVector()[at], factor);
          EXPECT_EQ(array.ToVector()[at], values[at] * factor);
        }
      }
    }
  }
}

TEST(ArraysTest, DropoutMasksEqualTheCpuEngine) {
  for (float rate : {0.0f, 0.25f, 0.9f, 1.0f}) {
    for (std::int64_t width : {1, 3, 4, 8, 17}) {
      SCOPED_TRACE(testing::Message() << rate << ", " << width);
      ExpectCpuMasks<float>(rate, width);
      ExpectCpuMasks<double>(rate, width);
    }
  }
}

// 16-bit types are multiplied in float32 and rounded to nearest.
// roundoff: the unit roundoff of T.
template <typename T>
void ExpectRoundedProducts(double roundoff) {
  FakeGpu gpu;
  rnn::Array values(64);
  std::iota(values.begin(), values.end(), 1);
  FakeDeviceArray<T> source(&gpu.driver(), rnn::Rounded<T>(values));
  FakeDeviceArray<T> target(&gpu.driver(), values.size());
  const DropoutMask mask = MakeDropoutMask(0.25f, {7, 0, 0}, 0);
  const auto size = static_cast<std::int64_t>(values.size());
  ASSERT_TRUE(ApplyDropout(gpu.Call(), DataTypeOf<T>, {1, 1, size},
                           {mask, 0, {0, 0}}, source.data(), {0, 0},
                           target.data())
                  .ok());
  const rnn::RnnConfig config = {rnn::RnnMode::kTanh, false, 1, 2, 1, size, 0};
  const std::vector<float> factors =
      CpuMasks<float>(config, {1, 1}, 0.25f, {7, 0, 0});
  const std::vector<T> results = target.ToVector();
  for (std::int64_t i = 0; i < size; ++i) {
    const double product = values[i] * factors[i];
    EXPECT_NEAR(rnn::ToDouble(results[i]), product, product * roundoff);
  }
}

TEST(ArraysTest, DropsSixteenBitTypes) {
  ExpectRoundedProducts<rnn::Half>(0x1p-11);
  ExpectRoundedProducts<rnn::BFloat16>(0x1p-8);
}

// NaNs are dropped, too.
TEST(ArraysTest, DropsNans) {
  FakeGpu gpu;
  FakeDeviceArray<float> array(&gpu.driver(), 8);  // of NaNs
  ASSERT_TRUE(ApplyDropout(gpu.Call(), DataType::kFloat, {1, 1, 8},
                           {MakeDropoutMask(1, {7, 0, 0}, 0), 0, {0, 0}},
                           array.data(), {0, 0}, array.data())
                  .ok());
  EXPECT_EQ(array.ToVector(), std::vector<float>(8, 0));
}

// Any bits become finite numbers of T, and are restored.
template <typename T, typename W>
void ExpectFiniteAndRestored(std::int64_t count) {
  FakeGpu gpu;
  const Call call = gpu.Call();
  constexpr DataType kType = DataTypeOf<T>;
  std::mt19937_64 random(count);
  std::vector<W> words(count);
  for (W& word : words) {  // half of them NaN
    word = static_cast<W>((random() & 1) != 0 ? random() : ~W(0));
  }
  FakeDeviceArray<W> array(&gpu.driver(), words);
  FakeDeviceArray<W> marks(&gpu.driver(), NumMarks(kType, count));
  ASSERT_TRUE(
      MarkNonFinite(call, kType, count, array.data(), marks.data()).ok());
  for (const std::vector<W>& finite : {array.ToVector(), marks.ToVector()}) {
    for (const W word : finite) {
      ASSERT_TRUE(std::isfinite(rnn::ToDouble(__builtin_bit_cast(T, word))));
    }
  }
  ASSERT_TRUE(
      RestoreMarked(call, kType, count, marks.data(), array.data()).ok());
  EXPECT_EQ(array.ToVector(), words);
}

TEST(ArraysTest, MarksAndRestoresNonFiniteElements) {
  for (std::int64_t count : {0, 1, 31, 32, 33, 384, 385, 896, 1920, 10000}) {
    SCOPED_TRACE(count);
    ExpectFiniteAndRestored<rnn::Half, std::uint16_t>(count);
    ExpectFiniteAndRestored<rnn::BFloat16, std::uint16_t>(count);
    ExpectFiniteAndRestored<float, std::uint32_t>(count);
    ExpectFiniteAndRestored<double, std::uint64_t>(count);
  }
}

TEST(ArraysTest, WritesBytesFromTheHost) {
  FakeGpu gpu;
  HostBytes bytes;
  std::iota(bytes.begin(), bytes.end(), 1);
  FakeDeviceArray<char> target(&gpu.driver(), bytes.size() + 8, 8);
  ASSERT_TRUE(WriteBytes(gpu.Call(), bytes, target.data()).ok());
  const std::vector<char> written = target.ToVector();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), written.begin()));
}

TEST(ArraysTest, CopiesAndZeroesBytes) {
  FakeGpu gpu;
  const std::vector<char> bytes = {1, 2, 3, 4, 5};
  FakeDeviceArray<char> source(&gpu.driver(), bytes);
  FakeDeviceArray<char> target(&gpu.driver(), bytes);
  const Call call = gpu.Call();
  ASSERT_TRUE(ZeroBytes(call, 3, target.data() + 1).ok());
  EXPECT_EQ(target.ToVector(), (std::vector<char>{1, 0, 0, 0, 5}));
  ASSERT_TRUE(CopyBytes(call, 2, source.data() + 3, target.data() + 1).ok());
  EXPECT_EQ(target.ToVector(), (std::vector<char>{1, 4, 5, 0, 5}));
  ASSERT_TRUE(CopyBytes(call, 0, nullptr, nullptr).ok());
  ASSERT_TRUE(ZeroBytes(call, 0, nullptr).ok());
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
