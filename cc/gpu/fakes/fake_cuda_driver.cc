#include "cc/gpu/fakes/fake_cuda_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#endif

namespace tf_rnn_ops::gpu {
namespace {

FakeCudaDriver* the_fake = nullptr;

std::vector<CUcontext>& ContextStack() {
  thread_local std::vector<CUcontext> stack;
  return stack;
}

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xa5;
constexpr unsigned char kGarbage = 0xff;

// Number of bytes after an allocation, up to a multiple of kAlignment.
std::size_t TailBytes(std::size_t num_bytes) {
  return kGuardBytes + (kAlignment - num_bytes % kAlignment) % kAlignment;
}

char* AsPointer(CUdeviceptr pointer) {
  return reinterpret_cast<char*>(pointer);
}

}  // namespace

// The functions in the table, by their exported names.
struct FakeCudaFunctions {
  class Call : public FakeCallStatus<CUresult, CUDA_ERROR_INVALID_VALUE> {
   public:
    explicit Call(const char* name)
        : FakeCallStatus(name, the_fake->Note({name})),
          lock_(the_fake->mutex_) {}
    Call(const char* name, CUstream stream) : Call(name) {
      Checked(the_fake->CheckStream(stream, name));
    }

    void Unlock() { lock_.unlock(); }

   private:
    std::unique_lock<std::recursive_mutex> lock_;
  };

  static CUresult cuCtxGetCurrent(CUcontext* context) {
    Call call("cuCtxGetCurrent");
    if (call.ok()) *context = the_fake->current_context();
    return call.status();
  }

  static CUresult cuDriverGetVersion(int* version) {
    Call call("cuDriverGetVersion");
    if (call.ok()) *version = CUDA_VERSION;
    return call.status();
  }

  static CUresult cuCtxGetDevice(CUdevice* device) {
    Call call("cuCtxGetDevice");
    const auto* context =
        FindIn(the_fake->contexts_, the_fake->current_context());
    if (call.Expect(context != nullptr, "no context is current")) {
      *device = context->device;
    }
    return call.status();
  }

  static CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    Call call("cuCtxPopCurrent");
    if (call.Expect(!ContextStack().empty(), "no context is current")) {
      *context = ContextStack().back();
      ContextStack().pop_back();
    }
    return call.status();
  }

  static CUresult cuCtxPushCurrent_v2(CUcontext context) {
    Call call("cuCtxPushCurrent");
    if (call.Expect(the_fake->contexts_.count(context) > 0,
                    "unknown context")) {
      ContextStack().push_back(context);
    }
    return call.status();
  }

