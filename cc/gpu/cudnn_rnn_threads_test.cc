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

TEST(CudnnRnnThreadsTest, ManyThreadsShareStreams) {
  FakeGpu gpu;
  const CUstream streams[] = {
      gpu.stream(), gpu.driver().NewStream(gpu.driver().current_context())};
  const Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  Case copy = k;
  const ForwardResult expected = CpuNetwork<double>(copy).Forward(true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, stream = streams[i % 2]] {
      ScopedContext scope(*gpu.driver().driver());
      EXPECT_TRUE(scope.Enter(stream).ok());
      FakeNetwork<double> network(&gpu, k);
      network.stream = stream;
      for (int time = 0; time < 8; ++time) {
        ExpectSame(network.Forward(true), expected, 1e-12);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gpu.cudnn().num_handles(), 2);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
