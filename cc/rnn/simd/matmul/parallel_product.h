// Products of large matrices, on multiple threads.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PARALLEL_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PARALLEL_PRODUCT_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>

#include "cc/rnn/executor.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/product.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Work that consists of tasks 0, ..., size() - 1, which may run in any order
// and concurrently. operator()(task) runs a task.
template <typename Body>
struct Tasks {
  std::int64_t count;
  Body body;

  std::int64_t size() const { return count; }
  void operator()(std::int64_t task) const { body(task); }
};
template <typename Body>
Tasks(std::int64_t, Body) -> Tasks<Body>;

// A list of work of the same type, run as one.
template <typename Work>
class WorkList {
 public:
  void Add(const Work& work) {
    assert(num_works_ < kMost);
    works_[num_works_++].emplace(work);
  }

  std::int64_t size() const {
    std::int64_t sum = 0;
    for (int i = 0; i < num_works_; ++i) sum += works_[i]->size();
    return sum;
  }
  void operator()(std::int64_t task) const {
    assert(task >= 0 && task < size());
    int i = 0;
    for (; task >= works_[i]->size(); ++i) task -= works_[i]->size();
    (*works_[i])(task);
  }

 private:
  static constexpr int kMost = 9;

  std::optional<Work> works_[kMost];
  int num_works_ = 0;
};

// Runs all the work as one set of tasks.
template <typename... Work>
void RunTogether(Executor& executor, const Work&... work) {
  executor.ParallelFor((work.size() + ... + 0), [&](std::int64_t task) {
    const auto run_if_mine = [&](const auto& mine) {
      if (task >= 0 && task < mine.size()) mine(task);
      task -= mine.size();
    };
    (run_if_mine(work), ...);
  });
}

// Splits a matrix into blocks, one for each task. The bits of a product do not
// depend on the split, so it may depend on the number of threads. Blocks are
// numbered down the columns. A thread gets neighboring blocks, which read few
// columns of the right operand. If other work, such as the time steps, splits
// the same columns in this way, they are in the cache of the same thread.
class Blocks {
 public:
  // Blocks have at most most_rows and most_cols, are multiples of least_rows
  // and least_cols, and have nearly equal width. They are smaller if they would
  // exceed most_elements, and have fewer rows if threads would be idle.
  Blocks(std::int64_t rows, std::int64_t cols, std::int64_t least_rows,
         std::int64_t most_rows, std::int64_t least_cols,
         std::int64_t most_cols, double most_elements, int num_threads)
      : rows_(rows),
        cols_(cols),
        block_cols_(Multiple(
            cols,
            CeilDiv(cols,
                    AtMost(most_cols, most_elements / least_rows, least_cols)),
            least_cols)) {
    constexpr std::int64_t kBlocksPerThread = 4;
    const std::int64_t wanted =
        CeilDiv(kBlocksPerThread * num_threads, Max(blocks_across(), 1));
    block_rows_ =
        Min(AtMost(most_rows, most_elements / block_cols_, least_rows),
            Multiple(rows, wanted, least_rows));
  }

  std::int64_t size() const { return blocks_down() * blocks_across(); }
  std::int64_t row(std::int64_t block) const {
    return block % blocks_down() * block_rows_;
  }
  std::int64_t col(std::int64_t block) const {
    return block / blocks_down() * block_cols_;
  }
  std::int64_t rows(std::int64_t block) const {
    return Min(block_rows_, rows_ - row(block));
  }
  std::int64_t cols(std::int64_t block) const {
    return Min(block_cols_, cols_ - col(block));
  }

 private:
  // The smallest multiple of `least`, at least one, of which `count` cover
  // `size`.
  static std::int64_t Multiple(std::int64_t size, std::int64_t count,
                               std::int64_t least) {
    return Max(CeilDiv(CeilDiv(size, Max(count, 1)), least), 1) * least;
  }
  // `most` if it does not exceed `limit`, otherwise the largest multiple of
  // `least` that does not, at least one.
  static std::int64_t AtMost(std::int64_t most, double limit,
                             std::int64_t least) {
    if (static_cast<double>(most) <= limit) return most;
    return Max(static_cast<std::int64_t>(limit) / least, 1) * least;
  }