  static CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                       CUdevice device) {
    Call call("cuDeviceGetAttribute");
    const auto& contexts = the_fake->contexts_;
    const auto found = std::find_if(
        contexts.begin(), contexts.end(),
        [&](const auto& each) { return each.second.device == device; });
    if (!call.Expect(found != contexts.end(), "unknown device")) {
      return call.status();
    }
    switch (attribute) {
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = found->second.major;
        break;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = found->second.minor;
        break;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = found->second.num_multiprocessors;
        break;
      default:
        call.Expect(false, "an attribute that the fake does not have");
    }
    return call.status();
  }

  static CUresult cuGetErrorName(CUresult error, const char** name) {
    thread_local std::string text;
    text = "CUDA_ERROR_" + std::to_string(error);
    *name = text.c_str();
    return CUDA_SUCCESS;
  }

  static CUresult cuGetErrorString(CUresult, const char** meaning) {
    *meaning = "the fake driver's";
    return CUDA_SUCCESS;
  }

  static CUresult cuLaunchKernel(CUfunction function, unsigned grid_x,
                                 unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes,
                                 CUstream stream, void** arguments,
                                 void** extra) {
    Call call("cuLaunchKernel", stream);
    const FakeLaunch launch = {
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments};
    const auto* found = FindIn(the_fake->functions_found_, function);
    if (call.Expect(found != nullptr, "unknown function") &&
        call.Expect(found->context == the_fake->current_context(),
                    "a function of another context") &&
        CheckSize(call, launch.grid, {0x7fffffff, 65535, 65535}, "grid") &&
        CheckSize(call, launch.block, {1024, 1024, 64}, "block") &&
        call.Expect(std::uint64_t{block_x} * block_y * block_z <= 1024,
                    "a block of more than 1024 threads") &&
        call.Expect(arguments != nullptr, "no arguments") &&
        call.Expect(shared_bytes == 0 && extra == nullptr,
                    "shared memory or extras, which the fake does not have")) {
      call.Unlock();
      found->kernel(launch);
    }
    return call.status();
  }

  static bool CheckSize(Call& call, const FakeDim3& size, const FakeDim3& most,
                        const std::string& what) {
    return call.Expect(
        size.x > 0 && size.y > 0 && size.z > 0 && size.x <= most.x &&
            size.y <= most.y && size.z <= most.z,
        "a " + what + " of " + std::to_string(size.x) + " x " +
            std::to_string(size.y) + " x " + std::to_string(size.z));
  }

  static bool CheckDevice(Call& call, CUdeviceptr memory,
                          std::size_t num_bytes) {
    return call.Checked(
        the_fake->CheckDeviceMemory(AsPointer(memory), num_bytes, call.name()));
  }
  static bool CheckHost(Call& call, const void* memory, std::size_t num_bytes) {
    return call.Checked(
        the_fake->CheckHostMemory(memory, num_bytes, call.name()));
  }

  static CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from,
                                       std::size_t num_bytes, CUstream stream) {
    Call call("cuMemcpyDtoDAsync", stream);
    if (call.ok() && num_bytes > 0 && CheckDevice(call, to, num_bytes) &&
        CheckDevice(call, from, num_bytes) &&
        call.Expect(to + num_bytes <= from || from + num_bytes <= to,
                    "source and destination overlap")) {
      std::memcpy(AsPointer(to), AsPointer(from), num_bytes);
    }
    return call.status();
  }

  static CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from,
                                       std::size_t num_bytes, CUstream stream) {
    Call call("cuMemcpyDtoHAsync", stream);
    if (call.ok() && num_bytes > 0 && CheckHost(call, to, num_bytes) &&
        CheckDevice(call, from, num_bytes)) {
      std::memset(to, kGarbage, num_bytes);
      const char* const begin = AsPointer(from);
      the_fake->FindStream(stream)->copies.push_back(
          [to, bytes = std::string(begin, num_bytes)] {
            bytes.copy(static_cast<char*>(to), bytes.size());
          });
    }
    return call.status();
  }

  static CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                  std::size_t num_bytes, CUstream stream) {
    Call call("cuMemsetD8Async", stream);
    if (call.ok() && num_bytes > 0 && CheckDevice(call, to, num_bytes)) {
      std::memset(AsPointer(to), value, num_bytes);
    }
    return call.status();
  }

  static CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                      const char* name) {
    Call call("cuModuleGetFunction");
    const auto* context = FindIn(the_fake->modules_, module);
    const auto* kernel = FindIn(the_fake->kernels_, std::string(name));
    if (call.Expect(context != nullptr, "unknown module") &&
        call.FailCallUnless(kernel != nullptr, CUDA_ERROR_NOT_FOUND)) {
      *function = NewHandle<CUfunction>();
      the_fake->functions_found_[*function] = {*context, *kernel};
    }
    return call.status();
  }

  static CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    Call call("cuModuleLoadData");
    const CUcontext context = the_fake->current_context();
    if (call.Expect(context != nullptr && image != nullptr,
                    "no context or no image")) {
      *module = NewHandle<CUmodule>();
      the_fake->modules_[*module] = context;
      the_fake->loaded_images_.push_back(image);
    }
    return call.status();
  }

  static CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    Call call("cuStreamGetCtx");
    const auto* found = the_fake->FindStream(stream);
    if (call.Expect(found != nullptr, "unknown stream")) {
      *context = found->context;
    }
    return call.status();
  }

  static CUresult cuStreamSynchronize(CUstream stream) {
    Call call("cuStreamSynchronize", stream);
    if (auto* found = the_fake->FindStream(stream)) {
      for (const auto& copy : std::exchange(found->copies, {})) {
        if (call.ok()) copy();
      }
    }
    return call.status();
  }
};

FakeCudaDriver::FakeCudaDriver() : contexts_at_first_(ContextStack().size()) {
  EXPECT_EQ(the_fake, nullptr) << "one fake driver may exist at a time";
  the_fake = this;
#define TF_RNN_OPS_SET(name) functions_.name = FakeCudaFunctions::name;
  TF_RNN_OPS_CUDA_DRIVER_FUNCTIONS(TF_RNN_OPS_SET)
#undef TF_RNN_OPS_SET
}

FakeCudaDriver::~FakeCudaDriver() {
  EXPECT_EQ(ContextStack().size(), contexts_at_first_)
      << "a context was left current";
  EXPECT_TRUE(allocations_.empty())
      << allocations_.size() << " arrays on the GPU were not freed";
  ContextStack().resize(std::min(ContextStack().size(), contexts_at_first_));
  while (!allocations_.empty()) {
    Free(const_cast<char*>(allocations_.begin()->first));
  }
  the_fake = nullptr;
}

CUcontext FakeCudaDriver::NewContext(int major, int minor,
                                     int num_multiprocessors) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const CUcontext context = NewHandle<CUcontext>();
  contexts_[context] = {static_cast<CUdevice>(contexts_.size()),
                        major,
                        minor,
                        num_multiprocessors,
                        {context, {}}};
  return context;
}

