#include "cc/kernels/gru_block_cell.h"

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/rnn/instruction_set.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

template <typename T>
class CpuGruBlockCell {
 public:
  using E = EngineType<T>;

  absl::Status Forward(OpKernelContext* ctx, const GruBlockCellInputs& inputs,
                       rnn::GruBlockCellForward<E>* step) const {
    return RunPass(ctx, inputs, kernels_.forward_workspace, kernels_.forward,
                   step);
  }

  absl::Status Backward(OpKernelContext* ctx, const GruBlockCellInputs& inputs,
                        rnn::GruBlockCellBackward<E>* step) const {
    return RunPass(ctx, inputs, kernels_.backward_workspace, kernels_.backward,
                   step);
  }

 private:
  const rnn::GruBlockCellKernels<E> kernels_ =
      rnn::GetGruBlockCellKernels<E>(rnn::ActiveInstructionSet());
};

}  // namespace

void AddGruBlockCellKernels(const DeviceKernels& kernels) {
  GruBlockCellKernelsOn<CpuGruBlockCell>::Add(kernels);
}

}  // namespace tf_rnn_ops
