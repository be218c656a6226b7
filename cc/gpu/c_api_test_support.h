// Support for tests of c_api.h: a fake GPU for C programs.

#ifndef TF_RNN_OPS_CC_GPU_C_API_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_GPU_C_API_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/gpu/c_api.h"
#include "cc/gpu/fakes/fake_gpu_library.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {

template <typename T>
constexpr int kType = TF_RNN_OPS_GPU_DOUBLE;
template <>
constexpr int kType<float> = TF_RNN_OPS_GPU_FLOAT;
template <>
constexpr int kType<rnn::Half> = TF_RNN_OPS_GPU_HALF;
template <>
constexpr int kType<rnn::BFloat16> = TF_RNN_OPS_GPU_BFLOAT16;

// A stream and memory on a fake GPU. The destructor frees the memory.
class Gpu {
 public:
  Gpu() : stream_(TfRnnOpsFake_NewStream(TfRnnOpsFake_NewContext(9, 0))) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    for (void* memory : memory_) TfRnnOpsFake_Free(memory);
  }

  TfRnnOpsGpu_Call Call() { return {stream_, AllocateFor, this, 0}; }

  void* Allocate(std::size_t num_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    memory_.push_back(TfRnnOpsFake_Allocate(num_bytes));
    return memory_.back();
  }
  // Returns an array with the given values.
  template <typename T>
  T* Copy(rnn::Array values) {
    const std::vector<T> rounded = rnn::Rounded<T>(values);
    void* const memory = Allocate(rounded.size() * sizeof(T));
    if (memory != nullptr) {
      std::memcpy(memory, rounded.data(), rounded.size() * sizeof(T));
    }
    return static_cast<T*>(memory);
  }
  // Returns an uninitialized array.
  template <typename T>
  T* Like(const rnn::Array& values) {
    return static_cast<T*>(Allocate(values.size() * sizeof(T)));
  }

 private:
  static void* AllocateFor(void* gpu, std::size_t num_bytes) {
    return static_cast<Gpu*>(gpu)->Allocate(num_bytes);
  }

  void* const stream_;
  std::mutex mutex_;
  std::vector<void*> memory_;
};

template <typename T>
rnn::Array ToDoubles(const T* array, std::size_t size) {
  rnn::Array values;
  for (std::size_t i = 0; i < size; ++i) {
    values.push_back(rnn::ToDouble(array[i]));
  }
  return values;
}

inline void ExpectOk(int code) {
  EXPECT_EQ(code, TF_RNN_OPS_GPU_OK) << TfRnnOpsGpu_LastError();
}

// Checks that tests do not misuse the fake libraries.
class CApiTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_STREQ(TfRnnOpsFake_TakeMisuses(), "");
    TfRnnOpsFake_SetCudnnVersion(90300);
  }
};

inline void ExpectInvalid(int code, const std::string& message) {
  EXPECT_EQ(code, TF_RNN_OPS_GPU_INVALID_ARGUMENT);
  EXPECT_EQ(TfRnnOpsGpu_LastError(), message);
}

// Expects an error from run() if an array in `arguments` is null.
// size: number of elements of the array.
template <typename Arguments, typename Any, typename Run>
void ExpectNeeds(Arguments* arguments, Any* Arguments::* array,
                 const std::string& name, int size, const Run& run) {
  Any* const value = std::exchange(arguments->*array, nullptr);
  ExpectInvalid(run(), name + " must have " + std::to_string(size) +
                           " elements, but is null");
  arguments->*array = value;
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_C_API_TEST_SUPPORT_H_
