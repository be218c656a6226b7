// The kernels of arrays_device.h, run over all rows and columns.

#include <cstdint>

#include "cc/gpu/arrays_device.h"
#include "cc/gpu/device_grid.h"

namespace tf_rnn_ops::gpu {

#define TF_RNN_OPS_DEFINE(name, Kernel)                             \
  extern "C" __global__ void name(Kernel kernel) {                  \
    ForEachOfThread(kernel.num_rows(), kernel.width(), /*width=*/1, \
                    [&kernel](std::int64_t row, std::int64_t col) { \
                      kernel.Compute(row, col);                     \
                    });                                             \
  }
TF_RNN_OPS_ARRAY_KERNELS(TF_RNN_OPS_DEFINE)
#undef TF_RNN_OPS_DEFINE

}  // namespace tf_rnn_ops::gpu
