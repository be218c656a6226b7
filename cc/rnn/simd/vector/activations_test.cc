#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/rnn/flush_denormals.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/simd/vector/vector_functions.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename T>
VectorFunctions<T> GetVectorFunctions(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAvx512:
      return avx512::GetVectorFunctions<T>();
    case InstructionSet::kAvx2:
      return avx2::GetVectorFunctions<T>();
#endif
    default:
      return baseline::GetVectorFunctions<T>();
  }
}

// The reference types of float and double.
template <typename T>
using Reference =
    std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <typename T>
Reference<T> ReferenceSigmoid(T x) {
  return 1 / (1 + std::exp(-Reference<T>{x}));
}

// actual - expected| in units of the last place of `expected`. Results below
// the smallest normal number may be zero.
template <typename T>
double ErrorInUnits(T actual, Reference<T> expected) {
  const Reference<T> least = std::numeric_limits<T>::min();
  if (std::fabs(expected) < least) {
    return std::fabs(actual) <= least ? 0 : HUGE_VAL;
  }
  int exponent;
  std::frexp(expected, &exponent);
  return static_cast<double>(
      std::fabs(actual - expected) *
      std::ldexp(Reference<T>{1}, std::numeric_limits<T>::digits - exponent));
}

// The largest error and its argument.
template <typename T>
struct Worst {
  double error = 0;
  T at = 0;

  void Update(T x, T actual, Reference<T> expected) {
    const double each = ErrorInUnits<T>(actual, expected);
    if (each <= error) return;  // false for NaN
    error = each;
    at = x;
  }
};

class ActivationsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  template <typename T>
  VectorFunctions<T> Functions() const {
    return GetVectorFunctions<T>(GetParam());
  }

  // Finite numbers, and the results of both functions.
  template <typename T>
  void Check(const std::vector<T>& x, double most_units) {
    const std::int64_t size = x.size();
    std::vector<T> tanh(size), sigmoid(size);
    {
      const ScopedFlushDenormals flush;
      Functions<T>().tanh(x.data(), tanh.data(), size);
      Functions<T>().sigmoid(x.data(), sigmoid.data(), size);
    }
    Worst<T> worst_tanh, worst_sigmoid;
    for (std::int64_t i = 0; i < size; ++i) {
      worst_tanh.Update(x[i], tanh[i], std::tanh(Reference<T>{x[i]}));
      worst_sigmoid.Update(x[i], sigmoid[i], ReferenceSigmoid<T>(x[i]));
      ASSERT_LE(std::fabs(tanh[i]), 1) << x[i];
      ASSERT_EQ(std::signbit(tanh[i]), std::signbit(x[i])) << x[i];
      ASSERT_GE(sigmoid[i], 0) << x[i];
      ASSERT_LE(sigmoid[i], 1) << x[i];
    }
    ASSERT_LE(worst_tanh.error, most_units) << worst_tanh.at;
    ASSERT_LE(worst_sigmoid.error, most_units) << worst_sigmoid.at;
  }

  template <typename T>
  void CheckLimits() {
    const T infinity = std::numeric_limits<T>::infinity();
    const T most = std::numeric_limits<T>::max();
    const std::vector<T> x = {infinity, -infinity, most, -most,
                              100000,   -100000,   0,    -T{0}};
    const std::vector<T> expected_tanh = {1, -1, 1, -1, 1, -1, 0, -T{0}};
    const std::vector<T> expected_sigmoid = {1, 0, 1, 0, 1, 0, 0.5, T{0.5}};
    const std::int64_t size = x.size();
    std::vector<T> tanh(size), sigmoid(size);
    // For these functions, denormal inputs are like other numbers.
    Functions<T>().tanh(x.data(), tanh.data(), size);
    Functions<T>().sigmoid(x.data(), sigmoid.data(), size);
    for (std::int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(tanh[i], expected_tanh[i]) << x[i];
      EXPECT_EQ(std::signbit(tanh[i]), std::signbit(x[i])) << x[i];
      EXPECT_EQ(sigmoid[i], expected_sigmoid[i]) << x[i];
    }
  }

  template <typename T>
  void CheckNotANumber() {
    const std::vector<T> x = {std::numeric_limits<T>::quiet_NaN(),
                              -std::numeric_limits<T>::quiet_NaN()};
    std::vector<T> tanh(2), sigmoid(2);
    Functions<T>().tanh(x.data(), tanh.data(), 2);
    Functions<T>().sigmoid(x.data(), sigmoid.data(), 2);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::isnan(tanh[i]));
      EXPECT_TRUE(std::isnan(sigmoid[i]));
    }
  }

  template <typename T>
  void CheckPartial();
};

float FromBits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// From kFirst to kLast, the test uses every kStride-th float. A stride of 1
// finds errors of at most 1.9992 units there, and 1.498 with AVX-512. The other
// 92 of 100 floats need few samples: both functions are constant above, and
// below tanh is x and the logistic function takes a thousand values.
constexpr float kFirst = 0x1p-14f, kLast = 128;
constexpr std::uint32_t kOuterStride = 9973;
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kStride = 97;
#else
constexpr std::uint32_t kStride = kOuterStride;
#endif

