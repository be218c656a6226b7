// A fake cuBLAS for tests, on the memory of fake_cuda_driver.h. Invalid
// arguments fail the test.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_

#include <cublas_v2.h>
#include <cuda.h>

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cc/gpu/cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_library.h"

namespace tf_rnn_ops::gpu {

// At most one may exist.
class FakeCublas : public FakeLibrary<FakeCall, cublasStatus_t> {
 public:
  explicit FakeCublas(FakeCudaDriver* driver);
  ~FakeCublas();

  const CublasFunctions& functions() const { return functions_; }

  // The number of existing handles.
  int num_handles() const;
  // The compute type of each product.
  std::vector<cublasComputeType_t> computed() const;

 private:
  friend struct FakeCublasFunctions;

  struct Handle {
    CUcontext context = nullptr;
    std::optional<CUstream> stream;  // nullopt: never set
    std::mutex in_use;
  };

  CublasFunctions functions_;
  FakeCudaDriver* driver_;
  std::map<cublasHandle_t, Handle> handles_;
  std::vector<cublasComputeType_t> computed_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUBLAS_H_
