// Owning wrappers for cuDNN's descriptors.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_DESCRIPTOR_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_DESCRIPTOR_H_

#include <utility>

#include "cc/gpu/cudnn.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// D: cuDNN's descriptor type. create, destroy: its functions.
template <typename D, cudnnStatus_t (*Cudnn::*create)(D*),
          cudnnStatus_t (*Cudnn::*destroy)(D)>
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  ~CudnnDescriptor() {
    if (descriptor_ != nullptr) (cudnn_->*destroy)(descriptor_);
  }

  // Must be called once. call: name of the create function, for errors.
  Status Create(const Cudnn& cudnn, const char* call) {
    cudnn_ = &cudnn;
    return cudnn.Check((cudnn.*create)(&descriptor_), call);
  }

  D get() const { return descriptor_; }

 private:
  const Cudnn* cudnn_ = nullptr;
  D descriptor_ = nullptr;
};

using CudnnTensorDescriptor =
    CudnnDescriptor<cudnnTensorDescriptor_t,
                    &Cudnn::cudnnCreateTensorDescriptor,
                    &Cudnn::cudnnDestroyTensorDescriptor>;
using CudnnRnnDescriptor =
    CudnnDescriptor<cudnnRNNDescriptor_t, &Cudnn::cudnnCreateRNNDescriptor,
                    &Cudnn::cudnnDestroyRNNDescriptor>;
using CudnnRnnDataDescriptor =
    CudnnDescriptor<cudnnRNNDataDescriptor_t,
                    &Cudnn::cudnnCreateRNNDataDescriptor,
                    &Cudnn::cudnnDestroyRNNDataDescriptor>;

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_DESCRIPTOR_H_
