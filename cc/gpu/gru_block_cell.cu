// The kernels of gru_block_cell_device.h, run over all rows and columns.

#include <cstdint>

#include "cc/gpu/device_grid.h"
#include "cc/gpu/gru_block_cell_device.h"

namespace tf_rnn_ops::gpu {

template <int kWidth, typename Kernel>
void ComputeInVectors(const Kernel& kernel) {
  ForEachOfThread(kernel.shape.batch, kernel.width(), kWidth,
                  [&kernel](std::int64_t row, std::int64_t col) {
                    kernel.template Compute<kWidth>(row, col);
                  });
}

#define TF_RNN_OPS_DEFINE(name, Kernel, T)            \
  extern "C" __global__ void name(Kernel<T> kernel) { \
    if (kernel.shape.is_aligned) {                    \
      ComputeInVectors<kVectorWidth<T>>(kernel);      \
    } else {                                          \
      ComputeInVectors<1>(kernel);                    \
    }                                                 \
  }
TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(TF_RNN_OPS_DEFINE)
#undef TF_RNN_OPS_DEFINE

}  // namespace tf_rnn_ops::gpu
