// The CPU engine of CudnnRNNBackpropGrad.

#ifndef TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_BACKWARD_GRAD_H_

#include <cstdint>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/cudnn_rnn_backward_grad.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/network.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

template <typename E>
class CpuNetworkBackwardGradEngine {
 public:
  Status FindZeros(CallFrame*, const Array& array, bool* are_zeros) const {
    *are_zeros = AreZeros<E>(array);
    return Status();
  }

  Status ReadHeader(CallFrame* frame, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(frame, reserve_space, header);
  }

  // Runs the forward pass again if it ran on a GPU.
  Status BackwardGrad(CallFrame* frame, const CudnnRnnInputs& inputs,
                      rnn::NetworkBackwardGrad<E>* pass) const {
    rnn::ReserveSpaceHeader header;
    const auto origin = rnn::FindReserveSpaceOrigin(*pass->kept.header);
    if (origin.device == rnn::Device::kGpu) {
      TF_RNN_OPS_RETURN_IF_ERROR(RunForward(frame, inputs, &header, pass));
    }
    const auto kernels = KernelsFor<E>(inputs);
    return RunPass(frame, inputs, kernels.backward_grad_workspace,
                   kernels.backward_grad, pass);
  }

  Status SetZero(CallFrame*, const Array& array) const {
    tf_rnn_ops::SetZero(array);
    return Status();
  }

 private:
  // Runs the forward pass again with the dropout masks of the original one, and
  // replaces the results in `pass`.
  static Status RunForward(CallFrame* frame, const CudnnRnnInputs& inputs,
                           rnn::ReserveSpaceHeader* header,
                           rnn::NetworkBackwardGrad<E>* pass) {
    const std::int64_t size =
        rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
    rnn::NetworkForward<E> forward{};
    inputs.Fill(&forward);
    forward.stream = rnn::ReserveSpaceStream(*pass->kept.header);
    E* kept = nullptr;
    TF_RNN_OPS_RETURN_IF_ERROR(MakeScratch(frame, inputs, size, &kept));
    forward.kept = rnn::Kept<E>::ReserveSpace(kept);
    TF_RNN_OPS_RETURN_IF_ERROR(MakeScratch(
        frame, inputs, inputs.output_shape().NumElements(), &forward.output));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeScratch(
        frame, inputs, inputs.input_h.num_elements, &forward.output_h));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeScratch(
        frame, inputs, inputs.input_c.num_elements, &forward.output_c));
    const auto kernels = KernelsFor<E>(inputs);
    TF_RNN_OPS_RETURN_IF_ERROR(RunPass(frame, inputs, kernels.forward_workspace,
                                       kernels.forward, &forward));
    *header = rnn::CopyReserveSpaceHeader(
        kept, size * static_cast<std::int64_t>(sizeof(E)));
    pass->kept = rnn::Kept<const E>::ReserveSpace(kept, header);
    pass->output = forward.output;
    return Status();
  }

  // Allocates scratch memory for elements. num_elements is -1 if the number
  // overflows.
  static Status MakeScratch(CallFrame* frame, const CudnnRnnInputs& inputs,
                            std::int64_t num_elements, E** elements) {
    const rnn::CheckedInt num_bytes =
        rnn::CheckedInt(num_elements) * std::int64_t{sizeof(E)};
    if (num_elements < 0 || !num_bytes.valid()) return inputs.TooLarge();
    void* memory;
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeScratch(num_bytes.value(), &memory));
    *elements = static_cast<E*>(memory);
    return Status();
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_BACKWARD_GRAD_H_
