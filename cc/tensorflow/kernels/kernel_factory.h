// Registers kernels with TensorFlow.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_KERNEL_FACTORY_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_KERNEL_FACTORY_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_rnn_ops {

// Calls a function that makes a kernel. If that throws an exception, sets the
// error of the context and returns null.
template <typename Make>
class KernelFactory final : public tensorflow::kernel_factory::OpKernelFactory {
 public:
  explicit KernelFactory(const Make& make) : make_(make) {}

  tensorflow::OpKernel* Create(tensorflow::OpKernelConstruction* ctx) override {
    tensorflow::OpKernel* kernel = nullptr;
    const absl::Status status = CatchInKernel(ctx->def().op(), [&] {
      kernel = make_(ctx);
      return Status();
    });
    if (!status.ok()) ctx->SetStatus(status);
    return kernel;
  }

 private:
  const Make make_;
};

// make: returns a new kernel for a tensorflow::OpKernelConstruction*.
template <typename Make>
void RegisterFactory(const tensorflow::KernelDef* definition,
                     absl::string_view class_name, const Make& make) {
  tensorflow::kernel_factory::OpKernelRegistrar(
      definition, class_name, std::make_unique<KernelFactory<Make>>(make));
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_KERNEL_FACTORY_H_
