// The error status of a call of an op or of the GPU engine.

#ifndef TF_RNN_OPS_CC_RNN_STATUS_H_
#define TF_RNN_OPS_CC_RNN_STATUS_H_

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "cc/rnn/join.h"

namespace tf_rnn_ops {

// Numbered as in absl::Status and XLA FFI. Errors of a framework may have codes
// that are not listed.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
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

// An error whose message is the concatenation of the parts.
template <typename... Part>
Status InvalidArgument(const Part&... parts) {
  return Status(StatusCode::kInvalidArgument, rnn::Join(parts...));
}

// Returns body(), a Status, or an error if it throws an exception, which would
// end the process of a framework that does not catch it.
// name: of the op.
template <typename Body>
Status CatchExceptions(std::string_view name, const Body& body) {
  try {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted,
                    rnn::Join(name, " ran out of memory"));
    } catch (const std::exception& error) {
      return Status(StatusCode::kInternal,
                    rnn::Join(name, " failed: ", error.what()));
    }
  } catch (const std::exception&) {
    // Too little memory for a message of more than a few characters.
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
}

}  // namespace tf_rnn_ops

// Returns the status of an expression from the function if it is an error.
#define TF_RNN_OPS_RETURN_IF_ERROR(expression)       \
  do {                                               \
    ::tf_rnn_ops::Status call_status = (expression); \
    if (!call_status.ok()) return call_status;       \
  } while (false)

#endif  // TF_RNN_OPS_CC_RNN_STATUS_H_
