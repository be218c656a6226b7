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

TEST_F(FakeCudaDriverTest, RejectsUnknownAttributes) {
  CUdevice device;
  int value;
  ASSERT_EQ(driver().cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_MISUSE(driver().cuDeviceGetAttribute(
                    &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device),
                "an attribute that the fake does not have");
}

TEST_F(FakeCudaDriverTest, RejectsInvalidLaunches) {
  fake_.RegisterKernel("kernel", [](const FakeLaunch&) {});
  CUmodule module;
  CUfunction function;
  ASSERT_EQ(driver().cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
  ASSERT_EQ(driver().cuModuleGetFunction(&function, module, "kernel"),
            CUDA_SUCCESS);
  void* arguments[] = {nullptr};
  const auto launch = [&](unsigned grid, unsigned block, CUstream stream) {
    return driver().cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream,
                                   arguments, nullptr);
  };
  EXPECT_MISUSE(launch(0, 3, stream_), "a grid of 0");
  EXPECT_MISUSE(launch(2, 1025, stream_), "a block of 1025");
  ScopedContext scope(driver());
  const CUstream other = fake_.NewStream(fake_.NewContext());
  ASSERT_TRUE(scope.Enter(other).ok());
  EXPECT_MISUSE(launch(2, 3, other), "a function of another context");
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

}  // namespace
}  // namespace tf_rnn_ops::gpu
