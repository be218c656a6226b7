// A fake GPU for tests: the fake driver, a stream, and the kernels of arrays.h.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_

#include <gtest/gtest.h>

#include "cc/gpu/call.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/host_device.h"
// Must be included last: it is code.
#include "cc/gpu/arrays.cu"

namespace tf_rnn_ops::gpu {

inline void RegisterArrayKernels(FakeCudaDriver* driver) {
#define TF_RNN_OPS_REGISTER(name, Kernel) \
  driver->RegisterKernel(#name, OnHost(name));
  TF_RNN_OPS_ARRAY_KERNELS(TF_RNN_OPS_REGISTER)
#undef TF_RNN_OPS_REGISTER
}

// A fake GPU whose context is current in the calling thread.
class FakeGpu {
 public:
  FakeGpu()
      : context_(driver_.NewContext()),
        stream_(driver_.NewStream(context_)),
        scope_(*driver_.driver()) {
    RegisterArrayKernels(&driver_);
    EXPECT_TRUE(scope_.Enter(stream_).ok());
  }

  FakeCudaDriver& driver() { return driver_; }
  CUstream stream() const { return stream_; }

  gpu::Call Call(ScratchAllocator* scratch) {
    return {driver_.driver(), stream_, scratch};
  }

 private:
  FakeCudaDriver driver_;
  CUcontext context_;
  CUstream stream_;
  ScopedContext scope_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_
