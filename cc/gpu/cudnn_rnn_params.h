// Converts between our params buffer (cc/rnn/cudnn_rnn_params.h) and cuDNN's.
// The layouts should be the same, but a version of cuDNN may differ.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// A range of layers that cuDNN runs as a separate network.
struct CudnnRnnLayers {
  rnn::RnnConfig network;
  std::int64_t first;
  std::int64_t count;

  rnn::RnnConfig config() const;
};

// The location of a matrix or bias according to cuDNN.
struct CudnnRegion {
  std::size_t offset;  // in bytes
  std::int64_t size;   // in elements; 0 if it does not exist
};

class CudnnRnnParams {
 public:
  // Queries cuDNN for the locations of all matrices and biases of the layers.
  // Our buffer is for the whole network.
  // descriptor: of the layers. Its first layer may have more inputs than ours:
  //     their weights are zero in cuDNN's buffer.
  // element_bytes: element size of the descriptor's data type.
  Status Query(const Cudnn& cudnn, cudnnHandle_t handle,
               cudnnRNNDescriptor_t descriptor, const CudnnRnnLayers& layers,
               std::size_t element_bytes);

  // The size of cuDNN's buffer.
  std::size_t num_bytes() const { return num_bytes_; }

  // Whether the two layouts are the same.
  bool is_same() const;

  // Convert the layers' part of our buffer to cuDNN's buffer, and back.
  Status ToCudnn(const Call& call, const void* params, void* weights) const;
  Status FromCudnn(const Call& call, const void* weights, void* params) const;

 private:
  // A range of bytes that is contiguous in both buffers.
  struct Block {
    std::size_t offset;  // in ours
    std::size_t cudnn_offset;
    std::size_t num_bytes;
  };

  // Adds a matrix or a bias. Fails if its size differs from ours, or if it is
  // outside of cuDNN's buffer.
  Status Add(const char* what, std::int64_t index,
             const rnn::ParamsRegion& ours, const CudnnRegion& cudnns,
             std::size_t element_bytes);
  // Adds a block, or extends the last one.
  void Add(const Block& block);

  std::size_t num_bytes_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_
