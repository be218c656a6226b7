// A fake CUDA driver for tests. GPU memory is host memory. Work runs
// immediately, except copies to the host, which run when their stream is
// synchronized. Misuse fails the test, even if a real driver would not detect
// it: an unknown stream, a stream of a context that is not current, a pointer
// outside of allocated memory, and so on.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDA_DRIVER_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDA_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cc/gpu/call.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/fakes/fake_library.h"
#include "cc/rnn/status.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {

struct FakeDim3 {
  unsigned x, y, z;
};

// The arguments of cuLaunchKernel.
struct FakeLaunch {
  FakeDim3 grid;
  FakeDim3 block;
  void** arguments;  // addresses of the arguments
};

// At most one may exist.
class FakeCudaDriver : public FakeLibrary<FakeCall, CUresult> {
 public:
  using Kernel = std::function<void(const FakeLaunch&)>;

  FakeCudaDriver();
  // Fails the test if memory was not freed or was written out of bounds, or if
  // this thread's stack of contexts has changed.
  ~FakeCudaDriver();

  const CudaDriver* driver() const { return &functions_; }

  // Creates a context on a new GPU. Does not make it current.
  CUcontext NewContext(int major = 9, int minor = 0,
                       int num_multiprocessors = 132);
  CUstream NewStream(CUcontext context);

  // Allocates GPU memory, aligned to 256 bytes and filled with NaNs of any
  // type. The bytes around it must not be written (under AddressSanitizer: nor
  // read). Null if num_bytes is 0.
  void* Allocate(std::size_t num_bytes);
  // Fails the test if the memory was written out of bounds.
  void Free(void* memory);

  // Registers the function for the kernel `name` of all modules.
  void RegisterKernel(const std::string& name, Kernel kernel);

  // The images passed to cuModuleLoadData.
  std::vector<const void*> loaded_images() const;

  // Checks for fakes of other libraries. Each fails the test and returns false
  // if the condition does not hold.

  // `stream` exists and its context is current.
  bool CheckStream(CUstream stream, const std::string& caller);
  // The range is in a single allocation on the GPU.
  bool CheckDeviceMemory(const void* memory, std::size_t num_bytes,
                         const std::string& caller) const;
  // The range is in no allocation on the GPU.
  bool CheckHostMemory(const void* memory, std::size_t num_bytes,
                       const std::string& caller) const;
  // The memory is aligned to `alignment` bytes.
  static bool CheckAligned(const void* memory, std::size_t alignment,
                           const std::string& caller);

  // The current context of the calling thread, or null.
  static CUcontext current_context();

 private:
  friend struct FakeCudaFunctions;
  friend class FakeScratchAllocator;

  struct Stream {
    CUcontext context;
    std::vector<std::function<void()>> copies;  // pending copies to the host
  };
  struct Context {
    CUdevice device;
    int major;  // compute capability
    int minor;
    int num_multiprocessors;
    Stream default_stream;
  };
  struct Function {
    CUcontext context;
    Kernel kernel;
  };

  // Returns null if the stream does not exist. A null `stream` is the default
  // stream of the current context.
  Stream* FindStream(CUstream stream);
  // Fails the test if bytes before or after the memory were written.
  void CheckGuards(const char* memory, std::size_t num_bytes) const;

  CudaDriver functions_;
  std::size_t contexts_at_first_;
  std::map<CUcontext, Context> contexts_;
  std::map<CUstream, Stream> streams_;
  std::map<CUmodule, CUcontext> modules_;
  std::map<CUfunction, Function> functions_found_;
  std::map<std::string, Kernel> kernels_;
  std::map<const char*, std::size_t> allocations_;  // bytes by address
  std::vector<const void*> loaded_images_;
};

// Scratch memory of a call. The destructor checks and frees it. An allocation
// is a call of the fake driver named Allocate.
class FakeScratchAllocator : public ScratchAllocator {
 public:
  explicit FakeScratchAllocator(FakeCudaDriver* driver) : driver_(driver) {}
  ~FakeScratchAllocator() override;

  Status Allocate(std::size_t num_bytes, void** memory) override;

 private:
  FakeCudaDriver* driver_;
  std::vector<void*> memory_;
};

// An array on the GPU at an offset, in elements, in its allocation.
template <typename T>
class FakeDeviceArray {
 public:
  FakeDeviceArray(FakeCudaDriver* driver, std::size_t size,
                  std::size_t offset = 0)
      : driver_(driver),
        storage_(static_cast<T*>(
            size == 0 ? nullptr
                      : driver->Allocate((offset + size) * sizeof(T)))),
        size_(size),
        offset_(size == 0 ? 0 : offset) {}
  FakeDeviceArray(FakeCudaDriver* driver, const std::vector<T>& values,
                  std::size_t offset = 0)
      : FakeDeviceArray(driver, values.size(), offset) {
    if (!values.empty()) {
      std::memcpy(data(), values.data(), values.size() * sizeof(T));
    }
  }
  FakeDeviceArray(const FakeDeviceArray&) = delete;
  FakeDeviceArray& operator=(const FakeDeviceArray&) = delete;
  ~FakeDeviceArray() { driver_->Free(storage_); }

  T* data() { return storage_ == nullptr ? nullptr : storage_ + offset_; }
  std::size_t size() const { return size_; }
  std::vector<T> ToVector() const {
    if (size_ == 0) return {};
    return std::vector<T>(storage_ + offset_, storage_ + offset_ + size_);
  }
  rnn::Array ToDoubles() const {
    rnn::Array result;
    for (T value : ToVector()) result.push_back(rnn::ToDouble(value));
    return result;
  }

 private:
  FakeCudaDriver* driver_;
  T* storage_;
  std::size_t size_;
  std::size_t offset_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDA_DRIVER_H_
