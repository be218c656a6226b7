#include "cc/gpu/fakes/fake_cuda_driver.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cc/gpu/fakes/expect_misuse.h"

namespace tf_rnn_ops::gpu {
namespace {

CUdeviceptr AsDevice(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

class FakeCudaDriverTest : public testing::Test {
 protected:
  FakeCudaDriverTest() { driver().cuCtxPushCurrent_v2(context_); }
  ~FakeCudaDriverTest() override {
    CUcontext popped;
    driver().cuCtxPopCurrent_v2(&popped);
  }

  const CudaDriver& driver() { return *fake_.driver(); }

  FakeCudaDriver fake_;
  CUcontext context_ = fake_.NewContext(8, 6);
  CUstream stream_ = fake_.NewStream(context_);
};

TEST_F(FakeCudaDriverTest, CopiesAndSets) {
  FakeDeviceArray<int> a(&fake_, std::vector<int>{1, 2, 3, 4}, 1);
  FakeDeviceArray<int> b(&fake_, 4);
  int host[4] = {};
  EXPECT_EQ(driver().cuMemcpyDtoDAsync_v2(AsDevice(b.data()),
                                          AsDevice(a.data()), 16, stream_),
            CUDA_SUCCESS);
  EXPECT_EQ(b.ToVector(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(driver().cuMemsetD8Async(AsDevice(b.data() + 1), 0, 8, stream_),
            CUDA_SUCCESS);
  EXPECT_EQ(
      driver().cuMemcpyDtoHAsync_v2(host, AsDevice(b.data()), 16, stream_),
      CUDA_SUCCESS);
  EXPECT_NE(host[0], 1);  // not before synchronization
  EXPECT_EQ(driver().cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(std::vector<int>(host, host + 4), (std::vector<int>{1, 0, 0, 4}));
  EXPECT_EQ(fake_.CountCalls("cuMemcpyDtoHAsync"), 1);
}

TEST_F(FakeCudaDriverTest, RejectsInvalidMemory) {
  FakeDeviceArray<int> a(&fake_, 4);
  int host[4] = {};
  EXPECT_MISUSE(driver().cuMemsetD8Async(AsDevice(a.data()), 0, 17, stream_),
                "17 bytes");
  EXPECT_MISUSE(driver().cuMemsetD8Async(AsDevice(host), 0, 16, stream_),
                "not in one allocation");
  EXPECT_MISUSE(
      driver().cuMemcpyDtoHAsync_v2(a.data(), AsDevice(a.data()), 4, stream_),
      "is on the GPU");
  EXPECT_MISUSE(driver().cuMemcpyDtoDAsync_v2(AsDevice(a.data() + 1),
                                              AsDevice(a.data()), 8, stream_),
                "overlap");
}

TEST_F(FakeCudaDriverTest, RejectsOtherContexts) {
  FakeDeviceArray<int> a(&fake_, 4);
  const CUcontext other = fake_.NewContext();
  const CUstream stream = fake_.NewStream(other);
  EXPECT_MISUSE(driver().cuMemsetD8Async(AsDevice(a.data()), 0, 1, stream),
                "not current");
  EXPECT_MISUSE(driver().cuStreamSynchronize(NewHandle<CUstream>()),
                "unknown stream");
  ScopedContext scope(driver());
  ASSERT_TRUE(scope.Enter(stream).ok());
  EXPECT_EQ(fake_.current_context(), other);
  EXPECT_EQ(driver().cuMemsetD8Async(AsDevice(a.data()), 0, 1, stream),
            CUDA_SUCCESS);
}

TEST_F(FakeCudaDriverTest, EachContextHasADefaultStream) {
  FakeDeviceArray<char> a(&fake_, std::vector<char>{'a'});
  const CUcontext other = fake_.NewContext();
  CUcontext context;
  char host = 0;
  ASSERT_EQ(driver().cuStreamGetCtx(nullptr, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, context_);
  EXPECT_EQ(
      driver().cuMemcpyDtoHAsync_v2(&host, AsDevice(a.data()), 1, nullptr),
      CUDA_SUCCESS);
  driver().cuCtxPushCurrent_v2(other);
  ASSERT_EQ(driver().cuStreamGetCtx(nullptr, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, other);
  EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_NE(host, 'a');  // the copy is in the other context's default stream
  driver().cuCtxPopCurrent_v2(&context);
  EXPECT_EQ(driver().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(host, 'a');
  driver().cuCtxPopCurrent_v2(&context);
  EXPECT_MISUSE(driver().cuStreamGetCtx(nullptr, &context), "unknown stream");
  driver().cuCtxPushCurrent_v2(context_);
}

TEST_F(FakeCudaDriverTest, ReturnsDeviceAttributes) {
  CUdevice device;
  int major;
  int minor;
  ASSERT_EQ(driver().cuCtxGetDevice(&device), CUDA_SUCCESS);
  driver().cuDeviceGetAttribute(
      &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver().cuDeviceGetAttribute(
      &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  EXPECT_EQ(major, 8);
  EXPECT_EQ(minor, 6);
  EXPECT_MISUSE(driver().cuDeviceGetAttribute(
                    &major, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device),
                "an attribute that the fake does not have");
}

TEST_F(FakeCudaDriverTest, LaunchesKernels) {
  int sum = 0;
  fake_.RegisterKernel("add", [&sum](const FakeLaunch& launch) {
    sum += static_cast<int>(launch.grid.x * launch.block.x) *
           *static_cast<int*>(launch.arguments[0]);
  });
  const char image[] = "image";
  CUmodule module;
  CUfunction function;
  ASSERT_EQ(driver().cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(fake_.loaded_images(), std::vector<const void*>{image});
  EXPECT_EQ(driver().cuModuleGetFunction(&function, module, "subtract"),
            CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(driver().cuModuleGetFunction(&function, module, "add"),
            CUDA_SUCCESS);
  int value = 5;
  void* arguments[] = {&value};
  const auto launch = [&](unsigned grid, unsigned block, CUstream stream) {
    return driver().cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream,
                                   arguments, nullptr);
  };
  EXPECT_EQ(launch(2, 3, stream_), CUDA_SUCCESS);
  EXPECT_EQ(sum, 30);
  EXPECT_MISUSE(launch(0, 3, stream_), "a grid of 0");
  EXPECT_MISUSE(launch(2, 1025, stream_), "a block of 1025");
  const CUcontext other = fake_.NewContext();
  driver().cuCtxPushCurrent_v2(other);
  EXPECT_MISUSE(launch(2, 3, fake_.NewStream(other)),
                "a function of another context");
  CUcontext popped;
  driver().cuCtxPopCurrent_v2(&popped);
}

TEST_F(FakeCudaDriverTest, FailedCallsHaveNoEffect) {
  FakeDeviceArray<char> a(&fake_, std::vector<char>{'a'});
  fake_.FailAny(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver().cuMemsetD8Async(AsDevice(a.data()), 'z', 1, stream_),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(a.ToVector(), (std::vector<char>{'a'}));
}

#if !defined(__SANITIZE_ADDRESS__)  // detects them itself
TEST_F(FakeCudaDriverTest, DetectsOutOfBoundsWrites) {
  char* const memory = static_cast<char*>(fake_.Allocate(5));
  memory[5] = 0;
  EXPECT_NONFATAL_FAILURE(fake_.Free(memory), "after an array");
}
#endif

TEST_F(FakeCudaDriverTest, ScratchMemory) {
  FakeScratchAllocator scratch(&fake_);
  void* memory;
  ASSERT_TRUE(scratch.Allocate(0, &memory).ok());
  EXPECT_EQ(memory, nullptr);
  ASSERT_TRUE(scratch.Allocate(100, &memory).ok());
  EXPECT_TRUE(fake_.CheckDeviceMemory(memory, 100, "the test"));
  EXPECT_TRUE(FakeCudaDriver::CheckAligned(memory, 256, "the test"));
  scratch.Fail();
  EXPECT_EQ(scratch.Allocate(1, &memory).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(scratch.Allocate(1, &memory).ok());
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
