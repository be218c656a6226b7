// The handlers for XLA's foreign function interface: one C function per op. An
// XLA program registers it for the stages instantiate and execute.

#ifndef TF_RNN_OPS_CC_FFI_HANDLERS_H_
#define TF_RNN_OPS_CC_FFI_HANDLERS_H_

#include "cc/ffi/ffi_op.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// Creates the op when a program is loaded, and runs it when the program runs.
// The op lives as long as the program.
XLA_FFI_Error* Handle(const FfiOp& op, XLA_FFI_CallFrame* call);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_FFI_HANDLERS_H_
