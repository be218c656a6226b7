#include "cc/tensorflow/kernels/device_kernels.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/ops/op.h"
#include "cc/ops/signature.h"
#include "cc/tensorflow/kernels/kernel_factory.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/logging.h"

namespace tf_rnn_ops {
namespace {

void RegisterKernel(const std::string& device_type, const std::string& name,
                    const OpEntry& op, int priority) {
  tensorflow::KernelDefBuilder builder(name.c_str());
  builder.Device(device_type.c_str())
      .TypeConstraint(op.signature->type_attribute, ToDataType(op.type))
      .Priority(priority);
  // On the CPU, all memory is host memory. With explicit HostMemory, TensorFlow
  // would mix up the arguments of concurrent threads on CPU devices other than
  // the first.
  if (device_type != tensorflow::DEVICE_CPU) {
    for (const auto* arguments :
         {&op.signature->inputs, &op.signature->outputs}) {
      for (const Argument& argument : *arguments) {
        if (argument.is_on_host) builder.HostMemory(argument.name.c_str());
      }
    }
  }
  RegisterFactory(builder.Build(), name,
                  [&op](tensorflow::OpKernelConstruction* ctx) {
                    return new CallKernel(ctx, op.make());
                  });
}

}  // namespace

bool KeepsKernels(const std::string& op, const std::string& device_type) {
  const tensorflow::KernelList kernels =
      tensorflow::GetRegisteredKernelsForOp(op);
  for (const tensorflow::KernelDef& kernel : kernels.kernel()) {
    if (kernel.device_type() != device_type) continue;
    LOG(WARNING)
        << op << " already has a kernel for the " << device_type
        << ", which stays in use. The kernel of tf_rnn_ops is not registered.";
    return true;
  }
  return false;
}

void RegisterKernels(const std::string& device_type,
                     const std::string& op_prefix,
                     const std::vector<OpEntry>& ops) {
  std::map<std::string, bool> keeps_kernels;
  for (const OpEntry& op : ops) {
    const std::string name = absl::StrCat(op_prefix, op.signature->name);
    const auto [keeps, is_new] = keeps_kernels.try_emplace(name);
    if (is_new) keeps->second = KeepsKernels(name, device_type);
    if (!keeps->second) RegisterKernel(device_type, name, op, /*priority=*/0);
  }
}

void ReplaceKernels(const std::string& device_type,
                    const std::vector<OpEntry>& ops) {
  for (const OpEntry& op : ops) {
    RegisterKernel(device_type, op.signature->name, op, /*priority=*/1);
  }
}

}  // namespace tf_rnn_ops
