// A fake cuBLAS for tests, on the memory of fake_cuda_driver.h. Invalid
// arguments fail the test.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_

#include <cublas_v2.h>
#include <cuda.h>

#include <vector>

#include "cc/gpu/cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_handles.h"

namespace tf_rnn_ops::gpu {

// At most one may exist.
class FakeCublas
    : public FakeHandleLibrary<FakeCall, cublasStatus_t,
                               CUBLAS_STATUS_INVALID_VALUE, cublasHandle_t> {
 public:
  explicit FakeCublas(FakeCudaDriver* driver);
  ~FakeCublas();

  const CublasFunctions& functions() const { return functions_; }

  // The compute type of each product.
  std::vector<cublasComputeType_t> computed() const;

 private:
  friend struct FakeCublasFunctions;

  CublasFunctions functions_;
  std::vector<cublasComputeType_t> computed_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_