  std::int64_t blocks_down() const { return CeilDiv(rows_, block_rows_); }
  std::int64_t blocks_across() const { return CeilDiv(cols_, block_cols_); }

  std::int64_t rows_;
  std::int64_t cols_;
  std::int64_t block_rows_;
  std::int64_t block_cols_;
};

// Maximum number of elements of a product that one task computes.
template <typename T>
double MostElements(std::int64_t depth) {
  return kMostTaskWork<T> / static_cast<double>(depth + 1);
}

// Pack(from, to), split by rows.
template <typename Rows, typename Matrix>
class PackWork {
 public:
  PackWork(const Rows& from, const Matrix& to)
      : from_(from),
        to_(to),
        rows_(kElements / ((from.cols + 1) * kMultiple) * kMultiple +
              kMultiple) {}

  std::int64_t size() const {
    return from_.cols == 0 ? 0 : CeilDiv(from_.rows, rows_);
  }
  void operator()(std::int64_t task) const {
    const std::int64_t row = task * rows_;
    PackRows(from_, row, Min(rows_, from_.rows - row), to_);
  }

 private:
  static constexpr std::int64_t kElements = 1 << 14;
  // Some layouts keep this many rows together.
  static constexpr std::int64_t kMultiple = 32;

  Rows from_;
  Matrix to_;
  std::int64_t rows_;  // per task
};

// to = from^T, split by blocks.
template <typename T, typename Matrix>
class PackTransposedWork {
 public:
  PackTransposedWork(const MatrixView<const T>& from, const Matrix& to)
      : from_(from), to_(to) {}

  std::int64_t size() const { return to_.num_blocks(); }
  void operator()(std::int64_t task) const {
    const std::int64_t col = task * Matrix::kCols;
    const std::int64_t cols = Min(Matrix::kCols, to_.cols - col);
    PackTransposed(from_.Rows(col, cols), to_.Cols(col, cols));
  }

 private:
  MatrixView<const T> from_;
  Matrix to_;
};

// to = from^T, where both are left operands. Split by blocks.
template <typename T>
class TransposeLeftWork {
 public:
  using Left = MutableLeftMatrix<T>;

  TransposeLeftWork(const Left& from, T* to)
      : from_(from), to_(to, from.cols, from.rows) {}

  std::int64_t size() const { return from_.num_blocks(); }
  void operator()(std::int64_t task) const {
    const std::int64_t col = task * Left::kCols;
    const std::int64_t cols = Min(Left::kCols, from_.cols - col);
    PackTransposed(Constant(from_.Cols(col, cols)), to_.Rows(col, cols));
  }

 private:
  Left from_;
  Left to_;
};

// to = from, from a left operand to a right operand. Split by blocks of `to`.
template <typename T, typename Right>
class RepackWork {
 public:
  using Left = LeftMatrix<T>;

  RepackWork(const Left& from, const Right& to) : from_(from), to_(to) {}

  std::int64_t size() const { return to_.num_blocks(); }
  void operator()(std::int64_t task) const {
    const std::int64_t col = task * Right::kCols;
    if constexpr (kRoundsOperands<T>) {
      static_assert(Left::kCols == Right::kCols);
      const std::int64_t cols = Min(Right::kCols, to_.cols - col);
      PackRows(
          MatrixView<const T>(from_.At(0, col), from_.rows, cols, Left::kCols),
          0, from_.rows, to_.Cols(col, cols));
      return;
    } else {
      constexpr std::int64_t kPiece = Min(Left::kCols, Right::kCols);
      for (std::int64_t row = 0; row < from_.rows; ++row) {
        for (std::int64_t i = col; i < col + Right::kCols; i += kPiece) {
          if (i < from_.cols) {
            std::copy_n(from_.At(row, i), kPiece, to_.At(row, i));
          } else {
            std::fill_n(to_.At(row, i), kPiece, T(0));
          }
        }
      }
    }
  }

