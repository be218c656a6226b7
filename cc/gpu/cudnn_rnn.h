// Runs a recurrent network over a sequence with cuDNN, forward and backward:
// the counterpart of the CPU engine. Takes the same passes
// (cc/rnn/network.h), with all arrays except sequence_lengths on the GPU.
// Requires weights in cuDNN's layout and all states. Ignores `workspace`.
//
// Layout of a reserve space:
//   - the header, as on the CPU (cc/rnn/reserve_space.h);
//   - the outputs of the layers before dropout;
//   - the last output, if cuDNN computes in another type than that of the
//     tensors;
//   - cuDNN's own reserve spaces;
//   - marks of the elements of all of these that would be NaN or infinite as
//     numbers of the type of the tensors, and were made finite.
// The backward pass recomputes dropout masks from the random stream in the
// header.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn_network.h"
#include "cc/gpu/cudnn_rnn_plan.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The first bytes of a reserve space.
using rnn::ReserveSpaceHeader;

// The context of a call of CudnnRnn.
struct CudnnRnnCall : Call {
  // Whether float32 operands may be rounded to 10 bits.
  bool allow_tf32;
};

// Runs networks, and caches their cuDNN descriptors. Thread-safe.
template <typename T>
class CudnnRnn {
 public:
  // is_standard_only: as with TF_RNN_OPS_CUDNN_ALGORITHM=standard; for tests.
  CudnnRnn(const Cudnn& cudnn, CudnnHandlePool& handles,
           bool is_standard_only = false)
      : cudnn_(cudnn), handles_(handles), is_standard_only_(is_standard_only) {}

  // Plans a pass.
  // key: device and variant are ignored. Data referenced by `key` and `call`
  //   must remain valid until the pass has been run.
  // is_training: true for backward passes, too.
  Status Plan(const CudnnRnnCall& call, const rnn::ReserveSpaceKey& key,
              bool is_training, CudnnRnnPlan* plan);

  // Run the planned pass. A plan can be used once.
  Status Forward(const rnn::NetworkForward<T>& pass, CudnnRnnPlan* plan);
  // input_backprop must not be null.
  // owns_reserve_space: whether the pass may overwrite the reserve space, which
  //   is then invalid for further passes. Otherwise it uses a copy.
  Status Backward(const rnn::NetworkBackward<T>& pass, CudnnRnnPlan* plan,
                  bool owns_reserve_space = false);

 private:
  using NetworkKey =
      std::tuple<CUcontext, CUstream, DataType, cudnnRNNAlgo_t,
                 bool /*allow_tf32*/, std::int64_t /*first layer*/,
                 std::int64_t /*layers*/, rnn::RnnMode, bool /*skip_input*/,
                 std::int64_t /*num_directions*/, std::int64_t /*num_layers*/,
                 std::int64_t /*input_size*/, std::int64_t /*num_units*/,
                 std::int64_t /*num_proj*/>;

  Status PlanStacks(const CudnnRnnCall& call, CudnnRnnPlan* plan);
  // Returns the methods to try, in order of decreasing speed and increasing
  // support by cuDNN versions and GPUs.
  Status FindMethods(const CudnnRnnCall& call, const CudnnRnnPlan& plan,
                     std::vector<CudnnRnnMethod>* methods) const;
  // Plans a pass with one method. kUnimplemented if cuDNN does not support it.
  Status PlanStacks(const CudnnRnnMethod& method, cudnnHandle_t handle,
                    CudnnRnnPlan* plan);
  // Finds or creates the network of the layers for the call's stream.
  // handle: handle of the stream.
  Status FindNetwork(const Call& call, cudnnHandle_t handle,
                     const CudnnRnnLayers& layers, const CudnnRnnMethod& method,
                     const CudnnRnnNetwork** network);

  Status RunForward(const rnn::NetworkForward<T>& pass, CudnnRnnPlan* plan);
  Status RunBackward(const rnn::NetworkBackward<T>& pass, CudnnRnnPlan* plan,
                     bool owns_reserve_space);

  const Cudnn& cudnn_;
  CudnnHandlePool& handles_;
  const bool is_standard_only_;
  std::mutex mutex_;  // for networks_
  std::map<NetworkKey, std::unique_ptr<CudnnRnnNetwork>> networks_;
};

// Write and read the header of a reserve space in GPU memory. Reading
// synchronizes the stream.
Status WriteReserveSpaceHeader(const Call& call,
                               const ReserveSpaceHeader& header,
                               void* reserve_space);
Status ReadReserveSpaceHeader(const Call& call, const void* reserve_space,
                              ReserveSpaceHeader* header);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_H_
