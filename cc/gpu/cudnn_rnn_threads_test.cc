// Several threads, for ThreadSanitizer.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cc/gpu/cudnn_rnn_test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using ::tf_rnn_ops::rnn::Case;
using ::tf_rnn_ops::rnn::ForwardResult;
using ::tf_rnn_ops::rnn::RandomCase;
using ::tf_rnn_ops::rnn::RnnMode;

TEST(CudnnRnnThreadsTest, ManyThreadsShareAStream) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  const ForwardResult expected = CpuNetwork<double>(k).Forward(true);
  FakeNetwork<double> shared(&gpu, k);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      ScopedContext scope(*gpu.driver().driver());
      EXPECT_TRUE(scope.Enter(gpu.stream()).ok());
      Case copy = k;
      FakeNetwork<double> network(&gpu, copy);
      for (int time = 0; time < 8; ++time) {
        ForwardResult result;
        ASSERT_TRUE(network.Forward(true, &result).ok());
        ExpectSame(result, expected, 1e-12);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gpu.cudnn().num_handles(), 1);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
