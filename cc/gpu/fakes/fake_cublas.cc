#include "cc/gpu/fakes/fake_cublas.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "cc/rnn/float16.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

FakeCublas* the_fake = nullptr;

std::size_t SizeOf(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

// The supported types of cublasGemmEx that are used.
bool AreSupported(cudaDataType operand, cudaDataType result,
                  cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
      return result == CUDA_R_32F &&
             (operand == CUDA_R_16F || operand == CUDA_R_16BF ||
              operand == CUDA_R_32F);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return result == CUDA_R_32F && operand == CUDA_R_32F;
    case CUBLAS_COMPUTE_64F:
      return result == CUDA_R_64F && operand == CUDA_R_64F;
    default:
      return false;
  }
}

// A column-major matrix, or the transpose of one.
struct Matrix {
  const char* name;
  const void* data;
  cudaDataType type;
  int rows;
  int cols;
  int leading_dimension;
  bool is_transposed;

  int stored_rows() const { return is_transposed ? cols : rows; }
  int stored_cols() const { return is_transposed ? rows : cols; }
  std::size_t Index(int row, int col) const {
    if (is_transposed) std::swap(row, col);
    return row + static_cast<std::size_t>(col) * leading_dimension;
  }
  const char* begin() const { return static_cast<const char*>(data); }
  std::size_t num_bytes() const {
    return (Index(rows - 1, cols - 1) + 1) * SizeOf(type);
  }
  bool Overlaps(const Matrix& other) const {
    return begin() < other.begin() + other.num_bytes() &&
           other.begin() < begin() + num_bytes();
  }
  double Read(int row, int col) const {
    const std::size_t index = Index(row, col);
    switch (type) {
      case CUDA_R_16F:
        return rnn::ToDouble(static_cast<const rnn::Half*>(data)[index]);
      case CUDA_R_16BF:
        return rnn::ToDouble(static_cast<const rnn::BFloat16*>(data)[index]);
      case CUDA_R_32F:
        return static_cast<const float*>(data)[index];
      default:
        return static_cast<const double*>(data)[index];
    }
  }
  void Write(int row, int col, double value) const {
    void* const to = const_cast<void*>(data);
    const std::size_t index = Index(row, col);
    if (type == CUDA_R_32F) {
      static_cast<float*>(to)[index] = static_cast<float>(value);
    } else {
      static_cast<double*>(to)[index] = value;
    }
  }
};

// Returns the matrix in row-major or column-major order.
std::vector<double> Decode(const Matrix& matrix, bool by_row) {
  std::vector<double> values;
  for (int i = 0; i < (by_row ? matrix.rows : matrix.cols); ++i) {
    for (int j = 0; j < (by_row ? matrix.cols : matrix.rows); ++j) {
      values.push_back(by_row ? matrix.Read(i, j) : matrix.Read(j, i));
    }
  }
  return values;
}

// c = alpha * a * b + beta * c. Does not read c if beta is 0.
void Multiply(double alpha, const Matrix& a, const Matrix& b, double beta,
              const Matrix& c) {
  const std::ptrdiff_t k = a.cols;
  const std::vector<double> rows = Decode(a, /*by_row=*/true);
  const std::vector<double> cols = Decode(b, /*by_row=*/false);
  for (int col = 0; col < c.cols; ++col) {
    for (int row = 0; row < c.rows; ++row) {
      const auto begin = rows.begin() + row * k;
      const double sum =
          std::inner_product(begin, begin + k, cols.begin() + col * k, 0.0);
      const double old = beta == 0 ? 0 : beta * c.Read(row, col);
      c.Write(row, col, alpha * sum + old);
    }
  }
}

}  // namespace

// The functions in the table, by their exported names.
struct FakeCublasFunctions {
  class Call
      : public FakeCallStatus<cublasStatus_t, CUBLAS_STATUS_INVALID_VALUE> {
   public:
    explicit Call(const char* name)
        : FakeCallStatus(name, the_fake->Note({name})),
          lock_(the_fake->mutex_) {}
    Call(const char* name, cublasHandle_t handle) : Call(name) {
      handle_ = FindIn(the_fake->handles_, handle);
      if (Expect(handle_ != nullptr, "unknown handle")) {
        Expect(handle_->context == driver().current_context(),
               "the handle's context is not current");
      }
    }

    FakeCublas::Handle* handle() const { return handle_; }
    void Unlock() { lock_.unlock(); }

   private:
    std::unique_lock<std::recursive_mutex> lock_;
    FakeCublas::Handle* handle_ = nullptr;
  };

  static FakeCudaDriver& driver() { return *the_fake->driver_; }

