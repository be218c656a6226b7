// Converts the tensors of a pass to cuDNN's layout and type ("staged" tensors),
// and results back.
//
// Staged tensors differ if
//   - sequences have length 0, which cuDNN does not support: they are omitted;
//   - tensors are batch-major: cuDNN's states never are, its sequences may be;
//   - cuDNN computes in another type.
// Other tensors are not copied.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_STAGING_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/gpu/arrays.h"
#include "cc/gpu/call.h"
#include "cc/gpu/data_type.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// A tensor [steps, batch, width] if time-major, else [batch, steps, width].
struct StagedShape {
  std::int64_t steps;
  std::int64_t width;
  // Whether the steps are pseudo-layers, always the first dimension in cuDNN.
  bool is_state;
};

class CudnnRnnStaging {
 public:
  // type: type of the tensors.
  CudnnRnnStaging(const Call& call, DataType type, const rnn::RnnSize& size,
                  bool time_major);

  // sequence_lengths: [batch], or null if all sequences have the full length.
  Status Init(const std::int32_t* sequence_lengths);

  // The type in which cuDNN computes. Initially the type of the tensors.
  DataType cudnn_type() const { return cudnn_type_; }
  void set_cudnn_type(DataType type) { cudnn_type_ = type; }
  bool converts() const { return type_ != cudnn_type_; }

  // The lengths of the staged sequences, each at least 1.
  const std::int32_t* lengths() const { return lengths_.get(); }
  std::int64_t batch() const { return batch_; }
  bool time_major() const { return time_major_; }
  bool has_shorter_sequences() const { return has_shorter_sequences_; }

  // The size of a staged tensor in bytes.
  std::size_t NumBytes(const StagedShape& shape) const;

  // Stages an input.
  Status Read(const void* tensor, const StagedShape& shape,
              const void** staged);

  // Returns the staged array for a result. In the tensor, vectors of sequences
  // of length 0 are copied from `without_steps`, or zero if that is null.
  Status Write(void* tensor, const StagedShape& shape,
               const void* without_steps, void** staged);
  // The same, with a given staged array of size NumBytes.
  Status WriteThrough(void* staged, const StagedShape& shape, void* tensor,
                      const void* without_steps);

  // Converts all staged results to the tensors.
  Status Finish();

  // target = source ∘ mask. Source and target are staged and may be the same.
  // The mask is for the tensor: time-major, with all samples.
  Status Drop(const StagedShape& shape, const DropoutMask& mask,
              const void* source, void* target) const;

 private:
  // A range of samples in the tensors, and its position among staged samples.
  struct Run {
    std::int64_t first;
    std::int64_t staged_first;
    std::int64_t count;
  };
  struct Result {
    void* tensor;
    StagedShape shape;
    const void* staged;
  };

  bool leaves_out_samples() const { return batch() != size_.batch; }
  // Whether the staged tensor has another layout.
  bool Moves(const StagedShape& shape) const;
  // Of the staged tensor.
  std::int64_t NumElements(const StagedShape& shape) const;

  // Strides of steps and samples.
  RowStrides TensorStrides(const StagedShape& shape) const;
  RowStrides StagedStrides(const StagedShape& shape) const;

  // Copy the staged samples, in the type of the tensor.
  Status Gather(const void* tensor, const StagedShape& shape, void* staged);
  Status Scatter(const void* staged, const StagedShape& shape, void* tensor);
  Status FillWithoutSteps(void* tensor, const StagedShape& shape,
                          const void* without_steps);

  const Call& call_;
  const DataType type_;
  DataType cudnn_type_;
  const rnn::RnnSize size_;
  const bool time_major_;
  std::int64_t batch_ = 0;
  std::int64_t num_runs_ = 0;
  bool has_shorter_sequences_ = false;
  std::unique_ptr<std::int32_t[]> lengths_;  // [batch_]
  std::unique_ptr<Run[]> runs_;              // [num_runs_]
  std::vector<Result> results_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_STAGING_H_
