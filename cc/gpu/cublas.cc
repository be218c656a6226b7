#include "cc/gpu/cublas.h"

#include <limits>
#include <string>

#include "cc/gpu/shared_library.h"

namespace tf_rnn_ops::gpu {
namespace {

Status Open(CublasFunctions* functions) {
  SharedLibrary library;
  // The functions used are the same in both versions.
  TF_RNN_OPS_RETURN_IF_ERROR(
      SharedLibrary::Open({"libcublas.so.12", "libcublas.so.13"},
                          {"nvidia/cublas/lib", "nvidia/cu13/lib"}, &library));
#define TF_RNN_OPS_FIND(name, Type) \
  TF_RNN_OPS_RETURN_IF_ERROR(library.Find(#name, &functions->name));
  TF_RNN_OPS_CUBLAS_FUNCTIONS(TF_RNN_OPS_FIND)
#undef TF_RNN_OPS_FIND
  functions->name = library.name();
  functions->path = library.path();
  return Status();
}

struct OpenedCublas {
  std::unique_ptr<Cublas> cublas;
  Status status;
};

// cuBLAS's types of operands, result and computation.
struct Types {
  cudaDataType operand;
  cudaDataType result;
  cublasComputeType_t compute;
};

template <typename T>
Types TypesOf(bool allow_tf32);
template <>
Types TypesOf<float>(bool allow_tf32) {
  return {CUDA_R_32F, CUDA_R_32F,
          allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
}
template <>
Types TypesOf<double>(bool) {
  return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
}
template <>
Types TypesOf<rnn::Half>(bool) {
  return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}
template <>
Types TypesOf<rnn::BFloat16>(bool) {
  return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

template <typename T>
std::string Description(const MatrixProduct<T>& product) {
  const std::string k = std::to_string(product.k);
  return "[" + std::to_string(product.m) + ", " + k + "] * [" + k + ", " +
         std::to_string(product.n) + "]";
}

bool FitsInt(std::int64_t size) {
  return size <= std::numeric_limits<int>::max();
}

StatusCode CodeOf(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return StatusCode::kResourceExhausted;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kInternal;
  }
}

}  // namespace

Status Cublas::Get(Cublas** cublas) {
  static const OpenedCublas* const opened = [] {
    auto* result = new OpenedCublas;
    CublasFunctions functions;
    result->status = Open(&functions);
    result->cublas = std::make_unique<Cublas>(functions);
    return result;
  }();
  *cublas = opened->cublas.get();
  return opened->status;
}

std::string Cublas::Describe() {
  Cublas* cublas;
  const Status status = Get(&cublas);
  if (!status.ok()) return status.message();
  std::string version;
  for (libraryPropertyType each : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    cublas->functions_.cublasGetProperty(each, &number);
    version += (version.empty() ? "" : ".") + std::to_string(number);
  }
  return cublas->functions_.name + ": version " + version + ", " +
         cublas->functions_.path;
}

Status Cublas::Check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return Status();
  return Status(CodeOf(status),
                std::string(call) + " returned " +
                    functions_.cublasGetStatusName(status) + " (" +
                    functions_.cublasGetStatusString(status) + ")");
}

Status Cublas::FindHandle(const Call& call, Handle** handle) {
  CUcontext context;
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuStreamGetCtx(call.stream, &context), "cuStreamGetCtx"));
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Handle>& found = handles_[{context, call.stream}];
  if (found == nullptr) found = std::make_unique<Handle>();
  *handle = found.get();
  return Status();
}

Status Cublas::Create(const Call& call, Handle* handle) const {
  cublasHandle_t created;
  TF_RNN_OPS_RETURN_IF_ERROR(
      Check(functions_.cublasCreate_v2(&created), "cublasCreate"));
  const Status status = Check(
      functions_.cublasSetStream_v2(created, call.stream), "cublasSetStream");
  if (!status.ok()) {
    functions_.cublasDestroy_v2(created);
    return status;
  }
  handle->handle = created;
  return Status();
}

template <typename T>
Status Cublas::Multiply(const Call& call, const MatrixProduct<T>& product,
                        bool allow_tf32) {
  if (!FitsInt(product.m) || !FitsInt(product.n) || !FitsInt(product.k)) {
    return Status(
        StatusCode::kUnimplemented,
        "the matrices are too large for cuBLAS: " + Description(product));
  }
  Handle* handle;
  TF_RNN_OPS_RETURN_IF_ERROR(FindHandle(call, &handle));
  std::lock_guard<std::mutex> lock(handle->mutex);
  if (handle->handle == nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(Create(call, handle));
  }
  // cuBLAS is column-major, so compute c^T = b^T * a^T.
  const Types types = TypesOf<T>(allow_tf32);
  const int m = static_cast<int>(product.m);
  const int n = static_cast<int>(product.n);
  const int k = static_cast<int>(product.k);
  const rnn::ComputeType<T> alpha = 1;
  const rnn::ComputeType<T> beta = product.is_added ? 1 : 0;
  const cublasStatus_t status = functions_.cublasGemmEx(
      handle->handle, product.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
      product.is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha,
      product.b, types.operand, product.is_b_transposed ? k : n, product.a,
      types.operand, product.is_a_transposed ? m : k, &beta, product.c,
      types.result, n, types.compute, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return Status();
  return Check(status, ("cublasGemmEx of " + Description(product)).c_str());
}

#define INSTANTIATE(T) \
  template Status Cublas::Multiply(const Call&, const MatrixProduct<T>&, bool)

INSTANTIATE(rnn::Half);
INSTANTIATE(rnn::BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::gpu
