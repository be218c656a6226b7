#include "cc/gpu/fakes/fake_cublas.h"

#include <gtest/gtest.h>

#include "cc/gpu/fakes/expect_misuse.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"

namespace tf_rnn_ops::gpu {
namespace {

// The arguments of a product of [2, 3] and [3, 4], column-major.
struct Gemm {
  cublasHandle_t handle;
  const void* alpha;
  const void* a;
  const void* b;
  const void* beta;
  void* c;
  cudaDataType a_type = CUDA_R_32F;
  cudaDataType c_type = CUDA_R_32F;
  int lda = 2;
  int ldb = 3;
  int ldc = 2;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

class FakeCublasTest : public testing::Test {
 protected:
  FakeCublasTest() {
    driver().cuCtxPushCurrent_v2(context_);
    functions().cublasCreate_v2(&gemm_.handle);
    functions().cublasSetStream_v2(gemm_.handle, stream_);
    gemm_.alpha = &one_;
    gemm_.beta = &zero_;
    gemm_.a = a_.data();
    gemm_.b = b_.data();
    gemm_.c = c_.data();
  }
  ~FakeCublasTest() override {
    CUcontext popped;
    driver().cuCtxPopCurrent_v2(&popped);
  }

  const CudaDriver& driver() { return *fake_driver_.driver(); }
  const CublasFunctions& functions() { return fake_.functions(); }

  cublasStatus_t Run(const Gemm& g) {
    return functions().cublasGemmEx(g.handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 4, 3,
                                    g.alpha, g.a, g.a_type, g.lda, g.b,
                                    g.a_type, g.ldb, g.beta, g.c, g.c_type,
                                    g.ldc, g.compute, CUBLAS_GEMM_DEFAULT);
  }

  FakeCudaDriver fake_driver_;
  FakeCublas fake_{&fake_driver_};
  CUcontext context_ = fake_driver_.NewContext();
  CUstream stream_ = fake_driver_.NewStream(context_);
  FakeDeviceArray<float> a_{&fake_driver_, 6};
  FakeDeviceArray<float> b_{&fake_driver_, 12};
  FakeDeviceArray<float> c_{&fake_driver_, 8};
  float one_ = 1;
  float zero_ = 0;
  Gemm gemm_{};
};

TEST_F(FakeCublasTest, RejectsInvalidArguments) {
  const auto expect_misuse = [&](const char* message, const auto& change) {
    Gemm g = gemm_;
    change(g);
    EXPECT_MISUSE(Run(g), message);
  };
  expect_misuse("a is [2, 3] with leading dimension 1",
                [](Gemm& g) { g.lda = 1; });
  expect_misuse("c: 44 bytes", [](Gemm& g) { g.ldc = 3; });
  expect_misuse("b: 48 bytes", [&](Gemm& g) { g.b = &one_; });
  expect_misuse("c and b overlap", [&](Gemm& g) { g.c = b_.data(); });
  expect_misuse("is on the GPU", [&](Gemm& g) { g.alpha = a_.data(); });
  expect_misuse("types", [](Gemm& g) { g.compute = CUBLAS_COMPUTE_64F; });
  expect_misuse("types", [](Gemm& g) { g.a_type = CUDA_R_64F; });
  expect_misuse("types", [](Gemm& g) {
    g.a_type = CUDA_R_16F;
    g.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  });
}

TEST_F(FakeCublasTest, RejectsInvalidHandles) {
  Gemm g = gemm_;
  g.handle = nullptr;
  EXPECT_MISUSE(Run(g), "the handle was destroyed or never created");
  cublasHandle_t without_stream;
  ASSERT_EQ(functions().cublasCreate_v2(&without_stream),
            CUBLAS_STATUS_SUCCESS);
  g.handle = without_stream;
  EXPECT_MISUSE(Run(g), "the handle has no stream");
  EXPECT_EQ(functions().cublasDestroy_v2(without_stream),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_MISUSE(Run(g), "the handle was destroyed or never created");
  driver().cuCtxPushCurrent_v2(fake_driver_.NewContext());
  EXPECT_MISUSE(Run(gemm_), "the handle's context is not current");
  CUcontext popped;
  driver().cuCtxPopCurrent_v2(&popped);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
