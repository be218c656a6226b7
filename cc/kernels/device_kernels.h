// How kernels are registered: for one device, under op names with a prefix, so
// that one set of kernels serves ops of our own and TensorFlow's.

#ifndef TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_
#define TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/kernels/tensorflow_frame.h"
#include "cc/rnn/float16.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_rnn_ops {

// Registers kernels for a device.
class DeviceKernels {
 public:
  // device_type: DEVICE_CPU or DEVICE_GPU.
  // op_prefix: what the names of the ops start with.
  DeviceKernels(std::string device_type, std::string op_prefix)
      : device_type_(std::move(device_type)),
        op_prefix_(std::move(op_prefix)) {}

  // As the registry that cc/calls/ops.h describes: registers kernels that call
  // the op. An op that has kernels for the device keeps those.
  // host_arguments: inputs and outputs that are in the host's memory, which
  // are those of every device but the CPU that the kernel itself looks at.
  template <template <typename> class Op>
  void AddForEachFloat(
      absl::string_view op,
      std::initializer_list<const char*> host_arguments = {}) const {
    AddForEachFloat<CallKernel<Op<float>>, CallKernel<Op<double>>,
                    CallKernel<Op<rnn::Half>>, CallKernel<Op<rnn::BFloat16>>>(
        op, host_arguments);
  }
  template <template <typename> class Op>
  void AddForEachInteger(
      absl::string_view op, const char* attribute,
      std::initializer_list<const char*> host_arguments) const {
    const std::string name = absl::StrCat(op_prefix_, op);
    if (HasKernel(name)) return;
    Register<CallKernel<Op<std::int32_t>>>(
        name, attribute, tensorflow::DT_INT32, host_arguments);
    Register<CallKernel<Op<std::int64_t>>>(
        name, attribute, tensorflow::DT_INT64, host_arguments);
  }

  // Registers a kernel for each floating type that the op's T may be.
  template <typename Float, typename Double, typename Half, typename BFloat16>
  void AddForEachFloat(
      absl::string_view op,
      std::initializer_list<const char*> host_arguments = {}) const {
    const std::string name = absl::StrCat(op_prefix_, op);
    if (HasKernel(name)) return;
    Register<Float>(name, "T", tensorflow::DT_FLOAT, host_arguments);
    Register<Double>(name, "T", tensorflow::DT_DOUBLE, host_arguments);
    Register<Half>(name, "T", tensorflow::DT_HALF, host_arguments);
    Register<BFloat16>(name, "T", tensorflow::DT_BFLOAT16, host_arguments);
  }

 private:
  bool HasKernel(const std::string& op) const {
    const tensorflow::KernelList kernels =
        tensorflow::GetRegisteredKernelsForOp(op);
    for (const tensorflow::KernelDef& kernel : kernels.kernel()) {
      if (kernel.device_type() != device_type_) continue;
      LOG(WARNING) << op << " has a kernel for the " << device_type_
                   << " already, which is kept; that of tf_rnn_ops is not "
                   << "registered.";
      return true;
    }
    return false;
  }

  template <typename Kernel>
  void Register(const std::string& op, const char* attribute,
                tensorflow::DataType dtype,
                std::initializer_list<const char*> host_arguments) const {
    tensorflow::KernelDefBuilder builder(op.c_str());
    builder.Device(device_type_.c_str()).TypeConstraint(attribute, dtype);
    // All of the CPU's memory is the host's. If it were told so, TensorFlow
    // would mix up several threads' arguments on a CPU that is not its first.
    if (device_type_ != tensorflow::DEVICE_CPU) {
      for (const char* argument : host_arguments) builder.HostMemory(argument);
    }
    tensorflow::kernel_factory::OpKernelRegistrar(
        builder.Build(), op,
        [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
          return new Kernel(ctx);
        });
  }

  const std::string device_type_;
  const std::string op_prefix_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_
