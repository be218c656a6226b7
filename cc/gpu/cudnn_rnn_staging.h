// Brings a pass's tensors into the form that cuDNN takes, and its results back.
//
// cuDNN's differs from ours where
//   - sequences have no steps: cuDNN has no such sequences, so that it is given
//     the others alone;
//   - tensors are batch-major: cuDNN's states never are, its sequences may be;
//   - cuDNN computes in another type.
// A tensor that is the same in both forms is not copied.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_STAGING_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cc/gpu/arrays.h"
#include "cc/gpu/call.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/status.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// A tensor with a vector for each step, or pseudo-layer, and sample: [steps,
// batch, width] if time-major, [batch, steps, width] otherwise.
struct StagedShape {
  std::int64_t steps;
  std::int64_t width;
  // Whether the steps are pseudo-layers, which cuDNN has first.
  bool is_state;
};

class CudnnRnnStaging {
 public:
  // type: of the tensors.
  CudnnRnnStaging(const Call& call, DataType type, const rnn::RnnSize& size,
                  bool time_major);

  // sequence_lengths: [batch], or null where all have as many steps as there
  // are.
  Status Init(const std::int32_t* sequence_lengths);

  // What cuDNN computes in: at first the tensors' type.
  DataType cudnn_type() const { return cudnn_type_; }
  void set_cudnn_type(DataType type) { cudnn_type_ = type; }
  bool converts() const { return type_ != cudnn_type_; }

  // The lengths of the sequences that cuDNN is given, each at least 1.
  const std::int32_t* lengths() const { return lengths_.get(); }
  std::int64_t batch() const { return batch_; }
  bool time_major() const { return time_major_; }
  bool has_shorter_sequences() const { return has_shorter_sequences_; }

  // The bytes of a tensor in cuDNN's form.
  std::size_t NumBytes(const StagedShape& shape) const;

  // A tensor in cuDNN's form.
  Status Read(const void* tensor, const StagedShape& shape,
              const void** staged);

  // Where cuDNN is to put a tensor. The vectors of sequences without steps
  // become those of `without_steps`, or zero if that is null.
  Status Write(void* tensor, const StagedShape& shape,
               const void* without_steps, void** staged);
  // The same for a tensor that cuDNN is to put into `staged`, NumBytes large,
  // because it is needed there.
  Status WriteThrough(void* staged, const StagedShape& shape, void* tensor,
                      const void* without_steps);

  // Brings what cuDNN has put there to the tensors.
  Status Finish();

  // target = source ∘ mask, both staged, and the mask of the tensor: time-major
  // and of all samples. Source and target may be the same.
  Status Drop(const StagedShape& shape, const DropoutMask& mask,
              const void* source, void* target) const;

 private:
  // Samples that follow one another in the tensors, and their place among those
  // that cuDNN is given.
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
  // Whether a tensor's elements are in another order in cuDNN's form.
  bool Moves(const StagedShape& shape) const;
  // In cuDNN's form.
  std::int64_t NumElements(const StagedShape& shape) const;

  // The distances of steps and of samples.
  RowStrides TensorStrides(const StagedShape& shape) const;
  RowStrides StagedStrides(const StagedShape& shape) const;

  // Copies the samples that cuDNN is given, of a tensor's type.
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
