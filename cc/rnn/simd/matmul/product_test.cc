// Compares the products of every instruction set with a plain loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "cc/rnn/instruction_set.h"
#include "cc/rnn/simd/matmul/product_functions.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename P>
ProductFunctions<P> Functions(InstructionSet instruction_set) {
  return HighestUpTo<ProductFunctions<P>()>(
      instruction_set,
      {
          {InstructionSet::kBaseline, &baseline::GetProductFunctions<P>},
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
          {InstructionSet::kAvx2, &avx2::GetProductFunctions<P>},
          {InstructionSet::kAvx512, &avx512::GetProductFunctions<P>},
#endif
      })();
}

QuantizedProductFunction QuantizedProduct(InstructionSet instruction_set,
                                          int digits) {
  return HighestUpTo<QuantizedProductFunction(int)>(
      instruction_set,
      {
          {InstructionSet::kBaseline, &baseline::GetQuantizedProduct},
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
          {InstructionSet::kAvx2, &avx2::GetQuantizedProduct},
          {InstructionSet::kAvx512, &avx512::GetQuantizedProduct},
          {InstructionSet::kAvx512Vnni, &avx512_vnni::GetQuantizedProduct},
          {InstructionSet::kAvx512Bf16, &avx512_bf16::GetQuantizedProduct},
          {InstructionSet::kAmx, &amx::GetQuantizedProduct},
#endif
      })(digits);
}

// Values with few bits, so that every type represents them and their products
// exactly.
template <typename P>
P FromInteger(int value) {
  return static_cast<P>(value);
}
template <>
inline BFloat16 FromInteger<BFloat16>(int value) {
  const float x = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return {static_cast<std::uint16_t>(bits >> 16)};
}

// A row-major matrix of small integers, so that sums of products are exact.
class IntegerMatrix {
 public:
  IntegerMatrix(std::int64_t rows, std::int64_t cols, unsigned seed)
      : rows_(rows), cols_(cols), elements_(rows * cols) {
    std::mt19937 generator(seed);
    for (int& each : elements_) each = static_cast<int>(generator() % 17) - 8;
  }

  int At(std::int64_t row, std::int64_t col) const {
    return elements_[row * cols_ + col];
  }
  template <typename T>
  std::vector<T> As() const {
    std::vector<T> result;
    for (int each : elements_) result.push_back(FromInteger<T>(each));
    return result;
  }
  IntegerMatrix Transposed() const {
    IntegerMatrix result(cols_, rows_, 0);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < cols_; ++j) {
        result.elements_[j * rows_ + i] = At(i, j);
      }
    }
    return result;
  }

 private:
  std::int64_t rows_;
  std::int64_t cols_;
  std::vector<int> elements_;
};

// Checks all forms of the product, with and without an initial value.
template <typename P>
void CheckProducts(const ProductFunctions<P>& functions,
                   const ProductSize& size) {
  using T = ComputeType<P>;
  const auto [rows, depth, cols] = size;
  const IntegerMatrix left(rows, depth, 1), right(depth, cols, 2),
      initial(rows, cols, 3);
  const std::vector<T> added = initial.As<T>();
  // Garbage that gives a wrong result if it is read before it is written.
  const std::int64_t left_size =
      functions.left_scratch(size) + functions.left_scratch({depth, rows, 0});
  std::vector<P> left_scratch(left_size, FromInteger<P>(1 << 20));
  std::vector<P> right_scratch(functions.right_scratch(size),
                               FromInteger<P>(1 << 20));
  for (bool adds : {false, true}) {
    std::vector<double> expected(rows * cols);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        double sum = adds ? initial.At(i, j) : 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          sum += left.At(i, k) * right.At(k, j);
        }
        expected[i * cols + j] = sum;
      }
    }
    const struct {
      const char* name;
      void (*multiply)(const ProductArguments<P>&);
      std::vector<P> left;
      std::vector<P> right;
    } forms[] = {
        {"plain", functions.multiply, left.As<P>(), right.As<P>()},
        {"of two terms", functions.multiply_sum, left.As<P>(), right.As<P>()},
        {"right transposed", functions.multiply_right_transposed, left.As<P>(),
         right.Transposed().As<P>()},
        {"left transposed", functions.multiply_left_transposed,
         left.Transposed().As<P>(), right.As<P>()},
    };
    for (const auto& form : forms) {
      std::vector<T> out(rows * cols, T(77));
      form.multiply({size, form.left.data(), form.right.data(),
                     adds ? added.data() : nullptr, out.data(),
                     left_scratch.data(), right_scratch.data()});
      EXPECT_EQ(std::vector<double>(out.begin(), out.end()), expected)
          << form.name << (adds ? ", added" : "");
    }
  }
}