TEST_P(ActivationsTest, FloatsAreAccurate) {
  constexpr std::uint32_t kInfinity = 0x7f800000, kSign = 0x80000000;
  constexpr std::uint32_t kRun = 1 << 14;
  for (std::uint32_t first = 0; first < kInfinity;) {
    std::vector<float> x;
    while (x.size() < kRun && first < kInfinity) {
      const float next = FromBits(first);
      x.push_back(next);
      x.push_back(FromBits(first | kSign));
      first += next >= kFirst && next < kLast ? kStride : kOuterStride;
    }
    Check<float>(x, 2);
  }
}

// Around each number at which the formula or the power of two changes.
TEST_P(ActivationsTest, FloatsNearThresholdsAreAccurate) {
  std::vector<float> centers = {18, 9.015625f, -87.33654f};
  for (int i = 0; i < 256; ++i) {
    centers.push_back((i - 128) * 0.5f * 0.34657359f);
  }
  for (int exponent = -5; exponent < 4; ++exponent) {
    for (int i = 4; i < 8; ++i) centers.push_back(std::ldexp(i, exponent - 2));
  }
  std::vector<float> x;
  for (float center : centers) {
    float up = center, down = center;
    for (int i = 0; i < 1000; ++i) {
      x.insert(x.end(), {up, -up, down, -down});
      up = std::nextafter(up, HUGE_VALF);
      down = std::nextafter(down, -HUGE_VALF);
    }
  }
  Check<float>(x, 2);
}

TEST_P(ActivationsTest, DoublesAreAccurate) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> x;
  for (int i = 0; i < 200'000; ++i) {
    const double u = uniform(generator);
    x.insert(x.end(), {u, 20 * u, 720 * u,
                       std::copysign(std::exp2(-1000 * std::fabs(u)), u)});
  }
  Check<double>(x, 3);
}

TEST_P(ActivationsTest, LimitsAreExact) {
  CheckLimits<float>();
  CheckLimits<double>();
}

TEST_P(ActivationsTest, NanStaysNan) {
  CheckNotANumber<float>();
  CheckNotANumber<double>();
}

// Elements at the end of accessible memory, before a protected page.
template <typename T>
class MemoryEnd {
 public:
  MemoryEnd()
      : page_(sysconf(_SC_PAGESIZE)),
        memory_(
            static_cast<char*>(mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    mprotect(memory_ + page_, page_, PROT_NONE);
  }
  ~MemoryEnd() { munmap(memory_, 2 * page_); }
  MemoryEnd(const MemoryEnd&) = delete;
  MemoryEnd& operator=(const MemoryEnd&) = delete;

  T* Last(std::int64_t count) const {
    return reinterpret_cast<T*>(memory_ + page_) - count;
  }

 private:
  const std::int64_t page_;
  char* const memory_;
};

template <typename T>
void ActivationsTest::CheckPartial() {
  const VectorFunctions<T> functions = Functions<T>();
  const std::int64_t elements = functions.vector_elements;
  const MemoryEnd<T> end;
  for (std::int64_t count = 0; count <= elements; ++count) {
    T* const last = end.Last(count);
    for (std::int64_t i = 0; i < count; ++i) last[i] = i + 1;
    std::vector<T> lanes(elements, 77);
    functions.load_partial(last, count, lanes.data());
    for (std::int64_t i = 0; i < elements; ++i) {
      EXPECT_EQ(lanes[i], i < count ? i + 1 : 0) << count;
      lanes[i] = 100 + i;
    }
    functions.store_partial(lanes.data(), last, count);
    for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(last[i], 100 + i);

    std::vector<T> to(elements, 55);
    functions.store_partial(lanes.data(), to.data(), count);
    for (std::int64_t i = 0; i < elements; ++i) {
      EXPECT_EQ(to[i], i < count ? lanes[i] : 55) << count;
    }
  }
}

TEST_P(ActivationsTest, PartialVectorsAccessNoOtherMemory) {
  CheckPartial<float>();
  CheckPartial<double>();
}

// The result of an element does not depend on its position.
TEST_P(ActivationsTest, SameBitsInEveryLane) {
  const VectorFunctions<float> functions = Functions<float>();
  for (float x : {-30.0f, -2.3f, -1e-3f, 0.4f, 7.9f}) {
    for (const auto function : {functions.tanh, functions.sigmoid}) {
      const std::vector<float> copies(37, x);
      std::vector<float> results(37);
      function(copies.data(), results.data(), 37);
      EXPECT_EQ(results, std::vector<float>(37, results[0])) << x;
    }
  }
}

// Those that the functions are compiled for. Higher ones are for products.
std::vector<InstructionSet> TestedInstructionSets() {
  std::vector<InstructionSet> sets;
  for (InstructionSet each : SupportedInstructionSets()) {
    if (each <= InstructionSet::kAvx512) sets.push_back(each);
  }
  return sets;
}

INSTANTIATE_TEST_SUITE_P(
    InstructionSets, ActivationsTest,
    testing::ValuesIn(TestedInstructionSets()),
    [](const testing::TestParamInfo<InstructionSet>& info) {
      return std::string(InstructionSetName(info.param));
    });

}  // namespace
}  // namespace tf_rnn_ops::rnn
