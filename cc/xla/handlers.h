// The handlers of XLA's foreign function interface: one C function per op, for
// any XLA program that registers it for the stages instantiate and execute.

#ifndef TF_RNN_OPS_CC_XLA_HANDLERS_H_
#define TF_RNN_OPS_CC_XLA_HANDLERS_H_

#include "cc/xla/op.h"
#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// Makes an op when a program is loaded, which lives as long as that, and runs
// it when the program does.
XLA_FFI_Error* Handle(const OpDefinition& op, XLA_FFI_CallFrame* call);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_XLA_HANDLERS_H_
