// cuDNN's descriptors of a network.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_

#include <cstdint>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_descriptor.h"
#include "cc/gpu/cudnn_rnn_params.h"
#include "cc/gpu/data_type.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// How cuDNN computes.
struct CudnnRnnMethod {
  DataType type;
  cudnnRNNAlgo_t algorithm;
  // Whether float32 operands may be rounded to 10 bits.
  bool allow_tf32;
};

class CudnnRnnNetwork {
 public:
  Status Init(const Cudnn& cudnn, cudnnHandle_t handle,
              const CudnnRnnLayers& layers, const CudnnRnnMethod& method);

  cudnnRNNDescriptor_t descriptor() const { return descriptor_.get(); }
  const CudnnRnnParams& params() const { return params_; }
  // The configuration of the layers.
  const rnn::RnnConfig& config() const { return config_; }
  // The input size of the first layer. At least 1: an empty input is replaced
  // by zeros.
  std::int64_t input_size() const { return input_size_; }

 private:
  Status Describe(const Cudnn& cudnn, const CudnnRnnMethod& method);

  rnn::RnnConfig config_{};
  std::int64_t input_size_ = 0;
  CudnnRnnDescriptor descriptor_;
  CudnnRnnParams params_;
};

// Converts to cuDNN's data type.
cudnnDataType_t CudnnType(DataType type);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_
