// The CPU engine of CudnnRNN, its versions and their gradients.

#ifndef TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_H_

#include <cstdint>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/packed_weights.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/cudnn_rnn.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/network.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

struct CpuNetworkPlan : NetworkPlan {
  explicit CpuNetworkPlan(CallFrame*) {}
};

template <typename E>
class CpuNetworkEngine {
 public:
  using Plan = CpuNetworkPlan;

  Status Init(const Attributes& attributes) {
    return constant_weights_.Init(attributes);
  }

  Status MakePlan(const CudnnRnnInputs& inputs, bool is_training, Plan* plan) {
    plan->key = inputs.MakeReserveSpaceKey();
    if (!is_training) return Status();
    return FindReserveSpaceSize<E>(inputs, &plan->reserve_space_size);
  }

  // The same contents as TensorFlow's own ops write for the default algorithm
  // of cuDNN.
  Shape HostReservedShape(int version, bool is_training) const {
    return version > 2 || !is_training ? Shape() : Shape{2};
  }
  void FillHostReserved(const Plan&, const rnn::RandomStream&,
                        const Array& host_reserved) const {
    tf_rnn_ops::SetZero(host_reserved);
    if (host_reserved.shape.rank() > 0) {
      *host_reserved.As<std::int8_t>() = -1;
    }
  }

  bool needs_input_backprop() const { return false; }

  Status Forward(CallFrame* frame, const CudnnRnnInputs& inputs, Plan*,
                 rnn::NetworkForward<E>* pass) const {
    return constant_weights_.RunForward(frame, inputs, pass);
  }

  Status Backward(CallFrame* frame, const CudnnRnnInputs& inputs, Plan*,
                  rnn::NetworkBackward<E>* pass) const {
    const auto kernels = KernelsFor<E>(inputs);
    return RunPass(frame, inputs, kernels.backward_workspace, kernels.backward,
                   pass);
  }

  Status ReadHeader(CallFrame* frame, int, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(frame, reserve_space, header);
  }

  Status SetZero(const Plan&, const Array& array) const {
    tf_rnn_ops::SetZero(array);
    return Status();
  }

 private:
  mutable ConstantWeights<E> constant_weights_{{"params"}};
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_CUDNN_RNN_H_
