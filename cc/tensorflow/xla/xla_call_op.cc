// Compiles the ops with XLA in TensorFlow, to calls of the handlers.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cc/ffi/ffi_op.h"
#include "cc/ffi/ffi_versions.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/op.h"
#include "cc/ops/signature.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "cc/tensorflow/kernels/kernel_factory.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/platform/logging.h"
#include "xla/ffi/api/c_api.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/layout_util.h"
#include "xla/shape.h"
#include "xla/shape_util.h"

namespace xla::ffi {

// Declared in xla/ffi/ffi_api.h, which includes headers that TensorFlow does
// not ship. TensorFlow's libraries for Arm do not export XLA_FFI_GetApi.
const XLA_FFI_Api* GetXlaFfiApi();

}  // namespace xla::ffi

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::Tensor;
using ::tensorflow::XlaOpKernelContext;

constexpr char kDevice[] = "XLA_CPU_JIT";
constexpr char kOurPrefix[] = "TfRnnOps>";

// The attribute in MLIR syntax; empty if handlers do not need the type.
// type: the type in the op definition.
std::string ToMlir(const std::string& type,
                   const tensorflow::AttrValue& value) {
  if (type == "bool") return value.b() ? "true" : "false";
  if (type == "int") return absl::StrCat(value.i(), " : i64");
  if (type == "float") {
    std::uint32_t bits;
    const float number = value.f();
    std::memcpy(&bits, &number, sizeof(bits));
    return absl::StrFormat("0x%08X : f32", bits);
  }
  if (type == "string") {
    return absl::StrCat("\"", absl::CHexEscape(value.s()), "\"");
  }
  if (type == "list(string)") {
    return absl::StrCat(
        "\"", absl::CHexEscape(absl::StrJoin(value.list().s(), ",")), "\"");
  }
  return "";
}

// The attribute that names the stream of dropout masks. All programs that XLA
// compiles for a node share it. It is the same in each process, so that XLA's
// persistent cache finds the programs.
// function: the function that the node is part of. No other function of the
// process has this name.
std::string ToMlirStream(absl::string_view function,
                         const tensorflow::NodeDef& node) {
  const std::size_t hash =
      std::hash<std::string>()(absl::StrCat(function, "/", node.name()));
  return absl::StrCat(kDropoutStream, " = ", static_cast<std::int64_t>(hash),
                      " : i64");
}

// The attributes of a node and the names of its unwanted outputs in MLIR
// syntax.
std::vector<std::string> ToMlir(
    const tensorflow::OpDef& op, const tensorflow::NodeDef& node,
    const std::vector<std::string>& unwanted_outputs) {
  std::vector<std::string> attributes;
  for (const auto& definition : op.attr()) {
    const auto attribute = node.attr().find(definition.name());
    if (attribute == node.attr().end()) continue;
    const std::string value = ToMlir(definition.type(), attribute->second);
    if (value.empty()) continue;
    attributes.push_back(absl::StrCat(definition.name(), " = ", value));
  }
  if (!unwanted_outputs.empty()) {
    attributes.push_back(absl::StrCat(
        kUnwantedOutputs, " = \"", absl::StrJoin(unwanted_outputs, ","), "\""));
  }
  return attributes;
}

// A call at compile time. Only shapes are known, and the values of inputs that
// sizes depend on. If these are all inputs, the results are constants.
class CompiledFrame final : public CallFrame {
 public:
  CompiledFrame(const FfiOp& op, XlaOpKernelContext* ctx)
      : ffi_op_(op),
        ctx_(ctx),
        output_shapes_(ctx->num_outputs()),
        output_values_(ctx->num_outputs()) {}

  bool has_values() const override {
    return absl::c_all_of(
        ffi_op_.signature->inputs,
        [](const Argument& argument) { return argument.is_size; });
  }

