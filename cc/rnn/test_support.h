// Shared by the unit tests of the engine.

#ifndef TF_RNN_OPS_CC_RNN_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/threads.h"

namespace tf_rnn_ops::rnn {

// Sanitizers make the tests of passes up to 20 times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsUnderSanitizers = true;
#else
constexpr bool kIsUnderSanitizers = false;
#endif

// Under sanitizers, returns one random element instead of all, with the same
// choices in each run. Each element still meets cases of every kind.
template <typename T>
std::vector<T> AllOrOneUnderSanitizers(const std::vector<T>& all) {
  if (!kIsUnderSanitizers) return all;
  static std::minstd_rand random;
  return {all[random() % all.size()]};
}

// Under sanitizers, returns a random quarter instead of all: another one in
// each test, and the same in each run.
template <typename T>
std::vector<T> AllOrSomeUnderSanitizers(const std::vector<T>& all) {
  if (!kIsUnderSanitizers) return all;
  const testing::TestInfo* const test =
      testing::UnitTest::GetInstance()->current_test_info();
  std::minstd_rand random(std::hash<std::string>()(
      std::string(test->test_suite_name()) + "." + test->name()));
  std::vector<T> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&random](const T&) { return random() % 4 == 0; });
  return some;
}

// Conversion between storage types and double, independent of the engine.

inline double ToDouble(double value) { return value; }
inline double ToDouble(float value) { return value; }
inline double ToDouble(BFloat16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
inline double ToDouble(Half value) {
  const int exponent = (value.bits >> 10) & 31;
  const int fraction = value.bits & 1023;
  const double sign = (value.bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return sign * (fraction == 0 ? std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::quiet_NaN());
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Rounds toward zero, which is good enough for inputs.
template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const float single = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    return BFloat16{static_cast<std::uint16_t>(bits >> 16)};
  } else if constexpr (std::is_same_v<T, Half>) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return Half{0x7e00};
    if (std::isinf(value))
      return Half{static_cast<std::uint16_t>(sign | 0x7c00)};
    int exponent;
    const double fraction = std::frexp(std::fabs(value), &exponent);
    if (fraction == 0) return Half{sign};
    if (exponent < -13) {  // denormal
      const int bits = static_cast<int>(std::ldexp(fraction, exponent + 24));
      return Half{static_cast<std::uint16_t>(sign | bits)};
    }
    const int bits = static_cast<int>(std::ldexp(fraction, 11)) - 1024;
    return Half{
        static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | bits)};
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
inline constexpr double kTolerance = 1e-12;
template <>
inline constexpr double kTolerance<float> = 1e-5;
template <>
inline constexpr double kTolerance<Half> = 3e-3;
template <>
inline constexpr double kTolerance<BFloat16> = 2e-2;

using Array = std::vector<double>;

inline Array RandomArray(std::int64_t count, double scale,
                         std::mt19937& generator) {
  std::normal_distribution<double> normal(0, scale);
  Array values(count);
  for (double& value : values) value = normal(generator);
  return values;
}

// Rounds `values` to T, in place, and returns them as T.
template <typename T>
std::vector<T> Rounded(Array& values) {
  std::vector<T> result;
  for (double& value : values) {
    result.push_back(FromDouble<T>(value));
    value = ToDouble(result.back());
  }
  return result;
}

inline void ExpectClose(const Array& actual, const Array& expected,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_LE(std::fabs(actual[i] - expected[i]), tolerance * largest)
        << what << "[" << i << "] is " << actual[i] << ", should be "
        << expected[i];
  }
}

// Other users that repeatedly enter and leave a pool, so that helpers come and
// go.
class IntermittentUsers {
 public:
  IntermittentUsers(PoolUsers& users, int count,
                    std::chrono::microseconds interval)
      : thread_([this, &users, count, interval] {
          while (!is_over_) {
            for (int i = 0; i < count; ++i) users.Enter();
            std::this_thread::sleep_for(interval);
            for (int i = 0; i < count; ++i) users.Leave();
            std::this_thread::sleep_for(interval);
          }
        }) {}
  ~IntermittentUsers() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_TEST_SUPPORT_H_
