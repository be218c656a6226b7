// How the GPU's part says what went wrong.

#ifndef TF_RNN_OPS_CC_GPU_STATUS_H_
#define TF_RNN_OPS_CC_GPU_STATUS_H_

#include <string>
#include <utility>

namespace tf_rnn_ops::gpu {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // of a call of the C interface
  kOutOfMemory,      // there is not enough memory on the GPU
  kUnimplemented,    // the GPU or the library at hand cannot do what was asked
  kUnavailable,      // a library cannot be opened or has not what is needed
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

// Leaves the function with the status of an expression unless that is fine.
#define TF_RNN_OPS_GPU_RETURN_IF_ERROR(expression)       \
  do {                                                   \
    ::tf_rnn_ops::gpu::Status gpu_status = (expression); \
    if (!gpu_status.ok()) return gpu_status;             \
  } while (false)

#endif  // TF_RNN_OPS_CC_GPU_STATUS_H_