CUstream FakeCudaDriver::NewStream(CUcontext context) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const CUstream stream = NewHandle<CUstream>();
  streams_[stream].context = context;
  return stream;
}

void* FakeCudaDriver::Allocate(std::size_t num_bytes) {
  if (num_bytes == 0) return nullptr;
  const std::size_t all = kGuardBytes + num_bytes + TailBytes(num_bytes);
  char* const begin = static_cast<char*>(std::aligned_alloc(kAlignment, all));
  std::memset(begin, kGuard, all);
  char* const memory = begin + kGuardBytes;
  std::memset(memory, kGarbage, num_bytes);
  ASAN_POISON_MEMORY_REGION(begin, kGuardBytes);
  ASAN_POISON_MEMORY_REGION(memory + num_bytes, TailBytes(num_bytes));
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  allocations_[memory] = num_bytes;
  return memory;
}

void FakeCudaDriver::Free(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const auto allocation = allocations_.find(static_cast<char*>(memory));
  if (allocation == allocations_.end()) {
    ADD_FAILURE() << "freed memory was not allocated";
    return;
  }
  CheckGuards(allocation->first, allocation->second);
  std::free(static_cast<char*>(memory) - kGuardBytes);
  allocations_.erase(allocation);
}

void FakeCudaDriver::CheckGuards(const char* memory,
                                 std::size_t num_bytes) const {
  const char* const begin = memory - kGuardBytes;
  const char* const end = memory + num_bytes;
  const std::size_t tail = TailBytes(num_bytes);
  ASAN_UNPOISON_MEMORY_REGION(begin, kGuardBytes + num_bytes + tail);
  const auto is_guard = [](char byte) {
    return static_cast<unsigned char>(byte) == kGuard;
  };
  EXPECT_TRUE(std::all_of(begin, memory, is_guard))
      << "memory before an array on the GPU was written";
  EXPECT_TRUE(std::all_of(end, end + tail, is_guard))
      << "memory after an array on the GPU was written";
}

void FakeCudaDriver::RegisterKernel(const std::string& name, Kernel kernel) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  kernels_[name] = std::move(kernel);
}

std::vector<const void*> FakeCudaDriver::loaded_images() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return loaded_images_;
}

FakeCudaDriver::Stream* FakeCudaDriver::FindStream(CUstream stream) {
  if (stream != nullptr) return FindIn(streams_, stream);
  Context* context = FindIn(contexts_, current_context());
  return context == nullptr ? nullptr : &context->default_stream;
}

bool FakeCudaDriver::CheckStream(CUstream stream, const std::string& caller) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  const Stream* found = FindStream(stream);
  if (found == nullptr) {
    ADD_FAILURE() << caller << ": unknown stream";
    return false;
  }
  if (found->context == current_context()) return true;
  ADD_FAILURE() << caller << ": the stream's context is not current";
  return false;
}

bool FakeCudaDriver::CheckDeviceMemory(const void* memory,
                                       std::size_t num_bytes,
                                       const std::string& caller) const {
  const char* const begin = static_cast<const char*>(memory);
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  auto next = allocations_.upper_bound(begin);
  if (next != allocations_.begin()) {
    const auto [address, size] = *--next;
    const std::size_t offset = begin - address;
    if (offset <= size && num_bytes <= size - offset) return true;
  }
  ADD_FAILURE() << caller << ": " << num_bytes << " bytes at " << memory
                << " are not in one allocation on the GPU";
  return false;
}

bool FakeCudaDriver::CheckHostMemory(const void* memory, std::size_t num_bytes,
                                     const std::string& caller) const {
  const char* const begin = static_cast<const char*>(memory);
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  for (const auto& [address, size] : allocations_) {
    if (begin < address + size && address < begin + num_bytes) {
      ADD_FAILURE() << caller << ": " << memory << " is on the GPU";
      return false;
    }
  }
  if (memory != nullptr) return true;
  ADD_FAILURE() << caller << ": null for memory on the host";
  return false;
}

bool FakeCudaDriver::CheckAligned(const void* memory, std::size_t alignment,
                                  const std::string& caller) {
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment == 0) return true;
  ADD_FAILURE() << caller << ": " << memory << " is not aligned to "
                << alignment << " bytes";
  return false;
}

CUcontext FakeCudaDriver::current_context() {
  return ContextStack().empty() ? nullptr : ContextStack().back();
}

FakeScratchAllocator::~FakeScratchAllocator() {
  for (void* memory : memory_) driver_->Free(memory);
}

Status FakeScratchAllocator::Allocate(std::size_t num_bytes, void** memory) {
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver_->driver()->Check(driver_->Note({"Allocate"}), "Allocate"));
  *memory = driver_->Allocate(num_bytes);
  if (*memory != nullptr) memory_.push_back(*memory);
  return Status();
}

}  // namespace tf_rnn_ops::gpu
