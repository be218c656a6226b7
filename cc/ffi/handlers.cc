#include "cc/ffi/handlers.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/ffi/ffi_frame.h"
#include "cc/ffi/ffi_versions.h"
#include "cc/ops/deep_stack.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {
namespace {

// Converts a status to an error of XLA; null for OK.
XLA_FFI_Error* ToError(const XLA_FFI_Api& api, const Status& status) {
  if (status.ok()) return nullptr;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = status.message().c_str();
  args.errc = static_cast<XLA_FFI_Error_Code>(status.code());
  return api.XLA_FFI_Error_Create(&args);
}

// The state of a handler: the op for each type that it supports.
using State = std::map<XLA_FFI_DataType, std::unique_ptr<Op>>;

// The type ID of the state. Each instance of XLA in the process assigns its
// own.
class StateTypes {
 public:
  // Finds the type ID. Registers the type with the instance of XLA if needed.
  XLA_FFI_Error* Find(const XLA_FFI_Api& api, XLA_FFI_TypeId** type) {
    static constexpr char kName[] = "tf_rnn_ops.Op";
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto [place, is_new] = types_.try_emplace(&api);
    *type = &place->second;
    if (!is_new) return nullptr;
    XLA_FFI_TypeInfo info{};
    info.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
    info.deleter = [](void* state) { delete static_cast<State*>(state); };
    XLA_FFI_Type_Register_Args args{};
    args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
    args.name = {kName, sizeof(kName) - 1};
    args.type_id = *type;
    args.type_info = &info;
    XLA_FFI_Error* error = api.XLA_FFI_Type_Register(&args);
    if (error != nullptr) types_.erase(place);
    return error;
  }

 private:
  std::mutex mutex_;
  std::map<const XLA_FFI_Api*, XLA_FFI_TypeId> types_;
};

StateTypes& Types() {
  static auto* const types = new StateTypes;
  return *types;
}

// Reports the version of the interface that the handler implements.
void Describe(const XLA_FFI_Metadata_Extension& extension) {
  XLA_FFI_Metadata& metadata = *extension.metadata;
  metadata.api_version.major_version = XLA_FFI_API_MAJOR;
  metadata.api_version.minor_version = XLA_FFI_API_MINOR;
  metadata.traits = 0;
}

XLA_FFI_Error* Instantiate(const FfiOp& op, const XLA_FFI_CallFrame& call) {
  const XLA_FFI_Api& api = *call.api;
  auto state = std::make_unique<State>();
  for (const OpEntry* entry : op.entries) {
    std::unique_ptr<Op> body = entry->make();
    const Status status = body->Init(FfiAttributes(call.attrs));
    if (!status.ok()) return ToError(api, status);
    state->emplace(ToFfiType(entry->type), std::move(body));
  }
  XLA_FFI_State_Set_Args args{};
  args.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  SetInstantiateStage(&args);
  if (auto* error = Types().Find(api, &args.type_id)) return error;
  args.state = state.get();
  XLA_FFI_Error* error = api.XLA_FFI_State_Set(&args);
  if (error == nullptr) state.release();
  return error;
}

XLA_FFI_Error* Execute(const FfiOp& op, const XLA_FFI_CallFrame& call) {
  const XLA_FFI_Api& api = *call.api;
  XLA_FFI_State_Get_Args args{};
  args.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  SetInstantiateStage(&args);
  if (auto* error = Types().Find(api, &args.type_id)) return error;
  if (auto* error = api.XLA_FFI_State_Get(&args)) return error;
  FfiFrame frame(op, call);
  const Status status = frame.Init();
  if (!status.ok()) return ToError(api, status);
  const auto& bodies = *static_cast<const State*>(args.state);
  const auto body = bodies.find(frame.type());
  if (body == bodies.end()) {
    return ToError(api, InvalidArgument(op.signature->name,
                                        " was not loaded for XLA_FFI_DataType ",
                                        frame.type()));
  }
  return ToError(api, OnDeepStack(op.signature->name,
                                  [&] { return body->second->Run(&frame); }));
}

}  // namespace

XLA_FFI_Error* Handle(const FfiOp& op, XLA_FFI_CallFrame* call) {
  const FfiExtension* extension = call->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    Describe(*reinterpret_cast<const XLA_FFI_Metadata_Extension*>(extension));
    return nullptr;
  }
  XLA_FFI_Error* error = nullptr;
  const Status status = CatchExceptions(op.signature->name, [&] {
    if (call->stage == XLA_FFI_ExecutionStage_INSTANTIATE) {
      error = Instantiate(op, *call);
    } else if (call->stage == XLA_FFI_ExecutionStage_EXECUTE) {
      error = Execute(op, *call);
    }
    return Status();
  });
  return status.ok() ? error : ToError(*call->api, status);
}

}  // namespace tf_rnn_ops
