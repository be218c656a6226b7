#include "cc/gpu/cudnn.h"

#include <cstddef>
#include <string>

#include "cc/gpu/shared_library.h"

namespace tf_rnn_ops::gpu {
namespace {

constexpr char kName[] = "libcudnn.so.9";
// Folder in NVIDIA's Python package.
constexpr char kFolder[] = "nvidia/cudnn/lib";

struct OpenedCudnn {
  Cudnn functions;
  Status status;
};

// In cuDNN 9, status / 1000 is the kind of error.
StatusCode CodeOf(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      return StatusCode::kResourceExhausted;
    default:
      break;
  }
  return static_cast<int>(status) / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000
             ? StatusCode::kUnimplemented
             : StatusCode::kInternal;
}

}  // namespace

Status Cudnn::Get(const Cudnn** cudnn) {
  static const OpenedCudnn* const opened = [] {
    auto* result = new OpenedCudnn;
    result->status = Open(kName, &result->functions);
    return result;
  }();
  *cudnn = &opened->functions;
  return opened->status;
}

std::string Cudnn::Describe() {
  const Cudnn* cudnn;
  const Status status = Get(&cudnn);
  if (!status.ok()) return status.message();
  const std::size_t version = cudnn->cudnnGetVersion();
  return std::string(kName) + ": version " + std::to_string(version / 10000) +
         "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100) + ", " + cudnn->path;
}

Status Cudnn::Open(const std::string& name, Cudnn* cudnn) {
  SharedLibrary library;
  TF_RNN_OPS_RETURN_IF_ERROR(SharedLibrary::Open({name}, {kFolder}, &library));
#define TF_RNN_OPS_FIND(name) \
  TF_RNN_OPS_RETURN_IF_ERROR(library.Find(#name, &cudnn->name));
  TF_RNN_OPS_CUDNN_FUNCTIONS(TF_RNN_OPS_FIND)
#undef TF_RNN_OPS_FIND
  cudnn->path = library.path();
  return Status();
}

Status Cudnn::Check(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return Status();
  std::string message =
      std::string(call) + " returned " + cudnnGetErrorString(status);
  char reason[256] = "";
  // Version 9.3 does not terminate a message that fills the buffer.
  cudnnGetLastErrorString(reason, sizeof(reason) - 1);
  if (reason[0] != '\0') message += std::string(" (") + reason + ")";
  return Status(CodeOf(status), message);
}

}  // namespace tf_rnn_ops::gpu
