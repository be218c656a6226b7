// Loads and launches device code.

#ifndef TF_RNN_OPS_CC_GPU_DEVICE_MODULE_H_
#define TF_RNN_OPS_CC_GPU_DEVICE_MODULE_H_

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "cc/gpu/call.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/device_code.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The grid and block sizes of a launch, with columns in x and rows in y.
struct LaunchShape {
  unsigned blocks_x;
  unsigned blocks_y;
  unsigned threads_x;
  unsigned threads_y;
};

// A shape for [rows, cols] elements (both > 0) with one thread per element, or
// fewer threads if the grid would be too large.
LaunchShape ShapeFor(std::int64_t rows, std::int64_t cols);

// Chooses the image for a compute capability: machine code for its generation
// if available, else PTX.
Status ChooseImage(const DeviceCode& code, int major, int minor,
                   const DeviceImage** image);

// Loads code into a context on first use. Never unloads it. Thread-safe.
class DeviceModule {
 public:
  explicit DeviceModule(const DeviceCode& code) : code_(code) {}
  DeviceModule(const DeviceModule&) = delete;
  DeviceModule& operator=(const DeviceModule&) = delete;

  // Launches a kernel whose only argument is a copy of `arguments`.
  template <typename Arguments>
  Status Launch(const Call& call, const char* kernel, const LaunchShape& shape,
                const Arguments& arguments) {
    return LaunchWith(call, kernel, shape, &arguments);
  }

 private:
  // The code loaded into one context.
  struct Loaded {
    CUmodule module;
    std::map<std::string, CUfunction, std::less<>> functions;
  };

  Status LaunchWith(const Call& call, const char* kernel,
                    const LaunchShape& shape, const void* argument);
  Status FindFunction(const Call& call, const char* kernel,
                      CUfunction* function);
  // Requires mutex_ to be held.
  Status Load(const CudaDriver& driver, CUcontext context, Loaded** loaded);

  const DeviceCode& code_;
  std::mutex mutex_;
  std::map<CUcontext, Loaded> loaded_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DEVICE_MODULE_H_
