// How kernels are registered: under op names with a prefix, so that one set of
// kernels serves ops of our own and TensorFlow's.

#ifndef TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_
#define TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_rnn_ops {

// Registers kernels for the CPU.
class CpuKernels {
 public:
  // op_prefix: what the names of the ops start with.
  explicit CpuKernels(std::string op_prefix)
      : op_prefix_(std::move(op_prefix)) {}

  // Registers Kernel<T> for each of the types that the op's attribute `attr`
  // may be. An op that has kernels for the CPU keeps those.
  template <template <typename> class Kernel, typename... Ts>
  void Add(absl::string_view op, const char* attr) const {
    const std::string name = absl::StrCat(op_prefix_, op);
    if (HasKernel(name)) {
      LOG(WARNING) << name << " has a kernel for the CPU already, which is "
                   << "kept; that of tf_rnn_ops is not registered.";
      return;
    }
    (Register<Kernel<Ts>>(name, tensorflow::KernelDefBuilder(name.c_str())
                                    .Device(tensorflow::DEVICE_CPU)
                                    .TypeConstraint<Ts>(attr)
                                    .Build()),
     ...);
  }

  // Registers Kernel<T> for each floating type that the op's T may be.
  template <template <typename> class Kernel>
  void AddForEachFloat(absl::string_view op) const {
    Add<Kernel, float, double, Eigen::half, Eigen::bfloat16>(op, "T");
  }

 private:
  static bool HasKernel(const std::string& op) {
    const tensorflow::KernelList kernels =
        tensorflow::GetRegisteredKernelsForOp(op);
    for (const tensorflow::KernelDef& kernel : kernels.kernel()) {
      if (kernel.device_type() == tensorflow::DEVICE_CPU) return true;
    }
    return false;
  }

  template <typename Kernel>
  static void Register(const std::string& op,
                       const tensorflow::KernelDef* kernel) {
    tensorflow::kernel_factory::OpKernelRegistrar(
        kernel, op,
        [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
          return new Kernel(ctx);
        });
  }

  const std::string op_prefix_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CPU_KERNELS_H_
