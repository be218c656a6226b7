// The CUDA driver's interface, opened at run time.

#ifndef TF_RNN_OPS_CC_GPU_CUDA_DRIVER_H_
#define TF_RNN_OPS_CC_GPU_CUDA_DRIVER_H_

#include <cuda.h>

#include <string>

#include "cc/gpu/status.h"

namespace tf_rnn_ops::gpu {

// The functions of the driver that are called, as it exports them.
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

  // The file that they are from.
  std::string path;

  // The driver of this machine, opened by the first call.
  static Status Get(const CudaDriver** driver);
  // What it is, or why it cannot be opened, in a line.
  static std::string Describe();

  // What a call of one of its functions returned, in words.
  Status Check(CUresult result, const char* call) const;
};

// Makes the context of a stream the calling thread's while it lives.
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
