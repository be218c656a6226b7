#include "cc/gpu/cublas.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "cc/gpu/fakes/fake_cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;

TEST(CublasGetTest, OpensTheLibraryOrReturnsAnError) {
  Cublas* cublas;
  const Status status = Cublas::Get(&cublas);
  if (status.ok()) return;
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("libcublas.so.12"), std::string::npos)
      << status.message();
}

template <typename T>
class CublasTest : public testing::Test {
 protected:
  using Compute = rnn::ComputeType<T>;

  // Runs in the context of the stream.
  Status Multiply(CUstream stream, const MatrixProduct<T>& product,
                  bool allow_tf32 = false) {
    ScopedContext scope(*fake_driver_.driver());
    TF_RNN_OPS_RETURN_IF_ERROR(scope.Enter(stream));
    const Call call = {fake_driver_.driver(), stream, nullptr};
    return cublas_.Multiply(call, product, allow_tf32);
  }

  FakeCudaDriver fake_driver_;
  FakeCublas fake_cublas_{&fake_driver_};
  Cublas cublas_{fake_cublas_.functions()};
  CUstream stream_ = fake_driver_.NewStream(fake_driver_.NewContext());
};
using Types = testing::Types<float, double, rnn::Half, rnn::BFloat16>;
TYPED_TEST_SUITE(CublasTest, Types);

// Row-major a * b; either may be transposed.
Array ReferenceProduct(const Array& a, const Array& b, std::int64_t m,
                       std::int64_t n, std::int64_t k, bool is_a_transposed,
                       bool is_b_transposed) {
  Array c(m * n);
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t col = 0; col < n; ++col) {
      for (std::int64_t i = 0; i < k; ++i) {
        c[row * n + col] += a[is_a_transposed ? i * m + row : row * k + i] *
                            b[is_b_transposed ? col * k + i : i * n + col];
      }
    }
  }
  return c;
}

TYPED_TEST(CublasTest, MultipliesRowMajorMatrices) {
  using Compute = typename TestFixture::Compute;
  std::mt19937 generator(1);
  const std::int64_t m = 3;
  const std::int64_t n = 5;
  const std::int64_t k = 7;
  for (int choice = 0; choice < 8; ++choice) {
    const bool is_a_transposed = (choice & 1) != 0;
    const bool is_b_transposed = (choice & 2) != 0;
    const bool is_added = (choice & 4) != 0;
    Array a = rnn::RandomArray(m * k, 1, generator);
    Array b = rnn::RandomArray(k * n, 1, generator);
    Array c = rnn::RandomArray(m * n, 1, generator);
    FakeDeviceArray<TypeParam> a_array(&this->fake_driver_,
                                       rnn::Rounded<TypeParam>(a));
    FakeDeviceArray<TypeParam> b_array(&this->fake_driver_,
                                       rnn::Rounded<TypeParam>(b));
    FakeDeviceArray<Compute> c_array(&this->fake_driver_,
                                     rnn::Rounded<Compute>(c));
    const Status status =
        this->Multiply(this->stream_, {m, n, k, a_array.data(), b_array.data(),
                                       is_b_transposed, c_array.data(),
                                       is_added, is_a_transposed});
    ASSERT_TRUE(status.ok()) << status.message();
    Array expected =
        ReferenceProduct(a, b, m, n, k, is_a_transposed, is_b_transposed);
    for (std::size_t i = 0; is_added && i < expected.size(); ++i) {
      expected[i] += c[i];
    }
    rnn::ExpectClose(c_array.ToDoubles(), expected, rnn::kTolerance<Compute>,
                     "c");
  }
}

// A product of [n, n] whose elements are 6 n.
template <typename T>
struct Square {
  explicit Square(FakeCudaDriver* driver, std::int64_t n = 1)
      : n(n),
        a(driver, std::vector<T>(n * n, rnn::FromDouble<T>(2))),
        b(driver, std::vector<T>(n * n, rnn::FromDouble<T>(3))),
        c(driver, n * n) {}

