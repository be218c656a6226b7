// Tests that misuse of the fakes fails a test. That they compute what they
// should is checked by the tests of the GPU engine.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cc/gpu/fakes/fake_gpu.h"

namespace tf_rnn_ops::gpu {
namespace {

CUdeviceptr AsDevice(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

// A program that calls each library.
class Program {
 public:
  Program() {
    cublas().cublasCreate_v2(&handle);
    cublas().cublasSetStream_v2(handle, gpu.stream());
    cudnn().cudnnCreateTensorDescriptor(&descriptor);
  }
  ~Program() {
    cublas().cublasDestroy_v2(handle);
    cudnn().cudnnDestroyTensorDescriptor(descriptor);
  }

  const CudaDriver& driver() { return *gpu.driver().driver(); }
  const CublasFunctions& cublas() { return gpu.fake_cublas().functions(); }
  const Cudnn& cudnn() { return *gpu.cudnn().cudnn(); }

  int Fill(const void* memory, std::size_t num_bytes, CUstream stream) {
    return driver().cuMemsetD8Async(AsDevice(memory), 0, num_bytes, stream);
  }
  // The product of [2, 3] and [3, 4], column-major.
  int Multiply(const float* product, const float* factor = nullptr) {
    return cublas().cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 4, 3,
                                 factor ? factor : &one, a.data(), CUDA_R_32F,
                                 2, b.data(), CUDA_R_32F, 3, &zero,
                                 const_cast<float*>(product), CUDA_R_32F, 2,
                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  int Describe(int stride) {
    const int dims[] = {2, 3, 4}, strides[] = {stride, 4, 1};
    return cudnn().cudnnSetTensorNdDescriptor(descriptor, CUDNN_DATA_FLOAT, 3,
                                              dims, strides);
  }
  int Launch(unsigned grid, unsigned block) {
    gpu.driver().RegisterKernel("kernel", [](const FakeLaunch&) {});
    CUmodule module;
    CUfunction function;
    driver().cuModuleLoadData(&module, "image");
    driver().cuModuleGetFunction(&function, module, "kernel");
    void* arguments[] = {nullptr};
    return driver().cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0,
                                   gpu.stream(), arguments, nullptr);
  }

  FakeGpu gpu;
  FakeDeviceArray<float> a{&gpu.driver(), 6}, b{&gpu.driver(), 12},
      c{&gpu.driver(), 8};
  float one = 1, zero = 0, host[8] = {};
  cublasHandle_t handle;
  cudnnTensorDescriptor_t descriptor;
};

TEST(FakesTest, ValidCallsSucceed) {
  Program p;
  EXPECT_EQ(p.Fill(p.a.data(), 24, p.gpu.stream()), 0);
  EXPECT_EQ(p.Multiply(p.c.data()), 0);
  EXPECT_EQ(p.Describe(12), 0);
  EXPECT_EQ(p.Launch(2, 3), 0);
}

// A wrong call, and the expected message.
struct Misuse {
  const char* message;
  std::function<int(Program&)> call;
};

TEST(FakesTest, MisuseFailsTheTest) {
  const Misuse kMisuses[] = {
      {"25 bytes",
       [](Program& p) { return p.Fill(p.a.data(), 25, p.gpu.stream()); }},
      {"not in one allocation",
       [](Program& p) { return p.Fill(p.host, 4, p.gpu.stream()); }},
      {"unknown stream",
       [](Program& p) { return p.Fill(p.a.data(), 4, NewHandle<CUstream>()); }},
      {"not current",
       [](Program& p) {
         FakeCudaDriver& driver = p.gpu.driver();
         return p.Fill(p.a.data(), 4, driver.NewStream(driver.NewContext()));
       }},
      {"a grid of 0", [](Program& p) { return p.Launch(0, 3); }},
      {"a block of 1025", [](Program& p) { return p.Launch(2, 1025); }},
      {"c: 32 bytes", [](Program& p) { return p.Multiply(p.c.data() + 1); }},
      {"c and b overlap", [](Program& p) { return p.Multiply(p.b.data()); }},
      {"is on the GPU",
       [](Program& p) { return p.Multiply(p.c.data(), p.a.data()); }},
      {"the handle was destroyed or never created",
       [](Program& p) { return p.cublas().cublasDestroy_v2(nullptr); }},
      {"the handle's context is not current",
       [](Program& p) {
         FakeCudaDriver& driver = p.gpu.driver();
         ScopedContext scope(p.driver());
         EXPECT_TRUE(scope.Enter(driver.NewStream(driver.NewContext())).ok());
         return p.Multiply(p.c.data());
       }},
      {"a tensor that is not dense", [](Program& p) { return p.Describe(24); }},
      {"the Tensor descriptor was destroyed",
       [](Program& p) { return p.cudnn().cudnnDestroyTensorDescriptor({}); }},
  };
  for (const Misuse& misuse : kMisuses) {
    Program program;
    testing::TestPartResultArray failures;
    {
      testing::ScopedFakeTestPartResultReporter reporter(&failures);
      EXPECT_NE(misuse.call(program), 0);
    }
    ASSERT_EQ(failures.size(), 1) << misuse.message;
    const std::string actual = failures.GetTestPartResult(0).message();
    EXPECT_NE(actual.find(misuse.message), std::string::npos) << actual;
  }
}

TEST(FakesTest, FailedCallsHaveNoEffect) {
  Program p;
  std::fill_n(p.a.data(), 6, 1.f);
  p.gpu.driver().FailAny(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(p.Fill(p.a.data(), 24, p.gpu.stream()), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(p.a.ToVector(), std::vector<float>(6, 1.f));
}

#if !defined(__SANITIZE_ADDRESS__)  // detects them itself
TEST(FakesTest, DetectsOutOfBoundsWrites) {
  FakeCudaDriver driver;
  char* const memory = static_cast<char*>(driver.Allocate(5));
  memory[5] = 0;
  EXPECT_NONFATAL_FAILURE(driver.Free(memory), "after an array");
}
#endif

TEST(FakesTest, DetectsLeaks) {
  FakeCudaDriver driver;
  EXPECT_NONFATAL_FAILURE(
      {
        FakeCudnn fake(&driver);
        cudnnTensorDescriptor_t desc;
        fake.cudnn()->cudnnCreateTensorDescriptor(&desc);
      },
      "descriptors were not destroyed");
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
