#include "cc/tensorflow/kernels/gpu/op_call.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "cc/gpu/cudnn_rnn.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tsl/platform/tensor_float_32_utils.h"
#include "xla/stream_executor/stream.h"

namespace tf_rnn_ops {

Status OpMemory::Allocate(std::size_t num_bytes, void** memory) {
  *memory = nullptr;
  if (num_bytes == 0) return Status();
  const std::int64_t sizes[] = {static_cast<std::int64_t>(num_bytes)};
  tensorflow::TensorShape shape;
  if (!tensorflow::TensorShape::BuildTensorShape(sizes, &shape).ok()) {
    return Status(StatusCode::kResourceExhausted,
                  "the size of the scratch memory overflows int64");
  }
  tensorflow::Tensor& tensor = scratch_.emplace_back();
  const absl::Status status =
      ctx_->allocate_temp(tensorflow::DT_UINT8, shape, &tensor);
  *memory = tensor.data();
  if (status.ok()) return Status();
  return Status(absl::IsResourceExhausted(status)
                    ? StatusCode::kResourceExhausted
                    : StatusCode::kInternal,
                std::string(status.message()));
}

Status OpCall::Init() {
  const tensorflow::DeviceContext* context = ctx_->op_device_context();
  if (context == nullptr || context->stream() == nullptr) {
    return Status(StatusCode::kInternal, "the op's device has no stream");
  }
  call_.stream = static_cast<CUstream>(
      context->stream()->platform_specific_handle().stream);
  call_.scratch = &memory_;
  TF_RNN_OPS_RETURN_IF_ERROR(gpu::CudaDriver::Get(&call_.driver));
  context_ = std::make_unique<gpu::ScopedContext>(*call_.driver);
  return context_->Enter(call_.stream);
}

Status ReadReserveSpaceHeader(CallFrame* frame, const Array& reserve_space,
                              rnn::ReserveSpaceHeader* header) {
  *header = {};
  if (reserve_space.num_bytes < rnn::kReserveSpaceHeaderBytes) return Status();
  OpCall call(ContextOf(frame));
  TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
  return gpu::ReadReserveSpaceHeader(call.call(), reserve_space.data, header);
}

bool AllowsTf32() { return tsl::tensor_float_32_execution_enabled(); }

}  // namespace tf_rnn_ops
