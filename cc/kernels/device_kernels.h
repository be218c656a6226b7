// How kernels are registered: for one device, under op names with a prefix, so
// that one set of kernels serves ops of our own and TensorFlow's.

#ifndef TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_
#define TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_

#include <string>
#include <vector>

#include "cc/calls/op.h"
#include "cc/kernels/align_tensor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {

// Whether an op has kernels for a device, which it keeps then. Logs that.
bool KeepsKernels(const std::string& op, const std::string& device_type);

// Registers kernels that call ops, which outlive them. An op that has kernels
// for the device keeps those.
// op_prefix: what the names of TensorFlow's ops have before those in `ops`.
void RegisterKernels(const std::string& device_type,
                     const std::string& op_prefix,
                     const std::vector<OpEntry>& ops);

// Registers the kernels of AlignTensor.
// Copier: as cc/calls/cudnn_rnn_params.h says.
template <typename Copier>
void RegisterAlignTensor(const std::string& device_type) {
  constexpr char kOp[] = "TfRnnOps>AlignTensor";
  if (KeepsKernels(kOp, device_type)) return;
  for (const tensorflow::DataType type :
       {tensorflow::DT_FLOAT, tensorflow::DT_DOUBLE, tensorflow::DT_HALF,
        tensorflow::DT_BFLOAT16}) {
    tensorflow::KernelDefBuilder builder(kOp);
    builder.Device(device_type.c_str()).TypeConstraint("T", type);
    tensorflow::kernel_factory::OpKernelRegistrar(
        builder.Build(), kOp,
        [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
          return new AlignTensorKernel<Copier>(ctx);
        });
  }
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_DEVICE_KERNELS_H_