 private:
  Left from_;
  Right to_;
};

// out = initial + factors. P: the type of the factors.
template <typename P>
class MultiplyWork {
 public:
  using T = ComputeType<P>;

  MultiplyWork(const ProductSum<P>& factors, const MatrixView<const T>& initial,
               const MatrixView<T>& out, int num_threads)
      : factors_(factors),
        initial_(initial),
        out_(out),
        blocks_(out.rows, out.cols, kWholeTileRows<P>,
                kMostRows / kWholeTileRows<P> * kWholeTileRows<P>, kTileCols<T>,
                4 * kTileCols<T>, MostElements<T>(factors.depth()),
                num_threads) {}

  std::int64_t size() const { return blocks_.size(); }
  void operator()(std::int64_t task) const {
    const std::int64_t row = blocks_.row(task), col = blocks_.col(task);
    const std::int64_t rows = blocks_.rows(task), cols = blocks_.cols(task);
    Multiply(factors_.Block(row, col, rows, cols),
             BlockIfAny(initial_, row, col, rows, cols),
             out_.Block(row, col, rows, cols));
  }

 private:
  static constexpr std::int64_t kMostRows = 16 * kMaxTileRows;

  ProductSum<P> factors_;
  MatrixView<const T> initial_;
  MatrixView<T> out_;
  Blocks blocks_;
};

// out = left^T * right, or out += that.
template <typename T>
class MultiplyTransposedWork {
 public:
  MultiplyTransposedWork(const LeftMatrix<T>& left, const RightMatrix<T>& right,
                         bool add, const MatrixView<T>& out, int num_threads)
      : left_(left),
        right_(right),
        add_(add),
        out_(out),
        blocks_(out.rows, out.cols, kLeftCols<T>, kMostTransposedRows,
                kTileCols<T>, 4 * kTileCols<T>, MostElements<T>(left.rows),
                num_threads) {}

  std::int64_t size() const { return blocks_.size(); }
  void operator()(std::int64_t task) const {
    const std::int64_t row = blocks_.row(task), col = blocks_.col(task);
    const std::int64_t rows = blocks_.rows(task), cols = blocks_.cols(task);
    const MatrixView<T> out = out_.Block(row, col, rows, cols);
    MultiplyTransposed(left_.Cols(row, rows), right_.Cols(col, cols),
                       add_ ? Constant(out) : NoMatrix<T>(), out);
  }

 private:
  LeftMatrix<T> left_;
  RightMatrix<T> right_;
  bool add_;
  MatrixView<T> out_;
  Blocks blocks_;
};

// sums[j] = the sum of column j, or sums[j] += that. Split by blocks.
template <typename P>
class ColumnSumsWork {
 public:
  using T = ComputeType<P>;

  ColumnSumsWork(const LeftMatrix<P>& matrix, bool add, T* sums)
      : matrix_(matrix), add_(add), sums_(sums) {}

  std::int64_t size() const { return matrix_.num_blocks(); }
  void operator()(std::int64_t task) const {
    const std::int64_t col = task * kLeftCols<P>;
    T total[kLeftCols<P>] = {};
    for (std::int64_t row = 0; row < matrix_.rows;) {
      // Few enough rows that the running sum has little rounding error.
      const std::int64_t end = Min(row + kDepthChunk, matrix_.rows);
      T chunk[kLeftCols<P>] = {};
      for (; row < end; ++row) {
        T terms[kLeftCols<P>];
        Convert(matrix_.At(row, col), terms, kLeftCols<P>);
        for (std::int64_t j = 0; j < kLeftCols<P>; ++j) chunk[j] += terms[j];
      }
      for (std::int64_t j = 0; j < kLeftCols<P>; ++j) total[j] += chunk[j];
    }
    for (std::int64_t j = 0; j < Min(kLeftCols<P>, matrix_.cols - col); ++j) {
      sums_[col + j] = add_ ? sums_[col + j] + total[j] : total[j];
    }
  }

 private:
  LeftMatrix<P> matrix_;
  bool add_;
  T* sums_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_PARALLEL_PRODUCT_H_
