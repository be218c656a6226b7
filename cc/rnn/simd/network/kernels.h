// The network of cc/rnn/network.h, compiled for each instruction set.
// cc/rnn/network.cc lists the types and formats that a set has.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_

#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/weights.h"

// T: the type of the arrays. GetInferenceKernels: the forward pass of a float32
// network whose weights have another format.
#define TF_RNN_OPS_DECLARE(instruction_set)    \
  namespace instruction_set {                  \
  template <typename T>                        \
  NetworkKernels<T> GetKernels();              \
  template <WeightFormat format>               \
  NetworkKernels<float> GetInferenceKernels(); \
  }

namespace tf_rnn_ops::rnn {

TF_RNN_OPS_FOR_EACH_SET(TF_RNN_OPS_DECLARE)

}  // namespace tf_rnn_ops::rnn

#undef TF_RNN_OPS_DECLARE

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_KERNELS_H_
