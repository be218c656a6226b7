// Kernels that call a function in the thread that executes them.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/refcount.h"
#include "tensorflow/core/platform/tstring.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::FunctionLibraryRuntime;
using ::tensorflow::OpKernelContext;
using ::tensorflow::PartialTensorShape;
using ::tensorflow::ResourceHandle;
using ::tensorflow::Tensor;

// A function, apart from those that TensorFlow knows.
class Caller final : public tensorflow::ResourceBase {
 public:
  // shapes: those that the arguments must have.
  explicit Caller(std::vector<PartialTensorShape> shapes)
      : shapes_(std::move(shapes)) {}

  // library: of the device that runs the function.
  absl::Status Init(FunctionLibraryRuntime* library,
                    const tensorflow::FunctionDef& function) {
    definitions_ = std::make_unique<tensorflow::FunctionLibraryDefinition>(
        tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary());
    absl::Status status = definitions_->AddFunctionDef(function);
    if (!status.ok()) return status;
    process_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
        library->device_mgr(), library->env(), /*config=*/nullptr,
        library->graph_def_version(), definitions_.get(),
        tensorflow::OptimizerOptions());
    const std::string& device = library->device()->name();
    // With the passes that TensorFlow registers, such as that to the kernels of
    // oneDNN, but without Grappler, and without other threads.
    FunctionLibraryRuntime::InstantiateOptions options;
    options.target = device;
    options.is_multi_device_function = true;
    options.input_devices.assign(shapes_.size(), device);
    options.allow_small_function_optimizations = true;
    const std::string& name = function.signature().name();
    status =
        process_->Instantiate(name, tensorflow::AttrSlice(), options, &handle_);
    if (!status.ok()) return status;
    // Frees the constants in the definition. The graph has its own.
    return definitions_->RemoveFunction(name);
  }

  absl::Status Call(OpKernelContext* ctx, const std::vector<Tensor>& arguments,
                    std::vector<Tensor>* results) const {
    const absl::Status status = CheckShapes(arguments);
    if (!status.ok()) return status;
    std::function<void(std::function<void()>)> run_here =
        [](const std::function<void()>& work) { work(); };
    FunctionLibraryRuntime::Options options;
    options.runner = &run_here;
    options.run_all_kernels_inline = true;
    options.rendezvous = rendezvous_.get();
    options.cancellation_manager = ctx->cancellation_manager();
    options.step_container = ctx->step_container();
    return process_->RunSync(options, handle_, arguments, results);
  }

  std::string DebugString() const override { return "a function"; }

 private:
  absl::Status CheckShapes(const std::vector<Tensor>& arguments) const {
    if (arguments.size() != shapes_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the function takes ", shapes_.size(),
                       " arguments, but got ", arguments.size()));
    }
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (!shapes_[i].IsCompatibleWith(arguments[i].shape())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "arguments[", i, "] must have the shape ", shapes_[i].DebugString(),
            ", but has ", arguments[i].shape().DebugString()));
      }
    }
    return absl::OkStatus();
  }

  const std::vector<PartialTensorShape> shapes_;
  // Required, but not used by a function on one device.
  const tensorflow::core::RefCountPtr<tensorflow::Rendezvous> rendezvous_{
      tensorflow::NewLocalRendezvous()};
  // The second uses the first.
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process_;
  FunctionLibraryRuntime::Handle handle_ = tensorflow::kInvalidHandle;
};

// The element of an input, of the type in the definition of the op. Null if the
// input has another number of elements.
template <typename T>
const T* ElementOf(OpKernelContext* ctx, int index) {
  const Tensor& tensor = ctx->input(index);  // NOLINT(accessors): it exists
  return tensor.NumElements() == 1 ? static_cast<const T*>(tensor.data())
                                   : nullptr;
}

class FunctionCallerKernel final : public tensorflow::OpKernel {
 public:
  explicit FunctionCallerKernel(tensorflow::OpKernelConstruction* ctx)
      : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes_));
  }

  void Compute(OpKernelContext* ctx) override {
    const auto* serialized = ElementOf<tensorflow::tstring>(ctx, 0);
    tensorflow::FunctionDef function;
    OP_REQUIRES(
        ctx,
        serialized != nullptr &&
            function.ParseFromArray(serialized->data(),
                                    static_cast<int>(serialized->size())),
        absl::InvalidArgumentError(
            "function must be one serialized FunctionDef"));
    tensorflow::core::RefCountPtr<Caller> caller(new Caller(shapes_));
    OP_REQUIRES(ctx, ctx->function_library() != nullptr,
                absl::FailedPreconditionError("the device has no functions"));
    OP_REQUIRES_OK(ctx, caller->Init(ctx->function_library(), function));
    Tensor* output;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &output));
    *static_cast<ResourceHandle*>(output->data()) =
        ResourceHandle::MakeRefCountingHandle(caller.release(),
                                              ctx->device()->name());
  }

 private:
  std::vector<PartialTensorShape> shapes_;
};

class CallInThreadKernel final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Caller* const caller = FindCaller(ctx);
    OP_REQUIRES(ctx, caller != nullptr,
                absl::InvalidArgumentError(
                    "caller must be the result of a FunctionCaller"));
    std::vector<Tensor> arguments, results;
    for (int i = 1; i < ctx->num_inputs(); ++i) {
      arguments.push_back(ctx->input(i));  // NOLINT(accessors): it exists
    }
    OP_REQUIRES_OK(ctx, caller->Call(ctx, arguments, &results));
    OP_REQUIRES(ctx, static_cast<int>(results.size()) == ctx->num_outputs(),
                absl::InvalidArgumentError(
                    absl::StrCat("Tout must have ", results.size(),
                                 " types, but has ", ctx->num_outputs())));
    for (std::size_t i = 0; i < results.size(); ++i) {
      OP_REQUIRES(ctx, results[i].dtype() == ctx->expected_output_dtype(i),
                  absl::InvalidArgumentError(absl::StrCat(
                      "Tout[", i, "] must be ",
                      tensorflow::DataTypeString(results[i].dtype()))));
      ctx->set_output(i, std::move(results[i]));
    }
  }

 private:
  // Null if there is none.
  static const Caller* FindCaller(OpKernelContext* ctx) {
    const auto* handle = ElementOf<ResourceHandle>(ctx, 0);
    if (handle == nullptr || !handle->IsRefCounting()) return nullptr;
    const auto caller = handle->GetResource<Caller>();
    return caller.ok() ? *caller : nullptr;
  }
};

REGISTER_KERNEL_BUILDER(
    Name("TfRnnOps>FunctionCaller").Device(tensorflow::DEVICE_CPU),
    FunctionCallerKernel);
REGISTER_KERNEL_BUILDER(
    Name("TfRnnOps>CallInThread").Device(tensorflow::DEVICE_CPU),
    CallInThreadKernel);

}  // namespace
}  // namespace tf_rnn_ops
