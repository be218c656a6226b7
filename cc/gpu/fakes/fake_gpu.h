// A fake GPU for tests: the fake driver, cuDNN and cuBLAS, a stream, and all
// kernels, compiled for the host.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/fakes/fake_cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_cudnn.h"

namespace tf_rnn_ops::gpu {

// A fake GPU whose context is current in the calling thread.
class FakeGpu {
 public:
  FakeGpu();

  FakeCudaDriver& driver() { return driver_; }
  FakeCudnn& cudnn() { return cudnn_; }
  CudnnHandlePool& handles() { return handles_; }
  FakeCublas& fake_cublas() { return fake_cublas_; }
  Cublas& cublas() { return cublas_; }
  CUstream stream() const { return stream_; }

  // scratch: null for calls that need none.
  gpu::Call Call(ScratchAllocator* scratch = nullptr) {
    return {driver_.driver(), stream_, scratch};
  }

  // Makes a context current that has no loaded code and no handles.
  void UseNewContext();

 private:
  FakeCudaDriver driver_;
  FakeCudnn cudnn_{&driver_};
  CudnnHandlePool handles_{*cudnn_.cudnn()};
  FakeCublas fake_cublas_{&driver_};
  Cublas cublas_{fake_cublas_.functions()};
  CUstream stream_ = nullptr;
  std::optional<ScopedContext> scope_;
};

// The arrays of a call: inputs, which it must not write, and outputs.
template <typename T>
class FakeArrays {
 public:
  // offset: of each array in its allocation, in elements.
  explicit FakeArrays(FakeGpu* gpu, std::size_t offset = 0)
      : driver_(&gpu->driver()), offset_(offset) {}
  ~FakeArrays() {
    for (Input& each : inputs_) {
      const std::vector<T> now = each.array.ToVector();
      EXPECT_TRUE(now.empty() || std::memcmp(now.data(), each.values.data(),
                                             now.size() * sizeof(T)) == 0)
          << "an input was written";
    }
  }

  const T* In(rnn::Array values) {
    inputs_.emplace_back(driver_, rnn::Rounded<T>(values), offset_);
    return inputs_.back().array.data();
  }
  // Read() stores the output in `result`.
  T* Out(std::size_t size, rnn::Array* result) {
    outputs_.emplace_back(driver_, size, offset_, result);
    return outputs_.back().array.data();
  }
  void Read() {
    for (Output& each : outputs_) *each.result = each.array.ToDoubles();
  }

 private:
  struct Input {
    Input(FakeCudaDriver* driver, const std::vector<T>& values,
          std::size_t offset)
        : values(values), array(driver, values, offset) {}
    std::vector<T> values;
    FakeDeviceArray<T> array;
  };
  struct Output {
    Output(FakeCudaDriver* driver, std::size_t size, std::size_t offset,
           rnn::Array* result)
        : array(driver, size, offset), result(result) {}
    FakeDeviceArray<T> array;
    rnn::Array* result;
  };

  FakeCudaDriver* const driver_;
  const std::size_t offset_;
  std::deque<Input> inputs_;
  std::deque<Output> outputs_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_GPU_H_