  Status FindInputs(const char* name, std::vector<Array>* arrays) override {
    int begin, end;
    TF_RNN_OPS_RETURN_IF_ERROR(
        FromAbslStatus(ctx_->op_kernel().InputRange(name, &begin, &end)));
    const Argument& input = *absl::c_find_if(
        ffi_op_.signature->inputs,
        [name](const Argument& argument) { return argument.name == name; });
    arrays->resize(end - begin);
    for (int i = begin; i < end; ++i) {
      Array* array = &(*arrays)[i - begin];
      TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(
          input.is_size ? ReadValue(i, array) : ReadShape(input, i, array)));
    }
    return Status();
  }

  int NumOutputs(const char* name) const override {
    int begin, end;
    return ctx_->op_kernel().OutputRange(name, &begin, &end).ok() ? end - begin
                                                                  : 0;
  }

  Status MakeOutputs(const char* name, const std::vector<Shape>& shapes,
                     std::vector<Array>* arrays) override {
    int begin, end;
    TF_RNN_OPS_RETURN_IF_ERROR(
        FromAbslStatus(ctx_->op_kernel().OutputRange(name, &begin, &end)));
    arrays->resize(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(FromAbslStatus(
          MakeOutput(begin + static_cast<int>(i), shapes[i], &(*arrays)[i])));
    }
    return Status();
  }

  // XLA computes all outputs of a call.
  bool IsWanted(const char*) const override { return true; }

  Status MakeScratch(std::int64_t, void**) override {
    return Status(StatusCode::kInternal,
                  "MakeScratch must not be called when XLA compiles the op.");
  }
  Threads FindThreads() override { return Threads(); }

  // The outputs of the op. Values exist only if has_values() is true.
  const std::vector<xla::Shape>& output_shapes() const {
    return output_shapes_;
  }
  const std::vector<Tensor>& output_values() const { return output_values_; }

 private:
  absl::Status ReadShape(const Argument& input, int i, Array* array) {
    TF_ASSIGN_OR_RETURN(xla::Shape shape, ctx_->InputXlaShape(i));
    if (input.is_opaque) {
      // A branch of tf.cond or tf.switch_case passes opaque data to its
      // gradient with a dynamic size: its size if the branch ran, else 0. The
      // gradient runs only if the branch did, so the bound is the size.
      shape = xla::ShapeUtil::MakeStaticShape(shape);
    } else if (shape.is_dynamic()) {
      return absl::UnimplementedError(
          absl::StrCat(input.name,
                       " must have a static shape to be compiled with XLA, but "
                       "has the shape ",
                       shape.ToString()));
    }
    *array = ArrayOf(shape);
    return absl::OkStatus();
  }

  absl::Status ReadValue(int i, Array* array) {
    TF_ASSIGN_OR_RETURN(Tensor value, ctx_->ConstantInputTensor(i));
    *array = ToArray(input_values_.emplace_back(std::move(value)));
    return absl::OkStatus();
  }

  absl::Status MakeOutput(int i, const Shape& shape, Array* array) {
    const tensorflow::DataType type = ctx_->expected_output_dtype(i);
    xla::PrimitiveType xla_type;
    TF_RETURN_IF_ERROR(tensorflow::DataTypeToPrimitiveType(type, &xla_type));
    const auto sizes = absl::MakeConstSpan(shape.begin(), shape.rank());
    TF_ASSIGN_OR_RETURN(output_shapes_[i],
                        xla::ShapeUtil::MakeValidatedShape(xla_type, sizes));
    *array = ArrayOf(output_shapes_[i]);
    if (!has_values()) return absl::OkStatus();
    tensorflow::TensorShape tensor_shape;
    TF_RETURN_IF_ERROR(
        tensorflow::TensorShape::BuildTensorShape(sizes, &tensor_shape));
    output_values_[i] = Tensor(type, tensor_shape);
    array->data = output_values_[i].data();
    return absl::OkStatus();
  }

  static Array ArrayOf(const xla::Shape& shape) {
    Array array;
    array.shape = Shape(shape.dimensions().data(), shape.dimensions().size());
    array.num_elements = array.shape.NumElements();
    array.num_bytes =
        array.num_elements *
        xla::ShapeUtil::ByteSizeOfPrimitiveType(shape.element_type());
    return array;
  }

  const FfiOp& ffi_op_;
  XlaOpKernelContext* const ctx_;
  std::vector<Tensor> input_values_;
  std::vector<xla::Shape> output_shapes_;
  std::vector<Tensor> output_values_;
};

