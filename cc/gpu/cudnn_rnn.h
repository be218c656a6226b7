// A whole recurrent network over a sequence by cuDNN, forward and backward: the
// counterpart of the CPU's engine, on the same passes (cc/rnn/cudnn_rnn.h),
// whose arrays are on the GPU but for sequence_lengths. A pass's `workspace` is
// not looked at.
//
// A reserve space begins with the header that the CPU's has
// (cc/rnn/reserve_space.h). Then come the outputs of the layers below a mask of
// dropout, the last output where cuDNN computes in another type than the
// tensors', and what cuDNN keeps. Masks are drawn again from the header's
// random stream.

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
#include "cc/gpu/status.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::gpu {

// The first bytes of a reserve space.
using rnn::ReserveSpaceHeader;

// What a call of CudnnRnn runs with.
struct CudnnRnnCall : Call {
  // Whether products of float32 may be rounded to 10 bits.
  bool allow_tf32;
};

// For tests of the choices that are made.
struct CudnnRnnOptions {
  bool standard_algorithm_only = false;
  // Whether bfloat16 is computed in float32 on copies, whatever cuDNN has.
  bool widen_bfloat16 = false;
};

// Runs networks, and keeps what cuDNN knows of them. Several threads may use it
// at once.
template <typename T>
class CudnnRnn {
 public:
  CudnnRnn(const Cudnn& cudnn, CudnnHandlePool& handles,
           const CudnnRnnOptions& options = {})
      : cudnn_(cudnn), handles_(handles), options_(options) {}

  // Plans a pass: one for training, a backward one too, or one for inference.
  // key: its device and variant are not looked at. What it points to, and what
  //   `call` does, is there until the pass has been run.
  Status Plan(const CudnnRnnCall& call, const rnn::ReserveSpaceKey& key,
              bool is_training, CudnnRnnPlan* plan);

  // Run the pass that was planned. A plan serves one.
  Status Forward(const rnn::CudnnRnnForward<T>& pass, CudnnRnnPlan* plan);
  // input_backprop must not be null.
  // owns_reserve_space: whether the reserve space may be written to, so that it
  //   serves no other pass. Otherwise cuDNN is given a copy.
  Status Backward(const rnn::CudnnRnnBackward<T>& pass, CudnnRnnPlan* plan,
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
  // The methods to try, the fastest first. The last one is that which most
  // versions and GPUs have.
  Status FindMethods(const CudnnRnnCall& call, const CudnnRnnPlan& plan,
                     std::vector<CudnnRnnMethod>* methods) const;
  // Plans to compute by one method. Unimplemented if cuDNN has not that.
  Status PlanStacks(const CudnnRnnMethod& method, cudnnHandle_t handle,
                    CudnnRnnPlan* plan);
  // The layers' network for the call's stream, whose handle it is.
  Status FindNetwork(const Call& call, cudnnHandle_t handle,
                     const CudnnRnnLayers& layers, const CudnnRnnMethod& method,
                     const CudnnRnnNetwork** network);

  Status RunForward(const rnn::CudnnRnnForward<T>& pass, CudnnRnnPlan* plan);
  Status RunBackward(const rnn::CudnnRnnBackward<T>& pass, CudnnRnnPlan* plan,
                     bool owns_reserve_space);

  const Cudnn& cudnn_;
  CudnnHandlePool& handles_;
  const CudnnRnnOptions options_;
  std::mutex mutex_;  // of the map
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
