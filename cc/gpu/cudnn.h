// cuDNN's interface for recurrent networks, opened at run time.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_H_

#include <cudnn.h>

#include <string>

#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The functions used.
#define TF_RNN_OPS_CUDNN_FUNCTIONS(F) \
  F(cudnnCreate)                      \
  F(cudnnCreateRNNDataDescriptor)     \
  F(cudnnCreateRNNDescriptor)         \
  F(cudnnCreateTensorDescriptor)      \
  F(cudnnDestroy)                     \
  F(cudnnDestroyRNNDataDescriptor)    \
  F(cudnnDestroyRNNDescriptor)        \
  F(cudnnDestroyTensorDescriptor)     \
  F(cudnnGetErrorString)              \
  F(cudnnGetLastErrorString)          \
  F(cudnnGetRNNTempSpaceSizes)        \
  F(cudnnGetRNNWeightParams)          \
  F(cudnnGetRNNWeightSpaceSize)       \
  F(cudnnGetTensorNdDescriptor)       \
  F(cudnnGetVersion)                  \
  F(cudnnRNNBackwardData_v8)          \
  F(cudnnRNNBackwardWeights_v8)       \
  F(cudnnRNNForward)                  \
  F(cudnnSetRNNDataDescriptor)        \
  F(cudnnSetRNNDescriptor_v8)         \
  F(cudnnSetStream)                   \
  F(cudnnSetTensorNdDescriptor)

struct Cudnn {
#define TF_RNN_OPS_DECLARE(name) decltype(&::name) name = nullptr;
  TF_RNN_OPS_CUDNN_FUNCTIONS(TF_RNN_OPS_DECLARE)
#undef TF_RNN_OPS_DECLARE

  // The file of the library.
  std::string path;

  // Returns the library of this machine. The first call opens it.
  static Status Get(const Cudnn** cudnn);
  // Returns a line with the version and file, or the error.
  static std::string Describe();

  // Opens a library by its name or path, such as libcudnn.so.9.
  static Status Open(const std::string& name, Cudnn* cudnn);

  // Converts a result to a status.
  // call: name of the function for the message.
  Status Check(cudnnStatus_t status, const char* call) const;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_H_
