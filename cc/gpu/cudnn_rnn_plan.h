// A pass of a network over sequences as it is planned: what cuDNN is told, how
// much memory it takes, and where in that memory everything is.
//
// Without dropout one call of cuDNN runs all layers. With dropout each layer is
// a call of its own, so that the masks between them are ours.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_PLAN_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_descriptor.h"
#include "cc/gpu/cudnn_rnn_network.h"
#include "cc/gpu/cudnn_rnn_staging.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/status.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// The layers of one call of cuDNN, with the descriptors of their arrays.
class CudnnRnnStack {
 public:
  explicit CudnnRnnStack(const CudnnRnnNetwork& network) : network_(network) {}

  // Makes the descriptors, and asks cuDNN for the sizes of its memory.
  Status Init(const Cudnn& cudnn, cudnnHandle_t handle, std::int64_t time,
              const CudnnRnnStaging& staging, cudnnForwardMode_t mode);

  const CudnnRnnNetwork& network() const { return network_; }
  cudnnRNNDataDescriptor_t input() const { return input_.get(); }
  cudnnRNNDataDescriptor_t output() const { return output_.get(); }
  cudnnTensorDescriptor_t hidden_state() const { return hidden_state_.get(); }
  cudnnTensorDescriptor_t cell_state() const { return cell_state_.get(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  std::size_t reserve_bytes() const { return reserve_bytes_; }

 private:
  const CudnnRnnNetwork& network_;
  CudnnRnnDataDescriptor input_, output_;
  CudnnTensorDescriptor hidden_state_, cell_state_;
  std::size_t workspace_bytes_ = 0;
  std::size_t reserve_bytes_ = 0;
};

// Made by CudnnRnn::Plan for one pass, whose tensors it then brings into
// cuDNN's form.
class CudnnRnnPlan {
 public:
  CudnnRnnPlan() = default;
  CudnnRnnPlan(const CudnnRnnPlan&) = delete;
  CudnnRnnPlan& operator=(const CudnnRnnPlan&) = delete;

  // What the reserve space is known by, its device and variant included.
  const rnn::ReserveSpaceKey& key() const { return key_; }
  // The size of the reserve space that a pass for training leaves, or one for
  // gradients reads.
  std::size_t reserve_space_bytes() const;

  // What cuDNN is told; the standard one where it is told nothing.
  cudnnRNNAlgo_t algorithm() const { return algorithm_; }

  // For CudnnRnn, which makes plans and runs them.

  // type: of the tensors.
  Status Init(const Call& call, DataType type, const rnn::ReserveSpaceKey& key,
              bool is_training);
  // Forgets the stacks, if any, for others that compute by a method.
  void BeginStacks(const CudnnRnnMethod& method);
  // Adds the layers above those that were added.
  Status AddStack(const Cudnn& cudnn, cudnnHandle_t handle,
                  const CudnnRnnNetwork& network);
  void set_variant(std::uint64_t variant) { key_.variant = variant; }

  const Call& call() const { return call_; }
  bool is_training() const { return is_training_; }
  // Whether cuDNN is given every sequence, with all steps.
  bool has_all_steps() const;
  // Whether there is something to compute. If not, there are no stacks.
  bool has_steps() const;
  std::int64_t layers_per_stack() const;
  const std::deque<CudnnRnnStack>& stacks() const { return stacks_; }
  bool is_last(std::size_t stack) const { return stack + 1 == stacks_.size(); }
  // The most that a stack takes.
  std::size_t workspace_bytes() const;
  std::size_t cudnn_reserve_bytes() const;

  CudnnRnnStaging& staging() { return *staging_; }
  StagedShape input_shape() const;
  StagedShape output_shape() const;
  StagedShape hidden_state_shape() const;
  StagedShape cell_state_shape() const;
  // The part of a staged state, [P, B, width], that a stack has. Null if there
  // is no state.
  const void* StateOf(std::size_t stack, const void* states,
                      std::int64_t width) const;
  void* StateOf(std::size_t stack, void* states, std::int64_t width) const;

  // In a reserve space, the output of a stack as cuDNN has it, or null if it is
  // not kept: the last one is that of the op, unless it is rounded to the
  // tensors' type, which loses gradients of what is saturated.
  void* KeptOutput(void* reserve_space, std::size_t stack) const;
  // What cuDNN keeps of a stack; null if there is no reserve space.
  void* CudnnPart(void* reserve_space, std::size_t stack) const;

  // The first layer's input in cuDNN's form: zeros if there is none.
  Status ReadInput(const void* input, const void** staged);
  // Where cuDNN is to put the output of the last stack, which is zero past a
  // sequence's end.
  // kept: what KeptOutput returns.
  Status WriteOutput(void* output, void* kept, void** staged);
  // Where it is to put the gradient with respect to the input.
  Status WriteInputGradient(void* gradient, void** staged);
  // Allocates an array of a layer's output in cuDNN's form.
  Status AllocateOutput(void** staged) const;
  // Sets an array of that shape to zero if cuDNN need not write all of it: past
  // the end of a sequence.
  Status ZeroIfNotWritten(const StagedShape& shape, void* staged) const;

  // Applies the mask of the input of a stack above the first. Source and target
  // may be the same.
  Status Drop(std::size_t stack, const rnn::RandomStream& stream,
              const void* source, void* target) const;

  // The params in the type that cuDNN computes in.
  Status ReadParams(const void* params, const void** staged) const;
  // Those of a stack as cuDNN has them.
  // staged: what ReadParams returns.
  Status ReadWeights(const CudnnRnnStack& stack, const void* staged,
                     const void** weights) const;
  // Where gradients with respect to params are to be put in cuDNN's type.
  Status WriteParamsGradient(void* gradient, void** staged);
  // Where cuDNN is to add the gradient with respect to the weights of a stack;
  // zeros.
  Status WriteWeightsGradient(const CudnnRnnStack& stack, void* staged,
                              void** weights) const;
  Status FinishWeightsGradient(const CudnnRnnStack& stack, const void* weights,
                               void* staged) const;

  // Brings what cuDNN has put there to the tensors.
  Status Finish();

 private:
  std::int64_t params_size() const;
  std::size_t num_kept_outputs() const;
  // Where what cuDNN keeps of a stack begins in the reserve space.
  std::size_t CudnnPartOffset(std::size_t stack) const;

  Call call_{};
  rnn::ReserveSpaceKey key_{};
  bool is_training_ = false;
  std::optional<CudnnRnnStaging> staging_;
  cudnnRNNAlgo_t algorithm_ = CUDNN_RNN_ALGO_STANDARD;
  std::deque<CudnnRnnStack> stacks_;
  void* params_gradient_ = nullptr;               // the tensor
  const void* staged_params_gradient_ = nullptr;  // in cuDNN's type
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_PLAN_H_