// Near the sizes of tiles, blocks and chunks of any instruction set.
const ProductSize kSizes[] = {
    {1, 1, 1},      {1, 7, 100},  {1, 300, 130}, {2, 300, 33},   {3, 64, 16},
    {5, 9, 64},     {6, 31, 65},  {7, 33, 7},    {12, 16, 32},   {13, 257, 17},
    {16, 32, 32},   {17, 64, 31}, {31, 33, 34},  {32, 512, 64},  {33, 100, 96},
    {40, 513, 64},  {200, 30, 3}, {64, 64, 33},  {150, 100, 70}, {70, 0, 33},
    {70, 1100, 40},
};

class ProductTest
    : public testing::TestWithParam<std::tuple<InstructionSet, ProductSize>> {};

TEST_P(ProductTest, EqualsThePlainLoop) {
  const auto& [instruction_set, size] = GetParam();
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
  if (instruction_set == InstructionSet::kAmx) {
    CheckProducts(amx::GetProductFunctions<BFloat16>(), size);
    return;
  }
  if (instruction_set == InstructionSet::kAvx512Bf16) {
    CheckProducts(avx512_bf16::GetProductFunctions<BFloat16>(), size);
    return;
  }
#endif
  CheckProducts(Functions<float>(instruction_set), size);
  CheckProducts(Functions<double>(instruction_set), size);
}

// Row-major arguments of a quantized product.
struct QuantizedCase {
  explicit QuantizedCase(const ProductSize& size)
      : size(size),
        left(IntegerMatrix(size.rows, size.depth, 1).As<float>()),
        right(IntegerMatrix(size.depth, size.cols, 2).As<float>()),
        initial(IntegerMatrix(size.rows, size.cols, 3).As<float>()) {}

  std::vector<float> Multiply(InstructionSet instruction_set,
                              int digits) const {
    std::vector<float> out(size.rows * size.cols, 77);
    QuantizedProduct(instruction_set, digits)(size, left.data(), right.data(),
                                              initial.data(), out.data());
    return out;
  }
  // Calls check(i, j, sum) with the sums of function(left, right) over all
  // terms of element [i, j].
  template <typename Function, typename Check>
  void ForEachSum(const Function& function, const Check& check) const {
    for (std::int64_t i = 0; i < size.rows; ++i) {
      for (std::int64_t j = 0; j < size.cols; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < size.depth; ++k) {
          sum += function(left[i * size.depth + k], right[k * size.cols + j]);
        }
        check(i, j, sum);
      }
    }
  }

  ProductSize size;
  std::vector<float> left;
  std::vector<float> right;
  std::vector<float> initial;
};

double Product(double x, double y) { return x * y; }

// Each row of the left factor and each column of the right one has an element
// of the largest magnitude, so that quantization changes nothing. Of two
// digits, the products of the lower ones are left out, and two sums and their
// sum are rounded to 24 bits.
TEST_P(ProductTest, OfIntegersEqualsThePlainLoop) {
  constexpr struct {
    int digits;
    int most;
    double rounding;
  } kForms[] = {{1, 127, 0}, {2, 127 * 128 + 63, 2e-7}};
  const auto& [instruction_set, size] = GetParam();
  const auto [rows, depth, cols] = size;
  for (const auto& [digits, most, rounding] : kForms) {
    QuantizedCase k(size);
    if (digits == 2) {
      std::mt19937 generator(4);
      for (std::vector<float>* factor : {&k.left, &k.right}) {
        for (float& x : *factor) {
          x = static_cast<float>(generator() % (2 * most + 1)) - most;
        }
      }
    }
    for (std::int64_t i = 0; i < rows && depth > 0; ++i) {
      k.left[i * depth + i % depth] = i % 2 == 0 ? most : -most;
    }
    for (std::int64_t j = 0; j < cols && depth > 0; ++j) {
      k.right[j % depth * cols + j] = j % 3 == 0 ? -most : most;
    }
    const auto lower = [digits = digits](double x) {
      return digits == 1 ? 0 : x - 128 * std::floor((x + 64) / 128);
    };
    const auto product = [&](double x, double y) {
      return x * y - lower(x) * lower(y);
    };
    const double tolerance =
        rounding * static_cast<double>(depth) * most * most;
    const std::vector<float> out = k.Multiply(instruction_set, digits);
    k.ForEachSum(product, [&](std::int64_t i, std::int64_t j, double sum) {
      EXPECT_NEAR(out[i * cols + j], k.initial[i * cols + j] + sum, tolerance);
    });
  }
}

