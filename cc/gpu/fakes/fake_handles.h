// Common code of the fake cuDNN and cuBLAS: handles, and checks of arrays.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_HANDLES_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_HANDLES_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_library.h"

namespace tf_rnn_ops::gpu {

// An array on the GPU that a call reads or writes.
struct FakeSpan {
  std::string name;
  const void* memory;
  std::size_t num_bytes;
  std::size_t alignment;
  bool is_output;

  const char* begin() const { return static_cast<const char*>(memory); }
  bool Overlaps(const FakeSpan& other) const {
    return begin() < other.begin() + other.num_bytes &&
           other.begin() < begin() + num_bytes;
  }
};

// A library with handles that belong to a context and are for one thread at a
// time.
// Record: a FakeCall.
template <typename Record, typename Status, Status misuse, typename Handle>
class FakeHandleLibrary : public FakeLibrary<Record, Status> {
 public:
  // The number of existing handles.
  int num_handles() const {
    const std::lock_guard<std::recursive_mutex> lock(this->mutex_);
    return static_cast<int>(handles_.size());
  }

 protected:
  // The driver must outlive the library.
  explicit FakeHandleLibrary(FakeCudaDriver* driver) : driver_(driver) {}

  // A call. It locks the library, except while it computes, and the handle, if
  // any.
  class Call : public FakeCallStatus<Status, misuse> {
   public:
    Call(FakeHandleLibrary* library, const Record& record)
        : FakeCallStatus<Status, misuse>(record.name, library->Note(record)),
          library_(*library),
          lock_(library->mutex_) {}
    Call(FakeHandleLibrary* library, const Record& record, Handle handle)
        : Call(library, record) {
      HandleState* found = FindIn(library_.handles_, handle);
      if (this->Expect(found != nullptr,
                       "the handle was destroyed or never created") &&
          this->Expect(found->context == driver().current_context(),
                       "the handle's context is not current") &&
          this->Expect(!found->is_busy, "another thread is using the handle")) {
        found->is_busy = true;
        handle_ = handle;
      }
    }
    ~Call() {
      if (handle_ != nullptr) library_.handles_[handle_].is_busy = false;
    }

    Status CreateHandle(Handle* handle) {
      const CUcontext context = driver().current_context();
      if (this->Expect(context != nullptr, "no context is current")) {
        *handle = NewHandle<Handle>();
        library_.handles_[*handle].context = context;
      }
      return this->status();
    }
    Status DestroyHandle() {
      library_.handles_.erase(std::exchange(handle_, nullptr));
      return this->status();
    }
    Status SetStream(CUstream stream) {
      if (this->ok() && CheckStream(stream)) {
        library_.handles_[handle_].stream = stream;
      }
      return this->status();
    }

    // For functions that enqueue work.
    bool CheckStream() {
      const std::optional<CUstream>& stream = library_.handles_[handle_].stream;
      return this->Expect(stream.has_value(), "the handle has no stream") &&
             CheckStream(*stream);
    }
    bool CheckHost(const void* memory, std::size_t num_bytes) {
      return this->Checked(
          driver().CheckHostMemory(memory, num_bytes, this->name()));
    }
    bool CheckSpans(const std::vector<FakeSpan>& spans) {
      for (auto a = spans.begin(); a != spans.end(); ++a) {
        const std::string what = this->name() + ", " + a->name;
        this->Checked(
            driver().CheckDeviceMemory(a->memory, a->num_bytes, what) &&
            FakeCudaDriver::CheckAligned(a->memory, a->alignment, what));
        for (auto b = spans.begin(); b != a; ++b) {
          this->Expect(!(a->is_output || b->is_output) || !a->Overlaps(*b),
                       a->name + " and " + b->name + " overlap");
        }
        if (!this->ok()) break;
      }
      return this->ok();
    }

    template <typename Compute>
    void Unlocked(const Compute& compute) {
      lock_.unlock();
      compute();
      lock_.lock();
    }

   private:
    FakeCudaDriver& driver() const { return *library_.driver_; }
    bool CheckStream(CUstream stream) {
      return this->Checked(driver().CheckStream(stream, this->name()));
    }

    FakeHandleLibrary& library_;
    std::unique_lock<std::recursive_mutex> lock_;
    Handle handle_ = nullptr;
  };

  FakeCudaDriver* const driver_;

 private:
  struct HandleState {
    CUcontext context = nullptr;
    std::optional<CUstream> stream;  // nullopt: never set
    bool is_busy = false;
  };

  std::map<Handle, HandleState> handles_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_HANDLES_H_
