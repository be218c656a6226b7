// A CUDA driver for tests, whose GPUs' memory is the host's. Work is done when
// it is enqueued, but for copies to the host, which are done when their stream
// is waited for. What a real driver would refuse or, worse, not notice fails
// the test: an unknown stream, one of a context that is not current, a pointer
// out of what was allocated, and the like.

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
#include "cc/gpu/status.h"

namespace tf_rnn_ops::gpu {

struct FakeDim3 {
  unsigned x, y, z;
};

// What cuLaunchKernel was given.
struct FakeLaunch {
  FakeDim3 grid;
  FakeDim3 block;
  void** arguments;  // addresses of the arguments' values
};

// One may exist at a time.
class FakeCudaDriver : public FakeLibrary<FakeCall, CUresult> {
 public:
  using Kernel = std::function<void(const FakeLaunch&)>;

  FakeCudaDriver();
  // Fails the test if memory was not freed or written out of bounds, or if this
  // thread's contexts are not those that were current at first.
  ~FakeCudaDriver();

  const CudaDriver* driver() const { return &functions_; }

  // A context of a GPU of its own, of that compute capability and with so many
  // multiprocessors. Not current.
  CUcontext NewContext(int major = 9, int minor = 0,
                       int num_multiprocessors = 132);
  CUstream NewStream(CUcontext context);

  // Memory on the GPU, aligned to 256 bytes, full of NaNs whatever the type,
  // between bytes that must not be written (and under AddressSanitizer not be
  // read). Null if num_bytes is 0.
  void* Allocate(std::size_t num_bytes);
  // Fails the test if the memory was written out of bounds.
  void Free(void* memory);

  // What the kernel `name` of any module does.
  void RegisterKernel(const std::string& name, Kernel kernel);

  // What cuModuleLoadData was given.
  std::vector<const void*> loaded_images() const;

  // For fakes of other libraries. Each fails the test and returns false if what
  // it says is not so.

  // `stream` exists and its context is current.
  bool CheckStream(CUstream stream, const std::string& caller);
  // So many bytes lie in one allocation on the GPU.
  bool CheckDeviceMemory(const void* memory, std::size_t num_bytes,
                         const std::string& caller) const;
  // So many bytes lie in none.
  bool CheckHostMemory(const void* memory, std::size_t num_bytes,
                       const std::string& caller) const;
  // The memory is aligned to so many bytes.
  static bool CheckAligned(const void* memory, std::size_t alignment,
                           const std::string& caller);

  // The calling thread's; null if there is none.
  static CUcontext current_context();

 private:
  friend struct FakeCudaFunctions;

  struct Stream {
    CUcontext context;
    std::vector<std::function<void()>> copies;  // to the host, not done yet
  };
  struct Context {
    CUdevice device;
    int major;  // of its compute capability
    int minor;
    int num_multiprocessors;
    Stream default_stream;
  };
  struct Function {
    CUcontext context;
    Kernel kernel;
  };

  // Null if it does not exist. `stream` null is the default stream of the
  // current context, which exists if a context is current.
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

// Memory of a call, which is checked and freed when the allocator dies.
class FakeScratchAllocator : public ScratchAllocator {
 public:
  explicit FakeScratchAllocator(FakeCudaDriver* driver) : driver_(driver) {}
  ~FakeScratchAllocator() override;

  Status Allocate(std::size_t num_bytes, void** memory) override;

  // Makes a later call fail: the next one, or that after so many others.
  void Fail(int skipped_calls = 0) { calls_until_failure_ = skipped_calls; }

 private:
  FakeCudaDriver* driver_;
  std::vector<void*> memory_;
  int calls_until_failure_ = -1;
};

// An array on the GPU, that begins `offset` elements after an allocation does.
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

 private:
  FakeCudaDriver* driver_;
  T* storage_;
  std::size_t size_;
  std::size_t offset_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDA_DRIVER_H_