// Compiles an op to a call of its handler.
class CallOp final : public tensorflow::XlaOpKernel {
 public:
  CallOp(OpKernelConstruction* ctx, const FfiOp& op)
      : tensorflow::XlaOpKernel(ctx), ffi_op_(op) {
    OP_REQUIRES_OK(ctx, CatchInKernel(ffi_op_.signature->name, [&] {
                     return FromAbslStatus(Init(ctx));
                   }));
  }

  void Compile(XlaOpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CatchInKernel(ffi_op_.signature->name, [&] {
                     return FromAbslStatus(CompileCall(ctx));
                   }));
  }

 private:
  absl::Status Init(OpKernelConstruction* ctx) {
    const TensorFlowAttributes attributes(ctx);
    TF_RETURN_IF_ERROR(MakeOp());
    TF_RETURN_IF_ERROR(ToAbslStatus(op_->Init(attributes)));
    TF_RETURN_IF_ERROR(ToAbslStatus(FindDropout(attributes)));
    const auto unwanted = def().attr().find("_unwanted_outputs");
    if (unwanted != def().attr().end()) {
      const auto& names = unwanted->second.list().s();
      unwanted_outputs_.assign(names.begin(), names.end());
    }
    const tensorflow::OpDef* op;
    TF_RETURN_IF_ERROR(
        tensorflow::OpRegistry::Global()->LookUpOpDef(def().op(), &op));
    attributes_ = ToMlir(*op, def(), unwanted_outputs_);
    return absl::OkStatus();
  }

  // Runs the shape checks of the op, which also determine the output shapes.
  absl::Status CompileCall(XlaOpKernelContext* ctx) const {
    CompiledFrame frame(ffi_op_, ctx);
    TF_RETURN_IF_ERROR(ToAbslStatus(op_->Run(&frame)));
    if (!frame.has_values()) return Call(ctx, frame.output_shapes());
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      ctx->SetConstantOutput(i, frame.output_values()[i]);
    }
    return absl::OkStatus();
  }

  // Creates the op for its element type.
  absl::Status MakeOp() {
    tensorflow::DataType type = tensorflow::DT_INVALID;
    int begin, end;
    for (const Argument& output : ffi_op_.signature->outputs) {
      if (ffi_op_.TypesOf(output) != kTypeOfOp) continue;
      TF_RETURN_IF_ERROR(OutputRange(output.name, &begin, &end));
      if (end > begin) type = output_type(begin);
    }
    for (const Argument& input : ffi_op_.signature->inputs) {
      if (ffi_op_.TypesOf(input) != kTypeOfOp) continue;
      TF_RETURN_IF_ERROR(InputRange(input.name, &begin, &end));
      if (end > begin) type = input_type(begin);
    }
    xla::PrimitiveType xla_type;
    TF_RETURN_IF_ERROR(tensorflow::DataTypeToPrimitiveType(type, &xla_type));
    for (const OpEntry* entry : ffi_op_.entries) {
      // Both enums have the same values.
      if (static_cast<int>(ToFfiType(entry->type)) != xla_type) continue;
      op_ = entry->make();
      return absl::OkStatus();
    }
    return absl::UnimplementedError(absl::StrCat(
        ffi_op_.signature->name, " does not support the element type ",
        tensorflow::DataTypeString(type)));
  }

  // Finds whether each call draws new dropout masks.
  Status FindDropout(const Attributes& attributes) {
    if (!attributes.Has("seed") || !attributes.Has("is_training")) {
      return Status();
    }
    float dropout;
    bool is_training;
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("dropout", &dropout));
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("is_training", &is_training));
    drops_ = is_training && dropout > 0;
    return Status();
  }

  // Emits the call. Its arrays have the layout of TensorFlow tensors.
  absl::Status Call(XlaOpKernelContext* ctx,
                    std::vector<xla::Shape> output_shapes) const {
    std::vector<xla::XlaOp> outputs;
    TF_RETURN_IF_ERROR(LeaveOutUnwanted(ctx, &output_shapes, &outputs));
    std::vector<xla::XlaOp> inputs;
    std::vector<xla::Shape> input_shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      TF_ASSIGN_OR_RETURN(xla::Shape shape, ctx->InputXlaShape(i));
      inputs.push_back(ToStatic(ctx->Input(i), &shape));
      xla::LayoutUtil::SetToDefaultLayout(&shape);
      input_shapes.push_back(std::move(shape));
    }
    // Without side effects, XLA would merge two equal calls.
    const xla::XlaOp call = xla::CustomCallWithLayout(
        ctx->builder(), ffi_op_.target, inputs,
        xla::ShapeUtil::MakeTupleShape(output_shapes), input_shapes,
        AttributesOf(ctx), /*has_side_effect=*/drops_,
        /*output_operand_aliasing=*/{},
        /*literal=*/nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
        xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      if (!outputs[i].valid()) outputs[i] = xla::GetTupleElement(call, i);
      if (IsOfUnknownRank(i) && output_shapes[i].dimensions().empty()) {
        outputs[i] = xla::ConstantR1<std::int8_t>(ctx->builder(), {});
      }
      ctx->SetOutput(i, outputs[i]);
    }
    return absl::OkStatus();
  }

  // Whether an output is host_reserved of TensorFlow's own ops, whose shape
  // functions do not infer its rank. A scalar becomes an empty vector: that is
  // what a branch of tf.cond or tf.switch_case that did not run passes to its
  // gradient, and XLA may end the process if the ranks differ. Gradients on the
  // CPU ignore it.
  bool IsOfUnknownRank(int output) const {
    int begin, end;
    return !absl::StartsWith(def().op(), kOurPrefix) &&
           OutputRange("host_reserved", &begin, &end).ok() && output == begin;
  }

  // Makes the dynamic sizes of an input static; CompiledFrame rejects those of
  // others than opaque inputs. The handler checks the contents.
  static xla::XlaOp ToStatic(xla::XlaOp input, xla::Shape* shape) {
    for (int i = 0; i < static_cast<int>(shape->dimensions().size()); ++i) {
      if (!shape->is_dynamic_dimension(i)) continue;
      input = xla::RemoveDynamicDimension(input, i);
      shape->set_dynamic_dimension(i, false);
    }
    return input;
  }

  // The attributes of the call, as a dictionary in MLIR syntax.
  std::string AttributesOf(XlaOpKernelContext* ctx) const {
    std::vector<std::string> attributes = attributes_;
    if (drops_) {
      attributes.push_back(ToMlirStream(ctx->builder()->name(), def()));
    }
    return absl::StrCat("{", absl::StrJoin(attributes, ", "), "}");
  }

  // Makes unwanted outputs of the call empty and replaces them by zeros, which
  // XLA removes if nothing reads them.
  absl::Status LeaveOutUnwanted(XlaOpKernelContext* ctx,
                                std::vector<xla::Shape>* shapes,
                                std::vector<xla::XlaOp>* outputs) const {
    outputs->resize(shapes->size());
    for (const std::string& name : unwanted_outputs_) {
      int begin, end;
      TF_RETURN_IF_ERROR(OutputRange(name, &begin, &end));
      for (int i = begin; i < end; ++i) {
        xla::Shape* const shape = &(*shapes)[i];
        (*outputs)[i] = xla::Zeros(ctx->builder(), *shape);
        *shape = xla::ShapeUtil::MakeShape(shape->element_type(), {0});
      }
    }
    return absl::OkStatus();
  }

  const FfiOp& ffi_op_;
  std::unique_ptr<Op> op_;
  bool drops_ = false;
  // Set by a gradient function in Python, in an attribute of the node.
  std::vector<std::string> unwanted_outputs_;
  std::vector<std::string> attributes_;
};

