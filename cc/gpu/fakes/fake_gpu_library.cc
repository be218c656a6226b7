#include "cc/gpu/fakes/fake_gpu_library.h"

#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "cc/gpu/cublas.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/fakes/fake_cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_cudnn.h"
#include "cc/gpu/fakes/fake_dual_layer.h"
#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/gpu/fakes/fake_gru_block_cell.h"

#define TF_RNN_OPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace tf_rnn_ops::gpu {
namespace {

// Records failures of gtest's assertions, since there is no test.
class MisuseLog : public testing::ScopedFakeTestPartResultReporter {
 public:
  MisuseLog()
      : ScopedFakeTestPartResultReporter(INTERCEPT_ALL_THREADS, nullptr) {}

  void ReportTestPartResult(const testing::TestPartResult& result) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    text_ += std::string(result.message()) + "\n";
  }
  std::string Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// The global fakes.
struct Machine {
  Machine() {
    RegisterArrayKernels(&driver);
    RegisterDualLayerKernels(&driver);
    RegisterGruBlockCellKernels(&driver);
  }

  MisuseLog misuses;
  FakeCudaDriver driver;
  FakeCudnn cudnn{&driver};
  FakeCublas cublas{&driver};
};

Machine& TheMachine() {
  static Machine* const machine = new Machine;
  return *machine;
}

// The functions of one of the fakes.
template <typename Functions>
const Functions& FunctionsOf();
template <>
const CudaDriver& FunctionsOf() {
  return *TheMachine().driver.driver();
}
template <>
const Cudnn& FunctionsOf() {
  return *TheMachine().cudnn.cudnn();
}
template <>
const CublasFunctions& FunctionsOf() {
  return TheMachine().cublas.functions();
}

// A function with the same signature that forwards to one of these.
template <auto function>
struct Forwarder;
template <typename Functions, typename Result, typename... Arguments,
          Result (*Functions::*function)(Arguments...)>
struct Forwarder<function> {
  static Result Call(Arguments... arguments) {
    return (FunctionsOf<Functions>().*function)(arguments...);
  }
};

}  // namespace
}  // namespace tf_rnn_ops::gpu

// Exports the forwarder of a function under the function's name. The loader
// calls Resolve_name when it loads the library, before a sanitizer is ready.
#define TF_RNN_OPS_EXPORT_FORWARDER(Functions, name)                         \
  extern "C" {                                                               \
  __attribute__((no_sanitize("address,thread,undefined"), used)) static auto \
  Resolve_##name() -> decltype(tf_rnn_ops::gpu::Functions::name) {           \
    return tf_rnn_ops::gpu::Forwarder<                                       \
        &tf_rnn_ops::gpu::Functions::name>::Call;                            \
  }                                                                          \
  __attribute__((visibility("default"), ifunc("Resolve_" #name)))            \
  std::remove_pointer_t<decltype(tf_rnn_ops::gpu::Functions::name)>          \
      name;                                                                  \
  }
#define TF_RNN_OPS_EXPORT_DRIVER(name) \
  TF_RNN_OPS_EXPORT_FORWARDER(CudaDriver, name)
#define TF_RNN_OPS_EXPORT_CUDNN(name) TF_RNN_OPS_EXPORT_FORWARDER(Cudnn, name)
#define TF_RNN_OPS_EXPORT_CUBLAS(name, Type) \
  TF_RNN_OPS_EXPORT_FORWARDER(CublasFunctions, name)

TF_RNN_OPS_CUDA_DRIVER_FUNCTIONS(TF_RNN_OPS_EXPORT_DRIVER)
TF_RNN_OPS_CUDNN_FUNCTIONS(TF_RNN_OPS_EXPORT_CUDNN)
TF_RNN_OPS_CUBLAS_FUNCTIONS(TF_RNN_OPS_EXPORT_CUBLAS)

using tf_rnn_ops::gpu::TheMachine;

TF_RNN_OPS_EXPORT void* TfRnnOpsFake_NewContext(int major, int minor) {
  return TheMachine().driver.NewContext(major, minor);
}

TF_RNN_OPS_EXPORT void* TfRnnOpsFake_NewStream(void* context) {
  return TheMachine().driver.NewStream(static_cast<CUcontext>(context));
}

TF_RNN_OPS_EXPORT void* TfRnnOpsFake_Allocate(std::size_t num_bytes) {
  return TheMachine().driver.Allocate(num_bytes);
}

TF_RNN_OPS_EXPORT void TfRnnOpsFake_Free(void* memory) {
  TheMachine().driver.Free(memory);
}

TF_RNN_OPS_EXPORT const char* TfRnnOpsFake_TakeMisuses(void) {
  thread_local std::string misuses;
  misuses = TheMachine().misuses.Take();
  return misuses.c_str();
}

TF_RNN_OPS_EXPORT void TfRnnOpsFake_SetCudnnVersion(std::size_t version) {
  TheMachine().cudnn.set_version(version);
}

TF_RNN_OPS_EXPORT void TfRnnOpsFake_SetHasBFloat16(int has_bfloat16) {
  TheMachine().cudnn.set_has_bfloat16(has_bfloat16 != 0);
}
