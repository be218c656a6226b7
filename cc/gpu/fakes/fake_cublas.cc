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
  FakeSpan Span(bool is_output) const {
    return {name, data, (Index(rows - 1, cols - 1) + 1) * SizeOf(type),
            SizeOf(type), is_output};
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
  using Call = FakeCublas::Call;

  static cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    return Call(the_fake, {"cublasCreate"}).CreateHandle(handle);
  }

  static cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    return Call(the_fake, {"cublasDestroy"}, handle).DestroyHandle();
  }

  static cublasStatus_t cublasSetStream_v2(cublasHandle_t handle,
                                           cudaStream_t stream) {
    return Call(the_fake, {"cublasSetStream"}, handle).SetStream(stream);
  }

  static cublasStatus_t cublasGemmEx(
      cublasHandle_t handle, cublasOperation_t a_operation,
      cublasOperation_t b_operation, int m, int n, int k, const void* alpha,
      const void* a_data, cudaDataType a_type, int lda, const void* b_data,
      cudaDataType b_type, int ldb, const void* beta, void* c_data,
      cudaDataType c_type, int ldc, cublasComputeType_t compute,
      cublasGemmAlgo_t) {
    Call call(the_fake, {"cublasGemmEx"}, handle);
    const Matrix a = {
        "a", a_data, a_type, m, k, lda, a_operation != CUBLAS_OP_N};
    const Matrix b = {
        "b", b_data, b_type, k, n, ldb, b_operation != CUBLAS_OP_N};
    const Matrix c = {"c", c_data, c_type, m, n, ldc, false};
    if (call.ok() && call.CheckStream() &&
        call.Expect(a.type == b.type && AreSupported(a.type, c.type, compute),
                    "types " + std::to_string(a.type) + ", " +
                        std::to_string(b.type) + ", " + std::to_string(c.type) +
                        ", " + std::to_string(compute)) &&
        call.CheckHost(alpha, SizeOf(c.type)) &&
        call.CheckHost(beta, SizeOf(c.type)) && CheckSize(call, a) &&
        CheckSize(call, b) && CheckSize(call, c) &&
        call.CheckSpans({a.Span(false), b.Span(false), c.Span(true)})) {
      the_fake->computed_.push_back(compute);
      call.Unlocked([&] {
        Multiply(Scale(alpha, c.type), a, b, Scale(beta, c.type), c);
      });
    }
    return call.status();
  }

  static double Scale(const void* value, cudaDataType type) {
    return type == CUDA_R_64F ? *static_cast<const double*>(value)
                              : *static_cast<const float*>(value);
  }

  static bool CheckSize(Call& call, const Matrix& matrix) {
    return call.Expect(matrix.rows > 0 && matrix.cols > 0 &&
                           matrix.leading_dimension >= matrix.stored_rows(),
                       std::string(matrix.name) + " is [" +
                           std::to_string(matrix.stored_rows()) + ", " +
                           std::to_string(matrix.stored_cols()) +
                           "] with leading dimension " +
                           std::to_string(matrix.leading_dimension));
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

FakeCublas::FakeCublas(FakeCudaDriver* driver) : FakeHandleLibrary(driver) {
  EXPECT_EQ(the_fake, nullptr) << "one fake cuBLAS may exist at a time";
  the_fake = this;
#define TF_RNN_OPS_SET(name, Type) functions_.name = FakeCublasFunctions::name;
  TF_RNN_OPS_CUBLAS_FUNCTIONS(TF_RNN_OPS_SET)
#undef TF_RNN_OPS_SET
}

FakeCublas::~FakeCublas() { the_fake = nullptr; }

std::vector<cublasComputeType_t> FakeCublas::computed() const {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  return computed_;
}

}  // namespace tf_rnn_ops::gpu
