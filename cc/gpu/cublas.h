// cuBLAS 12 or 13, opened at run time.

#ifndef TF_RNN_OPS_CC_GPU_CUBLAS_H_
#define TF_RNN_OPS_CC_GPU_CUBLAS_H_

#include <cublas_v2.h>
#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cc/gpu/call.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The header overloads this function; this is the exported overload.
using CublasGemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t,
                                        cublasOperation_t, int m, int n, int k,
                                        const void* alpha, const void* a,
                                        cudaDataType, int lda, const void* b,
                                        cudaDataType, int ldb, const void* beta,
                                        void* c, cudaDataType, int ldc,
                                        cublasComputeType_t, cublasGemmAlgo_t);

// The functions used, by their exported names, and their types.
#define TF_RNN_OPS_CUBLAS_FUNCTIONS(F)                         \
  F(cublasCreate_v2, decltype(&::cublasCreate_v2))             \
  F(cublasDestroy_v2, decltype(&::cublasDestroy_v2))           \
  F(cublasGemmEx, CublasGemmEx)                                \
  F(cublasGetProperty, decltype(&::cublasGetProperty))         \
  F(cublasGetStatusName, decltype(&::cublasGetStatusName))     \
  F(cublasGetStatusString, decltype(&::cublasGetStatusString)) \
  F(cublasSetStream_v2, decltype(&::cublasSetStream_v2))

struct CublasFunctions {
#define TF_RNN_OPS_DECLARE(name, Type) Type name = nullptr;
  TF_RNN_OPS_CUBLAS_FUNCTIONS(TF_RNN_OPS_DECLARE)
#undef TF_RNN_OPS_DECLARE

  // Name of the library, such as libcublas.so.12, and its path.
  std::string name;
  std::string path;
};

// c = a * b or c += a * b. Matrices are dense, row-major and not empty.
// T: Half, BFloat16 (both accumulate in float32), float or double.
template <typename T>
struct MatrixProduct {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const T* a;  // [m, k], or [k, m] if transposed
  const T* b;  // [k, n], or [n, k] if transposed
  bool is_b_transposed;
  rnn::ComputeType<T>* c;  // [m, n]
  bool is_added;
  bool is_a_transposed = false;
};

// Results are reproducible on GPUs of the same kind: cuBLAS guarantees this if
// each handle is used on a single stream.
class Cublas {
 public:
  explicit Cublas(const CublasFunctions& functions) : functions_(functions) {}
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Returns the library of this machine. The first call opens it.
  static Status Get(Cublas** cublas);
  // Returns a line with the version and file, or the error.
  static std::string Describe();

  // allow_tf32: float32 operands may be rounded to 10 bits of fraction.
  template <typename T>
  Status Multiply(const Call& call, const MatrixProduct<T>& product,
                  bool allow_tf32);

 private:
  // Used by one thread at a time.
  struct Handle {
    std::mutex mutex;
    cublasHandle_t handle = nullptr;  // null until first used
  };

  Status Check(cublasStatus_t status, const char* call) const;
  // Finds the entry of the call's stream.
  Status FindHandle(const Call& call, Handle** handle);
  // Requires the mutex of the handle to be held.
  Status Create(const Call& call, Handle* handle) const;

  const CublasFunctions functions_;
  std::mutex mutex_;
  // Never freed, like streams.
  std::map<std::pair<CUcontext, CUstream>, std::unique_ptr<Handle>> handles_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUBLAS_H_
