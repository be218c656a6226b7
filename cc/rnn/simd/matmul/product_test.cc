// Compares the products of every instruction set with a plain loop.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
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
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAvx512:
      return avx512::GetProductFunctions<P>();
    case InstructionSet::kAvx2:
      return avx2::GetProductFunctions<P>();
#endif
    default:
      return baseline::GetProductFunctions<P>();
  }
}

QuantizedProductFunction QuantizedProduct(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
      return amx::GetQuantizedProduct();
    case InstructionSet::kAvx512Bf16:
      return avx512_bf16::GetQuantizedProduct();
    case InstructionSet::kAvx512Vnni:
      return avx512_vnni::GetQuantizedProduct();
    case InstructionSet::kAvx512:
      return avx512::GetQuantizedProduct();
    case InstructionSet::kAvx2:
      return avx2::GetQuantizedProduct();
#endif
    default:
      return baseline::GetQuantizedProduct();
  }
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

// Each row of the left factor and each column of the right one has an element
// of magnitude 127, so that quantization changes nothing.
TEST_P(ProductTest, OfIntegersEqualsThePlainLoop) {
  const auto& [instruction_set, size] = GetParam();
  const auto [rows, depth, cols] = size;
  auto left = IntegerMatrix(rows, depth, 1).As<float>();
  auto right = IntegerMatrix(depth, cols, 2).As<float>();
  const auto initial = IntegerMatrix(rows, cols, 3).As<float>();
  for (std::int64_t i = 0; i < rows && depth > 0; ++i) {
    left[i * depth + i % depth] = i % 2 == 0 ? 127 : -127;
  }
  for (std::int64_t j = 0; j < cols && depth > 0; ++j) {
    right[j % depth * cols + j] = j % 3 == 0 ? -127 : 127;
  }
  std::vector<float> expected = initial;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      for (std::int64_t k = 0; k < depth; ++k) {
        expected[i * cols + j] += left[i * depth + k] * right[k * cols + j];
      }
    }
  }
  std::vector<float> out(rows * cols, 77);
  QuantizedProduct(instruction_set)(size, left.data(), right.data(),
                                    initial.data(), out.data());
  EXPECT_EQ(out, expected);
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