// Of real numbers, the error is what rounding of both factors can change, and
// the product of the lower digits.
TEST_P(ProductTest, OfTwoDigitsIsClose) {
  const auto& [instruction_set, size] = GetParam();
  const auto [rows, depth, cols] = size;
  QuantizedCase k(size);
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (float& x : k.left) x = normal(generator);
  for (float& x : k.right) x = normal(generator) / 1000;
  // Zeros, and magnitudes for which the scale is far from 1.
  for (std::int64_t i = 0; i < depth; ++i) {
    k.left[i] *= 0;
    k.left[(rows - 1) * depth + i] *= 1e20f;
  }
  const std::vector<float> out = k.Multiply(instruction_set, /*digits=*/2);
  std::vector<double> left_steps(rows), right_steps(cols);
  const auto step = [](double& most, float x) {
    most = std::fmax(most, std::fabs(x) / 16319);
  };
  for (std::int64_t i = 0; i < rows * depth; ++i) {
    step(left_steps[i / depth], k.left[i]);
  }
  for (std::int64_t i = 0; i < depth * cols; ++i) {
    step(right_steps[i % cols], k.right[i]);
  }
  std::vector<double> most(rows * cols);
  k.ForEachSum([](double x, double y) { return std::fabs(x * y); },
               [&](std::int64_t i, std::int64_t j, double sum) {
                 most[i * cols + j] = sum;
               });
  k.ForEachSum(Product, [&](std::int64_t i, std::int64_t j, double sum) {
    const double terms = static_cast<double>(depth);
    const double steps = left_steps[i] * right_steps[j];
    // |x| and |y| are up to 16319 steps.
    const double error = terms * (16319 + 0.25 + 4096) * steps;
    const double expected = k.initial[i * cols + j] + sum;
    EXPECT_NEAR(out[i * cols + j], expected,
                error + 1e-6 * (std::fabs(expected) + most[i * cols + j]));
  });
}

// Elements that are not finite.
TEST_P(ProductTest, OfTwoDigitsSaturates) {
  const auto& [instruction_set, size] = GetParam();
  const auto [rows, depth, cols] = size;
  if (rows < 3 || depth == 0) return;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  QuantizedCase k(size);
  const std::vector<float> expected = k.Multiply(instruction_set, 2);
  k.left[0] = kInfinity;
  k.left[depth] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = k.Multiply(instruction_set, 2);
  for (std::int64_t j = 0; j < cols; ++j) {
    // The others in row 0 are small next to the infinity.
    const float factor = k.right[j];
    EXPECT_TRUE(std::isfinite(out[j]));
    EXPECT_TRUE(factor == 0 || out[j] / factor > 1e29f);
    EXPECT_TRUE(std::isnan(out[cols + j]));
    EXPECT_EQ(out[2 * cols + j], expected[2 * cols + j]);
  }
}

// The bits do not depend on the number of rows, for which AMX has a least.
TEST_P(ProductTest, OfTwoDigitsOfEachRowIsThatOfAllRows) {
  const auto& [instruction_set, size] = GetParam();
  const auto [rows, depth, cols] = size;
  const QuantizedCase k(size);
  const std::vector<float> expected = k.Multiply(instruction_set, 2);
  for (std::int64_t i = 0; i < rows; ++i) {
    QuantizedCase row(k);
    row.size.rows = 1;
    row.left.assign(k.left.begin() + i * depth,
                    k.left.begin() + (i + 1) * depth);
    row.initial.assign(k.initial.begin() + i * cols,
                       k.initial.begin() + (i + 1) * cols);
    const std::vector<float> out = row.Multiply(instruction_set, 2);
    EXPECT_TRUE(
        std::equal(out.begin(), out.end(), expected.begin() + i * cols));
  }
}

std::string Name(const testing::TestParamInfo<ProductTest::ParamType>& info) {
  const auto& [instruction_set, size] = info.param;
  return std::string(InstructionSetName(instruction_set)) + "_" +
         std::to_string(size.rows) + "x" + std::to_string(size.depth) + "x" +
         std::to_string(size.cols);
}

INSTANTIATE_TEST_SUITE_P(
    All, ProductTest,
    testing::Combine(testing::ValuesIn(SupportedInstructionSets()),
                     testing::ValuesIn(kSizes)),
    Name);

}  // namespace
}  // namespace tf_rnn_ops::rnn
