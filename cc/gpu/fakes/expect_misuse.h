// Checks in the fakes' own tests that misuse fails a test.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_EXPECT_MISUSE_H_
#define TF_RNN_OPS_CC_GPU_FAKES_EXPECT_MISUSE_H_

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace tf_rnn_ops::gpu {

// Expects that a call fails, and that it fails the test with a message.
inline void ExpectMisuse(const std::function<bool()>& fails,
                         const std::string& message) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(&failures);
    EXPECT_TRUE(fails());
  }
  ASSERT_EQ(failures.size(), 1);
  const std::string actual = failures.GetTestPartResult(0).message();
  EXPECT_NE(actual.find(message), std::string::npos) << actual;
}
// expression: a status; 0 is success.
#define EXPECT_MISUSE(expression, message) \
  ExpectMisuse([&] { return (expression) != 0; }, message)

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_EXPECT_MISUSE_H_
