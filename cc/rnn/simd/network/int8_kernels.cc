#include "cc/rnn/simd/network/int8_kernels.h"

#include "cc/rnn/network.h"
#include "cc/rnn/simd/layer/layer_forward.h"
#include "cc/rnn/simd/network/pass_functions.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

NetworkKernels<float> GetInt8WeightKernels() {
  NetworkKernels<float> kernels{};
  SetForward<float, QuantizedProducts>(&kernels);
  return kernels;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
