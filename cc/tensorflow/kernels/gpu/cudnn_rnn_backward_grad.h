// The GPU engine of CudnnRNNBackpropGrad.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_BACKWARD_GRAD_H_

#include "cc/gpu/arrays.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/network_backward_grad.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_backward_grad.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/kernels/gpu/op_call.h"
#include "cc/tensorflow/kernels/tensorflow_frame.h"

namespace tf_rnn_ops {

template <typename E>
class GpuNetworkBackwardGradEngine {
 public:
  Status FindZeros(CallFrame* frame, const Array& array,
                   bool* are_zeros) const {
    OpCall call(ContextOf(frame));
    TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
    return gpu::FindZeros(call.call(), gpu::DataTypeOf<E>, array.num_elements,
                          array.data, are_zeros);
  }

  Status ReadHeader(CallFrame* frame, Array* reserve_space,
                    rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(frame, *reserve_space, header);
  }

  Status BackwardGrad(CallFrame* frame, const CudnnRnnInputs&,
                      rnn::NetworkBackwardGrad<E>* pass) const {
    OpCall call(ContextOf(frame));
    TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
    gpu::Cublas* cublas;
    TF_RNN_OPS_RETURN_IF_ERROR(gpu::Cublas::Get(&cublas));
    return gpu::RunNetworkBackwardGrad(call.call(), *cublas, AllowsTf32(),
                                       *pass);
  }

  Status SetZero(CallFrame* frame, const Array& array) const {
    OpCall call(ContextOf(frame));
    TF_RNN_OPS_RETURN_IF_ERROR(call.Init());
    return gpu::ZeroBytes(call.call(), array.num_bytes, array.data);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_KERNELS_GPU_CUDNN_RNN_BACKWARD_GRAD_H_
