// The plan of a pass of a network over sequences: cuDNN's descriptors, memory
// sizes, and the layout of the reserve space.
//
// Without dropout, one call of cuDNN runs all layers. With dropout, each layer
// is a separate call, because we apply the masks between them ourselves.

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
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// The layers of one cuDNN call, with the descriptors of their arrays.
class CudnnRnnStack {
 public:
  explicit CudnnRnnStack(const CudnnRnnNetwork& network) : network_(network) {}

  // Creates the descriptors, and queries cuDNN for its memory sizes.
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

// Created by CudnnRnn::Plan for one pass. Converts the tensors of the pass to
// cuDNN's layout and type.
class CudnnRnnPlan {
 public:
  CudnnRnnPlan() = default;
  CudnnRnnPlan(const CudnnRnnPlan&) = delete;
  CudnnRnnPlan& operator=(const CudnnRnnPlan&) = delete;

  // The key of the reserve space, including device and variant.
  const rnn::ReserveSpaceKey& key() const { return key_; }
  // The size of the reserve space of a training pass.
  std::size_t reserve_space_bytes() const;

  // The following functions are for CudnnRnn only.

  // type: type of the tensors.
  Status Init(const Call& call, DataType type, const rnn::ReserveSpaceKey& key,
              bool is_training);
  // Removes all stacks, and sets the method of the stacks to add.
  void BeginStacks(const CudnnRnnMethod& method);
  // Adds the next layers.
  Status AddStack(const Cudnn& cudnn, cudnnHandle_t handle,
                  const CudnnRnnNetwork& network);
  void set_variant(std::uint64_t variant) { key_.variant = variant; }

  const Call& call() const { return call_; }
  bool is_training() const { return is_training_; }
  // Whether all sequences have the maximum length.
  bool has_all_steps() const;
  // Whether there is anything to compute. If not, there are no stacks.
  bool has_steps() const;
  std::int64_t layers_per_stack() const;
  const std::deque<CudnnRnnStack>& stacks() const { return stacks_; }
  bool is_last(std::size_t stack) const { return stack + 1 == stacks_.size(); }
  // The maximum over all stacks.
  std::size_t workspace_bytes() const;

  CudnnRnnStaging& staging() { return *staging_; }
  StagedShape input_shape() const;
  StagedShape output_shape() const;
  StagedShape hidden_state_shape() const;
  StagedShape cell_state_shape() const;
  // The part of a staged state, [P, B, width], for a stack. Null if `states` is
  // null.
  const void* StateOf(std::size_t stack, const void* states,
                      std::int64_t width) const;
  void* StateOf(std::size_t stack, void* states, std::int64_t width) const;

  // The output of a stack in a reserve space, in cuDNN's layout and type, or
  // null if it is not kept. The last output is kept only if the op's output is
  // rounded from it: rounding would lose the gradients of saturated
  // activations.
  void* KeptOutput(void* reserve_space, std::size_t stack) const;
  // cuDNN's reserve space of a stack; null if `reserve_space` is null.
  void* CudnnPart(void* reserve_space, std::size_t stack) const;
  // Make the elements of a reserve space finite after the forward pass, and
  // restore them for a backward pass.
  Status Seal(void* reserve_space) const;
  Status Open(void* reserve_space) const;

  // Stages the input of the first layer; zeros if its size is 0.
  Status ReadInput(const void* input, const void** staged);
  // Returns the array for the output of the last stack, with zeros as padding.
  // kept: the result of KeptOutput.
  Status WriteOutput(void* output, void* kept, void** staged);
  // Returns the array for the gradient with respect to the input.
  Status WriteInputGradient(void* gradient, void** staged);
  // Allocates a staged array for the output of a layer.
  Status AllocateOutput(void** staged) const;
  // Sets an array to zero if it has padding, which cuDNN may not write.
  Status ZeroIfNotWritten(const StagedShape& shape, void* staged) const;

  // Applies dropout to the input of a stack above the first. Source and target
  // may be the same.
  Status Drop(std::size_t stack, const rnn::RandomStream& stream,
              const void* source, void* target) const;

  // Converts the params to cuDNN's type.
  Status ReadParams(const void* params, const void** staged) const;
  // Returns the params of a stack in cuDNN's layout.
  // staged: the result of ReadParams.
  Status ReadWeights(const CudnnRnnStack& stack, const void* staged,
                     const void** weights) const;
  // Returns the array for the gradient with respect to params, in cuDNN's type.
  Status WriteParamsGradient(void* gradient, void** staged);
  // Returns a zeroed array to which cuDNN adds the gradient with respect to the
  // weights of a stack.
  Status WriteWeightsGradient(const CudnnRnnStack& stack, void* staged,
                              void** weights) const;
  Status FinishWeightsGradient(const CudnnRnnStack& stack, const void* weights,
                               void* staged) const;

  // Converts all results to the tensors.
  Status Finish();

 private:
  std::int64_t params_size() const;
  std::size_t num_kept_outputs() const;
  // The offset of cuDNN's reserve space of a stack, and of what follows that of
  // the last one.
  std::size_t CudnnPartOffset(std::size_t stack) const;
  // The size of the parts after the header, in elements.
  std::int64_t parts_count() const;

  Call call_{};
  DataType type_{};  // of the tensors
  rnn::ReserveSpaceKey key_{};
  bool is_training_ = false;
  std::optional<CudnnRnnStaging> staging_;
  std::deque<CudnnRnnStack> stacks_;
  void* params_gradient_ = nullptr;               // the tensor
  const void* staged_params_gradient_ = nullptr;  // in cuDNN's type
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_PLAN_H_
