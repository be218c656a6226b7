// A network as cuDNN knows it.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_

#include <cstdint>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_descriptor.h"
#include "cc/gpu/cudnn_rnn_params.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/status.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// It computes in the tensors' type, but for bfloat16 where cuDNN (before
// version 9.13) or the GPU has no such networks: there it is float32.
class CudnnRnnNetwork {
 public:
  // type: of the tensors.
  // dropout: what drops inputs of the layers but the first, or null.
  // allow_tf32: whether products of float32 may be rounded to 10 bits.
  Status Init(const Cudnn& cudnn, cudnnHandle_t handle,
              const rnn::RnnConfig& config, DataType type,
              cudnnDropoutDescriptor_t dropout, bool allow_tf32);

  cudnnRNNDescriptor_t descriptor() const { return descriptor_.get(); }
  const CudnnRnnParams& params() const { return params_; }
  // What cuDNN computes with.
  DataType type() const { return type_; }
  // The size of the first layer's input: 1, of zeros, where there is none.
  std::int64_t input_size() const { return input_size_; }

 private:
  // Refuses a type that cuDNN or the GPU does not know.
  Status TryType(const Cudnn& cudnn, cudnnHandle_t handle) const;
  Status Describe(const Cudnn& cudnn, const rnn::RnnConfig& config,
                  cudnnDropoutDescriptor_t dropout, bool allow_tf32);

  DataType type_ = DataType::kFloat;
  std::int64_t input_size_ = 0;
  CudnnRnnDescriptor descriptor_;
  CudnnRnnParams params_;
};

// cuDNN's name for a type.
cudnnDataType_t CudnnType(DataType type);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_NETWORK_H_
