#include "cc/rnn/simd/parallel_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cc/rnn/executor.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

struct ProductSize {
  std::int64_t rows, depth, cols;
};

// About the widths of tiles, panels, chunks and blocks.
const ProductSize kSizes[] = {{1, 1, 1},    {1, 7, 100},   {2, 300, 33},
                              {3, 64, 16},  {5, 0, 9},     {0, 5, 9},
                              {5, 9, 0},    {13, 257, 17}, {40, 512, 64},
                              {200, 30, 3}, {150, 100, 70}};

std::vector<double> Random(std::int64_t size, unsigned seed) {
  std::mt19937 generator(seed);
  return RandomArray(size, 1, generator);
}

class ParallelProductTest : public testing::TestWithParam<ProductSize> {
 protected:
  // [rows, depth] times [depth, cols], element by element.
  std::vector<double> Product(const std::vector<double>& a,
                              const std::vector<double>& b) const {
    const auto [rows, depth, cols] = GetParam();
    std::vector<double> product(rows * cols);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t k = 0; k < depth; ++k) {
          product[i * cols + j] += a[i * depth + k] * b[k * cols + j];
        }
      }
    }
    return product;
  }

  // The transpose of a matrix [rows, cols].
  static std::vector<double> Transposed(const std::vector<double>& matrix,
                                        std::int64_t rows, std::int64_t cols) {
    std::vector<double> transposed(matrix.size());
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        transposed[j * rows + i] = matrix[i * cols + j];
      }
    }
    return transposed;
  }

  SerialExecutor executor_;
};

TEST_P(ParallelProductTest, MultiplyEqualsThePlainLoop) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> a = Random(rows * depth, 1);
  const std::vector<double> b = Random(depth * cols, 2);
  const std::vector<double> b_transposed = Transposed(b, depth, cols);
  const std::vector<double> bias = Random(cols, 3);
  std::vector<double> expected = Product(a, b);
  for (std::int64_t i = 0; i < rows * cols; ++i) expected[i] += bias[i % cols];

  for (bool transposed : {false, true}) {
    std::vector<double> panels(PackedSize<double>(depth, cols));
    const PackedMatrix<double> packed{panels.data(), depth, cols};
    if (transposed) {
      ParallelPackTransposed<double>({b_transposed.data(), cols, depth}, packed,
                                     executor_);
    } else {
      ParallelPack<double>({b.data(), depth, cols}, 0, packed, executor_);
    }
    std::vector<double> out(rows * cols, 77);
    ParallelMultiply<double>({a.data(), rows, depth}, packed,
                             {bias.data(), 1, cols, 0},
                             {out.data(), rows, cols}, executor_);
    ExpectClose(out, expected, 1e-14, transposed ? "transposed" : "plain");
  }
}

TEST_P(ParallelProductTest, MultiplyTransposedEqualsThePlainLoop) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> a = Random(rows * depth, 1);
  const std::vector<double> a_transposed = Transposed(a, rows, depth);
  const std::vector<double> b = Random(depth * cols, 2);
  const std::vector<double> before = Random(rows * cols, 3);
  std::vector<double> scratch(kTransposedScratch<double>);
  for (bool add : {false, true}) {
    std::vector<double> expected = Product(a, b);
    if (add) {
      for (std::int64_t i = 0; i < rows * cols; ++i) expected[i] += before[i];
    }
    std::vector<double> out = before;
    ParallelMultiplyTransposed<double>(
        {a_transposed.data(), depth, rows}, {b.data(), depth, cols}, add,
        scratch.data(), {out.data(), rows, cols}, executor_);
    ExpectClose(out, expected, 1e-14, add ? "added" : "alone");
  }
}

TEST_P(ParallelProductTest, ColumnSumsEqualThePlainLoop) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> matrix = Random(depth * cols, 1);
  std::vector<double> expected(cols), sums(cols, 77);
  for (std::int64_t i = 0; i < depth * cols; ++i) {
    expected[i % cols] += matrix[i];
  }
  ParallelColumnSums<double>({matrix.data(), depth, cols}, sums.data(),
                             executor_);
  ExpectClose(sums, expected, 1e-14, "sums");
}

INSTANTIATE_TEST_SUITE_P(Sizes, ParallelProductTest, testing::ValuesIn(kSizes),
                         [](const testing::TestParamInfo<ProductSize>& info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.depth) + "x" +
                                  std::to_string(info.param.cols);
                         });

// The cut follows the number of threads; the bits do not.
TEST(ParallelProductThreadsTest, SameBitsForAnyNumberOfThreads) {
  const std::int64_t rows = 300, depth = 300, cols = 100;
  const std::vector<double> a = Random(rows * depth, 1);
  const std::vector<double> b = Random(depth * cols, 2);
  std::vector<double> panels(PackedSize<double>(depth, cols));
  const PackedMatrix<double> packed{panels.data(), depth, cols};
  std::vector<double> first, first_transposed;
  for (int num_threads : {1, 2, 7}) {
    Threads threads;
    PoolExecutor executor(threads.Schedule(), num_threads);
    ParallelPack<double>({b.data(), depth, cols}, 0, packed, executor);
    std::vector<double> out(rows * cols), out_transposed(rows * cols);
    std::vector<double> scratch(num_threads * kTransposedScratch<double>);
    ParallelMultiply<double>({a.data(), rows, depth}, packed,
                             NoMatrix<double>(), {out.data(), rows, cols},
                             executor);
    ParallelMultiplyTransposed<double>(
        {a.data(), depth, rows}, {b.data(), depth, cols}, false, scratch.data(),
        {out_transposed.data(), rows, cols}, executor);
    if (num_threads == 1) {
      first = out;
      first_transposed = out_transposed;
    }
    EXPECT_TRUE(out == first) << num_threads;
    EXPECT_TRUE(out_transposed == first_transposed) << num_threads;
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
