// Registers kernels for a device. A prefix of the op names allows the same
// kernels to serve both our ops and TensorFlow's.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_DEVICE_KERNELS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_DEVICE_KERNELS_H_

#include <string>
#include <vector>

#include "cc/ops/op.h"
#include "cc/tensorflow/kernels/align_tensor.h"
#include "cc/tensorflow/kernels/kernel_factory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {

// Whether an op already has kernels for a device. Logs a warning if so.
bool KeepsKernels(const std::string& op, const std::string& device_type);

// Registers kernels that call ops. Skips ops that already have kernels for the
// device.
// op_prefix: prepended to the names in `ops`.
// ops: must outlive the kernels.
void RegisterKernels(const std::string& device_type,
                     const std::string& op_prefix,
                     const std::vector<OpEntry>& ops);

// Registers kernels that call ops, in front of other kernels for the device.
void ReplaceKernels(const std::string& device_type,
                    const std::vector<OpEntry>& ops);

// Registers the kernels of AlignTensor.
// DeviceCopier: an engine for copies (cc/ops/cudnn_rnn_params.h).
template <typename DeviceCopier>
void RegisterAlignTensor(const std::string& device_type) {
  constexpr char kOp[] = "TfRnnOps>AlignTensor";
  if (KeepsKernels(kOp, device_type)) return;
  for (const tensorflow::DataType type :
       {tensorflow::DT_FLOAT, tensorflow::DT_DOUBLE, tensorflow::DT_HALF,
        tensorflow::DT_BFLOAT16, tensorflow::DT_BOOL}) {
    // For the mask of KerasRNN, which has no GPU kernel.
    const bool is_mask = type == tensorflow::DT_BOOL;
    if (is_mask && device_type != tensorflow::DEVICE_CPU) continue;
    tensorflow::KernelDefBuilder builder(kOp);
    builder.Device(device_type.c_str()).TypeConstraint("T", type);
    RegisterFactory(builder.Build(), kOp,
                    [](tensorflow::OpKernelConstruction* ctx) {
                      return new AlignTensorKernel<DeviceCopier>(ctx);
                    });
  }
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_DEVICE_KERNELS_H_
