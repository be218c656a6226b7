// The CUDA driver's interface, opened at run time.

#ifndef TF_RNN_OPS_CC_GPU_CUDA_DRIVER_H_
#define TF_RNN_OPS_CC_GPU_CUDA_DRIVER_H_

#include <cuda.h>

#include <string>

#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The functions used, by their exported names.
#define TF_RNN_OPS_CUDA_DRIVER_FUNCTIONS(F) \
  F(cuCtxGetCurrent)                        \
  F(cuCtxGetDevice)                         \
  F(cuCtxPopCurrent_v2)                     \
  F(cuCtxPushCurrent_v2)                    \
  F(cuDeviceGetAttribute)                   \
  F(cuDriverGetVersion)                     \
  F(cuGetErrorName)                         \
  F(cuGetErrorString)                       \
  F(cuLaunchKernel)                         \
  F(cuMemcpyDtoDAsync_v2)                   \
  F(cuMemcpyDtoHAsync_v2)                   \
  F(cuMemsetD8Async)                        \
  F(cuModuleGetFunction)                    \
  F(cuModuleLoadData)                       \
  F(cuStreamGetCtx)                         \
  F(cuStreamSynchronize)

struct CudaDriver {
#define TF_RNN_OPS_DECLARE(name) decltype(&::name) name = nullptr;
  TF_RNN_OPS_CUDA_DRIVER_FUNCTIONS(TF_RNN_OPS_DECLARE)
#undef TF_RNN_OPS_DECLARE

  // The file of the library.
  std::string path;

  // Returns the driver of this machine. The first call opens it.
  static Status Get(const CudaDriver** driver);
  // Returns a line with the version and file, or the error.
  static std::string Describe();

  // Converts a result to a status.
  // call: name of the function for the message.
  Status Check(CUresult result, const char* call) const;
};

// Makes the context of a stream current in the calling thread.
class ScopedContext {
 public:
  explicit ScopedContext(const CudaDriver& driver) : driver_(driver) {}
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  ~ScopedContext() {
    CUcontext popped;
    if (is_pushed_) driver_.cuCtxPopCurrent_v2(&popped);
  }

  Status Enter(CUstream stream);

 private:
  const CudaDriver& driver_;
  bool is_pushed_ = false;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDA_DRIVER_H_