  static cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    Call call("cublasCreate");
    const CUcontext context = driver().current_context();
    if (call.Expect(context != nullptr, "no context is current")) {
      *handle = NewHandle<cublasHandle_t>();
      the_fake->handles_[*handle].context = context;
    }
    return call.status();
  }

  static cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    Call call("cublasDestroy", handle);
    the_fake->handles_.erase(handle);  // even if it fails
    return call.status();
  }

  static cublasStatus_t cublasSetStream_v2(cublasHandle_t handle,
                                           cudaStream_t stream) {
    Call call("cublasSetStream", handle);
    if (call.ok() && call.Checked(driver().CheckStream(stream, call.name()))) {
      call.handle()->stream = stream;
    }
    return call.status();
  }

  static cublasStatus_t cublasGemmEx(
      cublasHandle_t handle, cublasOperation_t a_operation,
      cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
      const void* a_data, cudaDataType a_type, int lda, const void* b_data,
      cudaDataType b_type, int ldb, const void* beta, void* c_data,
      cudaDataType c_type, int ldc, cublasComputeType_t compute,
      cublasGemmAlgo_t) {
    Call call("cublasGemmEx", handle);
    if (!call.ok()) return call.status();
    const std::unique_lock<std::mutex> in_use(call.handle()->in_use,
                                              std::try_to_lock);
    const Matrix a = {
        "a", a_data, a_type, m, k, lda, a_operation != CUBLAS_OP_N};
    const Matrix b = {
        "b", b_data, b_type, k, n, ldb, b_operation != CUBLAS_OP_N};
    const Matrix c = {"c", c_data, c_type, m, n, ldc, false};
    if (call.Expect(in_use.owns_lock(), "two threads use a handle at once") &&
        call.Expect(call.handle()->stream.has_value(),
                    "the handle has no stream") &&
        call.Checked(
            driver().CheckStream(*call.handle()->stream, call.name())) &&
        call.Expect(a.type == b.type && AreSupported(a.type, c.type, compute),
                    "types " + std::to_string(a.type) + ", " +
                        std::to_string(b.type) + ", " + std::to_string(c.type) +
                        ", " + std::to_string(compute)) &&
        CheckScale(call, alpha, c.type) && CheckScale(call, beta, c.type) &&
        CheckMatrix(call, a) && CheckMatrix(call, b) && CheckMatrix(call, c) &&
        call.Expect(!c.Overlaps(a) && !c.Overlaps(b),
                    "the result overlaps an operand")) {
      the_fake->computed_.push_back(compute);
      call.Unlock();
      Multiply(Scale(alpha, c.type), a, b, Scale(beta, c.type), c);
    }
    return call.status();
  }

  static bool CheckScale(Call& call, const void* value, cudaDataType type) {
    return call.Checked(
        driver().CheckHostMemory(value, SizeOf(type), call.name()));
  }
  static double Scale(const void* value, cudaDataType type) {
    return type == CUDA_R_64F ? *static_cast<const double*>(value)
                              : *static_cast<const float*>(value);
  }

  static bool CheckMatrix(Call& call, const Matrix& matrix) {
    const std::string what = call.name() + ", " + matrix.name;
    return call.Expect(matrix.rows > 0 && matrix.cols > 0 &&
                           matrix.leading_dimension >= matrix.stored_rows(),
                       std::string(matrix.name) + " is [" +
                           std::to_string(matrix.stored_rows()) + ", " +
                           std::to_string(matrix.stored_cols()) +
                           "] with leading dimension " +
                           std::to_string(matrix.leading_dimension)) &&
           call.Checked(
               driver().CheckDeviceMemory(matrix.data, matrix.num_bytes(),
                                          what) &&
               driver().CheckAligned(matrix.data, SizeOf(matrix.type), what));
  }

  static cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
    *value = 0;
    return CUBLAS_STATUS_SUCCESS;
  }
  static const char* cublasGetStatusName(cublasStatus_t) {
    return "CUBLAS_FAKE";
  }
  static const char* cublasGetStatusString(cublasStatus_t) {
    return "the fake cuBLAS's";
  }
};

FakeCublas::FakeCublas(FakeCudaDriver* driver) : driver_(driver) {
  EXPECT_EQ(the_fake, nullptr) << "one fake cuBLAS may exist at a time";
  the_fake = this;
#define TF_RNN_OPS_SET(name, Type) functions_.name = FakeCublasFunctions::name;
  TF_RNN_OPS_CUBLAS_FUNCTIONS(TF_RNN_OPS_SET)
#undef TF_RNN_OPS_SET
}

FakeCublas::~FakeCublas() { the_fake = nullptr; }

int FakeCublas::num_handles() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return static_cast<int>(handles_.size());
}

std::vector<cublasComputeType_t> FakeCublas::computed() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return computed_;
}

}  // namespace tf_rnn_ops::gpu
