// Errors of the GPU engine.

#ifndef TF_RNN_OPS_CC_GPU_STATUS_H_
#define TF_RNN_OPS_CC_GPU_STATUS_H_

#include <string>
#include <utility>

namespace tf_rnn_ops::gpu {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // in a call of the C interface
  kOutOfMemory,      // not enough memory on the GPU or host
  kUnimplemented,    // not supported by the GPU or the library
  kUnavailable,      // a library cannot be opened or lacks a function
  kInternal,         // anything else
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace tf_rnn_ops::gpu

// Returns the status of an expression from the function if it is an error.
#define TF_RNN_OPS_GPU_RETURN_IF_ERROR(expression)       \
  do {                                                   \
    ::tf_rnn_ops::gpu::Status gpu_status = (expression); \
    if (!gpu_status.ok()) return gpu_status;             \
  } while (false)

#endif  // TF_RNN_OPS_CC_GPU_STATUS_H_
