#include "cc/rnn/simd/matmul/parallel_product.h"

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

// Near the widths of tiles, panels, chunks and blocks.
const ProductSize kSizes[] = {{1, 1, 1},    {1, 7, 100},   {2, 300, 33},
                              {3, 64, 16},  {5, 0, 9},     {0, 5, 9},
                              {5, 9, 0},    {13, 257, 17}, {40, 512, 64},
                              {200, 30, 3}, {150, 100, 70}};

std::vector<double> Random(std::int64_t size, unsigned seed) {
  std::mt19937 generator(seed);
  return RandomArray(size, 1, generator);
}

MatrixView<const double> View(const std::vector<double>& array,
                              std::int64_t rows, std::int64_t cols) {
  return {array.data(), rows, cols};
}

// An operand and its memory, which initially holds values that no product may
// use.
template <typename Matrix>
struct Operand {
  Operand(std::int64_t rows, std::int64_t cols)
      : memory(SizeOf<Matrix>(rows, cols), 1e30),
        matrix(memory.data(), rows, cols) {}

  std::vector<double> memory;
  Matrix matrix;
};
template <typename T>
using Left = Operand<MutableLeftMatrix<T>>;
template <typename T>
using Right = Operand<MutableRightMatrix<T>>;

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
  const std::vector<double> bias = Random(cols, 77);
  for (bool is_transposed : {false, true}) {
    std::vector<double> expected(rows * cols);
    for (std::int64_t i = 0; i < rows * cols; ++i) expected[i] = bias[i % cols];
    std::vector<Left<double>> lefts;
    std::vector<Right<double>> rights;
    ProductSum<double> sum;
    for (unsigned i = 0; i < 3; ++i) {
      const std::vector<double> a = Random(rows * depth, 2 * i);
      const std::vector<double> b = Random(depth * cols, 2 * i + 1);
      const std::vector<double> product = Product(a, b);
      for (std::int64_t j = 0; j < rows * cols; ++j) expected[j] += product[j];
      const Left<double>& left = lefts.emplace_back(rows, depth);
      const Right<double>& right = rights.emplace_back(depth, cols);
      const PackWork pack_left(View(a, rows, depth), left.matrix);
      const std::vector<double> b_transposed = Transposed(b, depth, cols);
      if (is_transposed) {
        RunTogether(
            executor_, pack_left,
            PackTransposedWork(View(b_transposed, cols, depth), right.matrix));
      } else {
        RunTogether(executor_, pack_left,
                    PackWork(View(b, depth, cols), right.matrix));
      }
      sum.Add(left.matrix, right.matrix);
      std::vector<double> out(rows * cols, 77);
      RunTogether(
          executor_,
          MultiplyWork(sum, MatrixView<const double>(bias.data(), 1, cols, 0),
                       MatrixView<double>(out.data(), rows, cols), 1));
      ExpectClose(out, expected, 1e-14, is_transposed ? "transposed" : "plain");
    }
  }
}

TEST_P(ParallelProductTest, MultiplyTransposedEqualsThePlainLoop) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> a = Random(rows * depth, 1);
  const std::vector<double> a_transposed = Transposed(a, rows, depth);
  const std::vector<double> b = Random(depth * cols, 2);
  const std::vector<double> before = Random(rows * cols, 3);
  Left<double> left(depth, rows);
  Right<double> right(depth, cols);
  Pack(View(a_transposed, depth, rows), left.matrix);
  Pack(View(b, depth, cols), right.matrix);
  for (bool add : {false, true}) {
    std::vector<double> expected = Product(a, b);
    if (add) {
      for (std::int64_t i = 0; i < rows * cols; ++i) expected[i] += before[i];
    }
    std::vector<double> out = before;
    RunTogether(executor_, MultiplyTransposedWork<double>(
                               left.matrix, right.matrix, add,
                               MatrixView<double>(out.data(), rows, cols), 1));
    ExpectClose(out, expected, 1e-14, add ? "added" : "alone");
  }
}

TEST_P(ParallelProductTest, ColumnSumsEqualThePlainLoop) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> matrix = Random(depth * cols, 1);
  Left<double> packed(depth, cols);
  Pack(View(matrix, depth, cols), packed.matrix);
  const std::vector<double> before = Random(cols, 3);
  for (bool add : {false, true}) {
    std::vector<double> expected = add ? before : std::vector<double>(cols);
    for (std::int64_t i = 0; i < depth * cols; ++i) {
      expected[i % cols] += matrix[i];
    }
    std::vector<double> sums = before;
    RunTogether(executor_,
                ColumnSumsWork<double>(packed.matrix, add, sums.data()));
    ExpectClose(sums, expected, 1e-14, add ? "added" : "alone");
  }
}

TEST_P(ParallelProductTest, UnpackUndoesPack) {
  const auto [rows, depth, cols] = GetParam();
  const std::vector<double> matrix = Random(depth * cols, 1);
  Left<double> packed(depth, cols);
  Pack(View(matrix, depth, cols), packed.matrix);
  std::vector<double> unpacked(depth * cols);
  Unpack(Constant(packed.matrix),
         MatrixView<double>(unpacked.data(), depth, cols));
  EXPECT_EQ(unpacked, matrix);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ParallelProductTest, testing::ValuesIn(kSizes),
                         [](const testing::TestParamInfo<ProductSize>& info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.depth) + "x" +
                                  std::to_string(info.param.cols);
                         });

// The split depends on the number of threads; the bits do not.
TEST(ParallelProductThreadsTest, SameBitsForAnyNumberOfThreads) {
  const std::int64_t rows = 300, depth = 300, cols = 100;
  const std::vector<double> a = Random(rows * depth, 1);
  const std::vector<double> b = Random(depth * cols, 2);
  Left<double> left(rows, depth);
  Right<double> right(depth, cols);
  std::vector<double> first, first_transposed;
  for (int num_threads : {1, 2, 7}) {
    Threads threads;
    PoolExecutor executor(threads.Schedule(), num_threads);
    RunTogether(executor, PackWork(View(a, rows, depth), left.matrix),
                PackWork(View(b, depth, cols), right.matrix));
    std::vector<double> out(rows * cols), out_transposed(depth * cols);
    RunTogether(
        executor,
        MultiplyWork(ProductSum<double>(left.matrix, right.matrix),
                     NoMatrix<double>(),
                     MatrixView<double>(out.data(), rows, cols), num_threads),
        MultiplyTransposedWork<double>(
            left.matrix, right.matrix, false,
            MatrixView<double>(out_transposed.data(), depth, cols),
            num_threads));
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
