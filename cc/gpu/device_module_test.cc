#include "cc/gpu/device_module.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cc/gpu/fakes/fake_cuda_driver.h"

namespace tf_rnn_ops::gpu {
namespace {

// The fake driver ignores the contents of images.
const char kImages[] = "67890p";
const DeviceImage kImageList[] = {
    {9, 0, true, &kImages[5], 1},  {7, 0, false, &kImages[1], 1},
    {8, 0, false, &kImages[2], 1}, {8, 9, false, &kImages[3], 1},
    {9, 0, false, &kImages[4], 1},
};
const DeviceCode kCode = {kImageList, 5};

TEST(ChooseImageTest, ChoosesTheNearestMachineCode) {
  const struct {
    int major, minor;
    char chosen;
  } gpus[] = {{7, 0, '7'}, {7, 5, '7'}, {8, 0, '8'},  {8, 6, '8'},
              {8, 9, '9'}, {9, 0, '0'}, {10, 0, 'p'}, {12, 0, 'p'}};
  for (const auto& gpu : gpus) {
    const DeviceImage* image;
    ASSERT_TRUE(ChooseImage(kCode, gpu.major, gpu.minor, &image).ok());
    EXPECT_EQ(*static_cast<const char*>(image->data), gpu.chosen);
  }
}

TEST(ChooseImageTest, TheErrorListsTheSupportedGpus) {
  const DeviceImage* image;
  const Status status = ChooseImage(kCode, 6, 1, &image);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "the GPU has compute capability 6.1, supported are 9.0 or newer, "
            "7.0, 8.0, 8.9, 9.0");
}

TEST(ShapeForTest, HasAThreadForEachElement) {
  for (std::int64_t rows : {1, 2, 3, 4, 5, 100, 1000}) {
    for (std::int64_t cols : {1, 31, 32, 33, 127, 128, 129, 1000}) {
      const LaunchShape shape = ShapeFor(rows, cols);
      const auto covers = [](unsigned blocks, unsigned threads,
                             std::int64_t size) {
        return blocks * threads >= size && (blocks - 1) * threads < size;
      };
      EXPECT_TRUE(covers(shape.blocks_x, shape.threads_x, cols)) << cols;
      EXPECT_TRUE(covers(shape.blocks_y, shape.threads_y, rows)) << rows;
      EXPECT_LE(shape.threads_x * shape.threads_y, 128);
    }
  }
}

TEST(ShapeForTest, StaysWithinLaunchLimits) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const LaunchShape shape = ShapeFor(huge, huge);
  EXPECT_EQ(shape.blocks_x, 65535);
  EXPECT_EQ(shape.blocks_y, 65535);
}

struct Arguments {
  int factor;
  int* sum;
};

class DeviceModuleTest : public testing::Test {
 protected:
  DeviceModuleTest() {
    fake_.RegisterKernel("add", [](const FakeLaunch& launch) {
      const auto& arguments =
          *static_cast<const Arguments*>(launch.arguments[0]);
      *arguments.sum += arguments.factor * launch.grid.x * launch.grid.y *
                        launch.block.x * launch.block.y;
    });
  }

  // Requires the stream's context to be current.
  Status Launch(CUstream stream, const char* kernel, int* sum) {
    const Call call = {fake_.driver(), stream, nullptr};
    return module_.Launch(call, kernel, {2, 3, 5, 7}, Arguments{2, sum});
  }

  // For any context.
  Status EnterAndLaunch(CUstream stream, const char* kernel, int* sum) {
    ScopedContext scope(*fake_.driver());
    TF_RNN_OPS_RETURN_IF_ERROR(scope.Enter(stream));
    return Launch(stream, kernel, sum);
  }

  FakeCudaDriver fake_;
  DeviceModule module_{kCode};
};

TEST_F(DeviceModuleTest, LoadsOncePerContext) {
  const CUcontext ampere = fake_.NewContext(8, 6);
  const CUcontext hopper = fake_.NewContext(9, 0);
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(EnterAndLaunch(fake_.NewStream(ampere), "add", &sum).ok());
    ASSERT_TRUE(EnterAndLaunch(fake_.NewStream(hopper), "add", &sum).ok());
  }
  EXPECT_EQ(sum, 6 * 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(fake_.loaded_images(),
            (std::vector<const void*>{&kImages[2], &kImages[4]}));
  EXPECT_EQ(fake_.CountCalls("cuModuleGetFunction"), 2);
  EXPECT_EQ(fake_.CountCalls("cuLaunchKernel"), 6);
}

TEST_F(DeviceModuleTest, LoadsOnceForAllThreads) {
  const CUcontext context = fake_.NewContext();
  std::atomic<int> num_launched{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        int sum = 0;
        num_launched +=
            EnterAndLaunch(fake_.NewStream(context), "add", &sum).ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_launched, 80);
  EXPECT_EQ(fake_.loaded_images().size(), 1);
}

TEST_F(DeviceModuleTest, RejectsUnsupportedGpus) {
  int sum = 0;
  const Status status =
      EnterAndLaunch(fake_.NewStream(fake_.NewContext(5, 2)), "add", &sum);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(sum, 0);
}

TEST_F(DeviceModuleTest, NamesTheMissingKernel) {
  int sum = 0;
  const Status status =
      EnterAndLaunch(fake_.NewStream(fake_.NewContext()), "subtract", &sum);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("cuModuleGetFunction of subtract"),
            std::string::npos)
      << status.message();
}

TEST_F(DeviceModuleTest, EachFailureIsReported) {
  CUstream stream;
  int sum;
  std::optional<ScopedContext> scope;
  const auto run = [&] { return Launch(stream, "add", &sum); };
  const auto enter_new_context = [&] {
    scope.emplace(*fake_.driver());
    stream = fake_.NewStream(fake_.NewContext());
    ASSERT_TRUE(scope->Enter(stream).ok());
    sum = 0;
  };
  const auto run_again = [&] {
    EXPECT_EQ(sum, 0);
    ASSERT_TRUE(run().ok());
    EXPECT_EQ(sum, 2 * 2 * 3 * 5 * 7);
  };
  EXPECT_EQ(ExpectEachFailureIsReported(fake_, CUDA_ERROR_OUT_OF_MEMORY,
                                        StatusCode::kResourceExhausted, {}, run,
                                        enter_new_context, run_again),
            7);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
