// Distributes the elements of a matrix over the threads of a grid. Device code.

#ifndef TF_RNN_OPS_CC_GPU_DEVICE_GRID_H_
#define TF_RNN_OPS_CC_GPU_DEVICE_GRID_H_

#include <cstdint>

// Loops run once, unless the matrix is huge, so unrolling only makes the code
// larger and slower to load.
#if defined(__CUDACC_RTC__)
#define TF_RNN_OPS_NOT_UNROLLED _Pragma("unroll 1")
#else
#define TF_RNN_OPS_NOT_UNROLLED
#endif

namespace tf_rnn_ops::gpu {

// Calls compute(row, col) for this thread's part of [rows, cols], `width`
// columns at a time. Grid and blocks have columns in x and rows in y.
template <typename Compute>
void ForEachOfThread(std::int64_t rows, std::int64_t cols, int width,
                     const Compute& compute) {
  const std::int64_t first_row =
      std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y;
  const std::int64_t first_col =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width;
  const std::int64_t row_step = std::int64_t{gridDim.y} * blockDim.y;
  const std::int64_t col_step = std::int64_t{gridDim.x} * blockDim.x * width;
  TF_RNN_OPS_NOT_UNROLLED
  for (std::int64_t row = first_row; row < rows; row += row_step) {
    TF_RNN_OPS_NOT_UNROLLED
    for (std::int64_t col = first_col; col < cols; col += col_step) {
      compute(row, col);
    }
  }
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DEVICE_GRID_H_
