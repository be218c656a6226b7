// A whole recurrent network over a sequence by cuDNN, forward and backward: the
// counterpart of the CPU's engine, on the same passes (cc/rnn/cudnn_rnn.h),
// whose arrays are on the GPU but for sequence_lengths. A pass's `stream` and
// `workspace` are not looked at.
//
// A reserve space begins with the header that the CPU's has
// (cc/rnn/reserve_space.h). Then come the output, where cuDNN computes in
// another type than the tensors', and what cuDNN keeps, the masks of dropout
// too.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_dropout.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn_network.h"
#include "cc/gpu/status.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::gpu {

// The first bytes of a reserve space.
using rnn::ReserveSpaceHeader;

// What a call of CudnnRnn runs with.
struct CudnnRnnCall : Call {
  LastingAllocator* lasting;
  // Whether products of float32 may be rounded to 10 bits.
  bool allow_tf32;
};

// What a network is for: a pass forward that leaves nothing, one that leaves a
// reserve space, or one backward.
enum class Purpose { kInference, kTraining, kGradients };

// Runs the networks of one kernel, and keeps what cuDNN knows of them. Several
// threads may use it at once.
template <typename T>
class CudnnRnn {
 public:
  // dropout: the probability, of every pass.
  // seed: of what the forward passes drop.
  CudnnRnn(const Cudnn& cudnn, CudnnHandlePool& handles, float dropout,
           std::uint64_t seed)
      : cudnn_(cudnn), handles_(handles), dropout_(dropout), seed_(seed) {}

  // The size of the reserve space that a pass for training leaves, or one for
  // gradients reads, in bytes. Completes the key: its device and variant.
  Status DescribeReserveSpace(const CudnnRnnCall& call, Purpose purpose,
                              rnn::ReserveSpaceKey* key,
                              std::size_t* num_bytes);

  Status Forward(const CudnnRnnCall& call, const rnn::CudnnRnnForward<T>& pass);

  // reserve_space is not written to. input_backprop must not be null.
  Status Backward(const CudnnRnnCall& call,
                  const rnn::CudnnRnnBackward<T>& pass);

 private:
  using StreamKey = std::tuple<CUcontext, CUstream>;
  using NetworkKey =
      std::tuple<StreamKey, Purpose, bool /*allow_tf32*/, rnn::RnnMode,
                 bool /*skip_input*/, std::int64_t /*num_directions*/,
                 std::int64_t /*num_layers*/, std::int64_t /*input_size*/,
                 std::int64_t /*num_units*/, std::int64_t /*num_proj*/>;

  Status FindReserveSpaceSize(const CudnnRnnCall& call, Purpose purpose,
                              rnn::ReserveSpaceKey* key,
                              std::size_t* num_bytes);
  Status RunForward(const CudnnRnnCall& call,
                    const rnn::CudnnRnnForward<T>& pass);
  Status RunBackward(const CudnnRnnCall& call,
                     const rnn::CudnnRnnBackward<T>& pass);

  // The network of that config for the call's stream, whose handle it is.
  Status FindNetwork(const CudnnRnnCall& call, cudnnHandle_t handle,
                     const rnn::RnnConfig& config, Purpose purpose,
                     const CudnnRnnNetwork** network);
  // What drops its inputs, or null.
  Status FindDropout(const CudnnRnnCall& call, cudnnHandle_t handle,
                     const StreamKey& stream, const rnn::RnnConfig& config,
                     Purpose purpose, cudnnDropoutDescriptor_t* dropout);

  const Cudnn& cudnn_;
  CudnnHandlePool& handles_;
  const float dropout_;
  const std::uint64_t seed_;
  std::mutex mutex_;  // of the maps
  std::map<std::tuple<StreamKey, Purpose>, std::unique_ptr<CudnnDropout>>
      dropouts_;
  // These know of the others, and go first.
  std::map<NetworkKey, std::unique_ptr<CudnnRnnNetwork>> networks_;
};

// The header of a reserve space in the GPU's memory, written and read. Reading
// waits for the stream.
Status WriteReserveSpaceHeader(const Call& call,
                               const ReserveSpaceHeader& header,
                               void* reserve_space);
Status ReadReserveSpaceHeader(const Call& call, const void* reserve_space,
                              ReserveSpaceHeader* header);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_
