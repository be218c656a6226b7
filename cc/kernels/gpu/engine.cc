#include "cc/kernels/gpu/engine.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/kernels/make_output.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tsl/platform/tensor_float_32_utils.h"
#include "xla/stream_executor/stream.h"

namespace tf_rnn_ops {

absl::Status ToAbslStatus(const gpu::Status& status) {
  switch (status.code()) {
    case gpu::StatusCode::kOk:
      return absl::OkStatus();
    case gpu::StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case gpu::StatusCode::kOutOfMemory:
      return absl::ResourceExhaustedError(status.message());
    case gpu::StatusCode::kUnimplemented:
      return absl::UnimplementedError(status.message());
    case gpu::StatusCode::kUnavailable:
      return absl::FailedPreconditionError(status.message());
    case gpu::StatusCode::kInternal:
      break;
  }
  return absl::InternalError(status.message());
}

gpu::Status OpMemory::Allocate(std::size_t num_bytes, void** memory) {
  *memory = nullptr;
  if (num_bytes == 0) return gpu::Status();
  tensorflow::Tensor& tensor = scratch_.emplace_back();
  const absl::Status status =
      MakeTemp(ctx_, tensorflow::DT_UINT8,
               {static_cast<std::int64_t>(num_bytes)}, &tensor);
  *memory = tensor.data();
  if (status.ok()) return gpu::Status();
  return gpu::Status(absl::IsResourceExhausted(status)
                         ? gpu::StatusCode::kOutOfMemory
                         : gpu::StatusCode::kInternal,
                     std::string(status.message()));
}

absl::Status OpCall::Init() {
  const tensorflow::DeviceContext* context = ctx_->op_device_context();
  if (context == nullptr || context->stream() == nullptr) {
    return absl::InternalError("the op's device has no stream");
  }
  call_.stream = static_cast<CUstream>(
      context->stream()->platform_specific_handle().stream);
  call_.scratch = &memory_;
  TF_RETURN_IF_ERROR(ToAbslStatus(gpu::CudaDriver::Get(&call_.driver)));
  context_ = std::make_unique<gpu::ScopedContext>(*call_.driver);
  return ToAbslStatus(context_->Enter(call_.stream));
}

absl::Status ReadReserveSpaceHeader(tensorflow::OpKernelContext* ctx,
                                    const tensorflow::Tensor& reserve_space,
                                    rnn::ReserveSpaceHeader* header) {
  *header = {};
  if (reserve_space.TotalBytes() < header->size()) return absl::OkStatus();
  OpCall call(ctx);
  TF_RETURN_IF_ERROR(call.Init());
  return ToAbslStatus(
      gpu::ReadReserveSpaceHeader(call.call(), reserve_space.data(), header));
}

bool AllowsTf32() { return tsl::tensor_float_32_execution_enabled(); }

}  // namespace tf_rnn_ops
