#include "cc/gpu/cuda_driver.h"

#include <string>

#include "cc/gpu/shared_library.h"

namespace tf_rnn_ops::gpu {
namespace {

struct OpenedDriver {
  CudaDriver functions;
  Status status;
};

Status Open(CudaDriver* driver) {
  SharedLibrary library;
  TF_RNN_OPS_RETURN_IF_ERROR(
      SharedLibrary::Open({"libcuda.so.1"}, {}, &library));
#define TF_RNN_OPS_FIND(name) \
  TF_RNN_OPS_RETURN_IF_ERROR(library.Find(#name, &driver->name));
  TF_RNN_OPS_CUDA_DRIVER_FUNCTIONS(TF_RNN_OPS_FIND)
#undef TF_RNN_OPS_FIND
  driver->path = library.path();
  return Status();
}

}  // namespace

Status CudaDriver::Get(const CudaDriver** driver) {
  static const OpenedDriver* const opened = [] {
    auto* result = new OpenedDriver;
    result->status = Open(&result->functions);
    return result;
  }();
  *driver = &opened->functions;
  return opened->status;
}

std::string CudaDriver::Describe() {
  const CudaDriver* driver;
  const Status status = Get(&driver);
  if (!status.ok()) return status.message();
  int version = 0;
  driver->cuDriverGetVersion(&version);
  return "libcuda.so.1: for CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10) + ", " + driver->path;
}

Status CudaDriver::Check(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return Status();
  const char* name = nullptr;
  const char* meaning = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &meaning);
  const std::string message =
      std::string(call) + " returned " +
      (name == nullptr ? std::to_string(result) : std::string(name)) +
      (meaning == nullptr ? "" : std::string(" (") + meaning + ")");
  return Status(result == CUDA_ERROR_OUT_OF_MEMORY
                    ? StatusCode::kResourceExhausted
                    : StatusCode::kInternal,
                message);
}

Status ScopedContext::Enter(CUstream stream) {
  CUcontext context, current;
  TF_RNN_OPS_RETURN_IF_ERROR(driver_.Check(
      driver_.cuStreamGetCtx(stream, &context), "cuStreamGetCtx"));
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver_.Check(driver_.cuCtxGetCurrent(&current), "cuCtxGetCurrent"));
  if (current == context) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver_.Check(driver_.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent"));
  is_pushed_ = true;
  return Status();
}

}  // namespace tf_rnn_ops::gpu
