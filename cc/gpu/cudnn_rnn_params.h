// Where cuDNN keeps what our params buffer holds (cc/rnn/cudnn_rnn_params.h).
// The two should be the same. Where a version of cuDNN differs, buffers are
// converted.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/status.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// Layers of a network that cuDNN runs as a network of their own.
struct CudnnRnnLayers {
  rnn::RnnConfig network;
  std::int64_t first;
  std::int64_t count;

  rnn::RnnConfig config() const;
};

// What cuDNN says of a matrix or a bias.
struct CudnnRegion {
  std::size_t offset;  // in bytes
  std::int64_t size;   // in elements; 0 if there is none
};

class CudnnRnnParams {
 public:
  // Asks cuDNN for the place of every matrix and bias of the layers. Our buffer
  // is that of the whole network.
  // descriptor: of the layers, or of some whose first layer has inputs that
  //     ours has not: those are zero in cuDNN's buffer.
  // element_bytes: of the descriptor's data type.
  Status Ask(const Cudnn& cudnn, cudnnHandle_t handle,
             cudnnRNNDescriptor_t descriptor, const CudnnRnnLayers& layers,
             std::size_t element_bytes);

  // The size of cuDNN's buffer.
  std::size_t num_bytes() const { return num_bytes_; }

  // Whether a buffer is the same bytes for both.
  bool is_same() const;

  // Converts the layers' part of a buffer from ours to cuDNN's, and back.
  Status ToCudnn(const Call& call, const void* params, void* weights) const;
  Status FromCudnn(const Call& call, const void* weights, void* params) const;

 private:
  // Bytes that follow one another in both buffers.
  struct Block {
    std::size_t offset;  // in ours
    std::size_t cudnn_offset;
    std::size_t num_bytes;
  };

  // Adds a matrix or a bias. Refuses one that is of another size than ours or
  // not within cuDNN's buffer.
  Status Add(const char* what, std::int64_t index,
             const rnn::ParamsRegion& ours, const CudnnRegion& cudnns,
             std::size_t element_bytes);
  // Adds a block, or makes the last one longer.
  void Add(const Block& block);

  std::size_t num_bytes_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_PARAMS_H_