// The identity: XLA aligns the arguments of calls.
class AlignTensorOp final : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(XlaOpKernelContext* ctx) override {
    ctx->SetOutput(0, ctx->Input(0));
  }
};

const tensorflow::KernelDef* MakeKernelDef(const std::string& name) {
  return tensorflow::KernelDefBuilder(name.c_str()).Device(kDevice).Build();
}

// Registers the kernel that compiles the op. XLA reads its own registry only
// until it first compiles, so this registers the kernel with TensorFlow's
// registry, too.
void RegisterKernel(const std::string& name, const FfiOp& op) {
  RegisterFactory(MakeKernelDef(name), name, [&op](OpKernelConstruction* ctx) {
    return new CallOp(ctx, op);
  });
  // XLA's registry gets the compile-time constants, but no device to make
  // kernels for.
  auto builder = tensorflow::XlaOpRegistrationBuilder::Name(name);
  builder.Device(absl::Span<const absl::string_view>());
  for (const Argument& input : op.signature->inputs) {
    if (input.is_size) builder.CompileTimeConstantInput(input.name);
  }
  tensorflow::XlaOpRegistrar(builder.Build(nullptr));
}

// Registers the handlers with TensorFlow's XLA. Returns whether that succeeds.
bool RegisterHandlers() {
  const XLA_FFI_Api& api = *xla::ffi::GetXlaFfiApi();
  constexpr absl::string_view kPlatform = "Host";
  for (const FfiOp& op : TfRnnOps_FfiOps()) {
    const absl::string_view name = op.target;
    XLA_FFI_Handler_Register_Args args{};
    args.struct_size = XLA_FFI_Handler_Register_Args_STRUCT_SIZE;
    args.name = {name.data(), name.size()};
    args.platform = {kPlatform.data(), kPlatform.size()};
    args.bundle.instantiate = op.handler;
    args.bundle.execute = op.handler;
    XLA_FFI_Error* const error = api.XLA_FFI_Handler_Register(&args);
    if (error == nullptr) continue;
    LOG(WARNING) << "tf_rnn_ops could not register its ops with XLA, which "
                    "therefore cannot compile them: "
                 << FfiMessage(api, error);
    XLA_FFI_Error_Destroy_Args destroy{};
    destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    api.XLA_FFI_Error_Destroy(&destroy);
    return false;
  }
  return true;
}

// Registers our own ops when the library is loaded.
const bool are_handlers_registered = [] {
  if (!RegisterHandlers()) return false;
  for (const FfiOp& op : TfRnnOps_FfiOps()) {
    RegisterKernel(absl::StrCat(kOurPrefix, op.signature->name), op);
  }
  RegisterFactory(
      MakeKernelDef(absl::StrCat(kOurPrefix, "AlignTensor")), "AlignTensorOp",
      [](OpKernelConstruction* ctx) { return new AlignTensorOp(ctx); });
  return true;
}();

}  // namespace

// Registers TensorFlow's ops that XLA cannot compile.
extern "C" __attribute__((visibility("default"))) void
TfRnnOps_RegisterXlaBuiltinKernels() {
  if (!are_handlers_registered) return;
  const std::vector<std::string> compiled =
      tensorflow::XlaOpRegistry::GetAllRegisteredOps();
  for (const FfiOp& op : TfRnnOps_FfiOps()) {
    if (op.signature->builtin != BuiltinOp::kNone &&
        !absl::c_linear_search(compiled, op.signature->name)) {
      RegisterKernel(op.signature->name, op);
    }
  }
}

}  // namespace tf_rnn_ops
