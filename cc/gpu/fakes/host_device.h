// Compiles device code for the host and runs it thread by thread. Include it
// before the device code and after all CUDA headers.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_HOST_DEVICE_H_
#define TF_RNN_OPS_CC_GPU_FAKES_HOST_DEVICE_H_

#include "cc/gpu/fakes/fake_cuda_driver.h"

#undef __global__
#define __global__

// CUDA's built-in variables.
inline thread_local tf_rnn_ops::gpu::FakeDim3 gridDim;
inline thread_local tf_rnn_ops::gpu::FakeDim3 blockDim;
inline thread_local tf_rnn_ops::gpu::FakeDim3 blockIdx;
inline thread_local tf_rnn_ops::gpu::FakeDim3 threadIdx;

namespace tf_rnn_ops::gpu {

// Calls body() for every `index` in `size`.
template <typename Body>
void ForEachIndex(const FakeDim3& size, FakeDim3* index, const Body& body) {
  for (index->z = 0; index->z < size.z; ++index->z) {
    for (index->y = 0; index->y < size.y; ++index->y) {
      for (index->x = 0; index->x < size.x; ++index->x) body();
    }
  }
}

// Returns the fake driver's function for a kernel with one argument whose
// threads are independent.
template <typename Argument>
FakeCudaDriver::Kernel OnHost(void (*kernel)(Argument)) {
  return [kernel](const FakeLaunch& launch) {
    const auto& argument = *static_cast<const Argument*>(launch.arguments[0]);
    gridDim = launch.grid;
    blockDim = launch.block;
    ForEachIndex(gridDim, &blockIdx, [&] {
      ForEachIndex(blockDim, &threadIdx, [&] { kernel(argument); });
    });
  };
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_HOST_DEVICE_H_
