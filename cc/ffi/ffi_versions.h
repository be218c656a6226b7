#ifndef TF_RNN_OPS_CC_FFI_FFI_VERSIONS_H_
#define TF_RNN_OPS_CC_FFI_FFI_VERSIONS_H_

#include <string>

#include "xla/ffi/api/c_api.h"

namespace tf_rnn_ops {

// The names of XLA's foreign function interface that differ between its
// versions: TensorFlow 2.21 has version 0.2, 2.22 has 0.4.

#if XLA_FFI_API_MINOR >= 4
using FfiExtension = XLA_FFI_InternalExtension;
using FfiContext = XLA_FFI_InvokeContext;
#else
using FfiExtension = XLA_FFI_Extension_Base;
using FfiContext = XLA_FFI_ExecutionContext;
#endif

// Sets the stage whose state XLA_FFI_State_Set and XLA_FFI_State_Get access.
// Before version 0.3, a handler has one state.
template <typename Args>
void SetInstantiateStage([[maybe_unused]] Args* args) {
#if XLA_FFI_API_MINOR >= 3
  args->stage = XLA_FFI_ExecutionStage_INSTANTIATE;
#endif
}

// Returns the message of an error.
inline std::string FfiMessage(const XLA_FFI_Api& api, XLA_FFI_Error* error) {
#if XLA_FFI_API_MINOR >= 4
  XLA_FFI_Error_GetDetails_Args args{};
  args.struct_size = XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE;
  args.error = error;
  api.XLA_FFI_Error_GetDetails(&args);
#else
  XLA_FFI_Error_GetMessage_Args args{};
  args.struct_size = XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE;
  args.error = error;
  api.XLA_FFI_Error_GetMessage(&args);
#endif
  return args.message;
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_FFI_FFI_VERSIONS_H_