  MatrixProduct<T> product() {
    return {n, n, n, a.data(), b.data(), false, c.data(), false};
  }

  const std::int64_t n;
  FakeDeviceArray<T> a;
  FakeDeviceArray<T> b;
  FakeDeviceArray<rnn::ComputeType<T>> c;
};

TYPED_TEST(CublasTest, UsesTf32OnlyIfAllowed) {
  Square<TypeParam> square(&this->fake_driver_);
  for (bool allow_tf32 : {false, true}) {
    ASSERT_TRUE(
        this->Multiply(this->stream_, square.product(), allow_tf32).ok());
  }
  const auto computed = this->fake_cublas_.computed();
  const auto exact = std::is_same_v<TypeParam, double> ? CUBLAS_COMPUTE_64F
                                                       : CUBLAS_COMPUTE_32F;
  EXPECT_EQ(computed[0], exact);
  EXPECT_EQ(computed[1], (std::is_same_v<TypeParam, float>)
                             ? CUBLAS_COMPUTE_32F_FAST_TF32
                             : exact);
}

TYPED_TEST(CublasTest, UsesOneHandlePerStream) {
  Square<TypeParam> square(&this->fake_driver_);
  const CUcontext other = this->fake_driver_.NewContext();
  const CUstream streams[] = {this->stream_,
                              this->fake_driver_.NewStream(other),
                              this->fake_driver_.NewStream(other)};
  for (int i = 0; i < 2; ++i) {
    for (CUstream stream : streams) {
      ASSERT_TRUE(this->Multiply(stream, square.product()).ok());
    }
  }
  EXPECT_EQ(this->fake_cublas_.num_handles(), 3);
}

TYPED_TEST(CublasTest, UsesAHandleOnOneThreadAtATime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      Square<TypeParam> square(&this->fake_driver_, 48);  // long enough to meet
      for (int j = 0; j < 50; ++j) {
        EXPECT_TRUE(this->Multiply(this->stream_, square.product()).ok());
      }
      EXPECT_EQ(square.c.ToVector()[0], 6 * 48);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(this->fake_cublas_.num_handles(), 1);
}

TYPED_TEST(CublasTest, RejectsMatricesThatAreTooLarge) {
  const std::int64_t large = std::int64_t{1} << 31;
  for (int i = 0; i < 3; ++i) {
    Square<TypeParam> square(&this->fake_driver_);
    MatrixProduct<TypeParam> product = square.product();
    (i == 0 ? product.m : i == 1 ? product.n : product.k) = large;
    const Status status = this->Multiply(this->stream_, product);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_NE(status.message().find("2147483648"), std::string::npos)
        << status.message();
  }
  EXPECT_EQ(this->fake_cublas_.num_handles(), 0);
}

TYPED_TEST(CublasTest, EachFailureIsReported) {
  Square<TypeParam> square(&this->fake_driver_);
  CUstream stream;
  const auto run = [&] { return this->Multiply(stream, square.product()); };
  EXPECT_EQ(ExpectEachFailureIsReported(
                this->fake_cublas_, CUBLAS_STATUS_ALLOC_FAILED,
                StatusCode::kResourceExhausted, {"returned CUBLAS_FAKE"}, run,
                [&] {
                  stream = this->fake_driver_.NewStream(
                      this->fake_driver_.NewContext());
                },
                [&] { EXPECT_TRUE(run().ok()); }),
            3);
  // One per stream: failures leaked none.
  EXPECT_EQ(this->fake_cublas_.num_handles(), 4);
}

TYPED_TEST(CublasTest, DistinguishesUnsupportedFromFailed) {
  Square<TypeParam> square(&this->fake_driver_);
  this->fake_cublas_.FailAny(CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(this->Multiply(this->stream_, square.product()).code(),
            StatusCode::kUnimplemented);
  this->fake_cublas_.FailAny(CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(this->Multiply(this->stream_, square.product()).code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
