#include "cc/gpu/cudnn_rnn_staging.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

namespace tf_rnn_ops::gpu {
namespace {

// Returns the address of an element.
const void* At(const void* array, std::int64_t index, DataType type) {
  return static_cast<const char*>(array) +
         index * static_cast<std::int64_t>(SizeOf(type));
}
void* At(void* array, std::int64_t index, DataType type) {
  return static_cast<char*>(array) +
         index * static_cast<std::int64_t>(SizeOf(type));
}

// Allocates up to one element per sample.
template <typename T>
Status AllocateOnHost(std::int64_t size, std::unique_ptr<T[]>* array) {
  array->reset(new (std::nothrow) T[size]);
  if (*array != nullptr) return Status();
  return Status(StatusCode::kResourceExhausted,
                "cannot allocate " + std::to_string(size * sizeof(T)) +
                    " bytes of host memory for sequence lengths");
}

}  // namespace

CudnnRnnStaging::CudnnRnnStaging(const Call& call, DataType type,
                                 const rnn::RnnSize& size, bool time_major)
    : call_(call),
      type_(type),
      cudnn_type_(type),
      size_(size),
      time_major_(time_major) {}

Status CudnnRnnStaging::Init(const std::int32_t* sequence_lengths) {
  const auto time = static_cast<std::int32_t>(size_.time);
  const auto length_of = [&](std::int64_t i) {
    return sequence_lengths == nullptr ? time : sequence_lengths[i];
  };
  const auto begins_run = [&](std::int64_t i) {
    return length_of(i) > 0 && (i == 0 || length_of(i - 1) == 0);
  };
  std::int64_t num_runs = 0;
  for (std::int64_t i = 0; i < size_.batch; ++i) {
    batch_ += length_of(i) > 0;
    num_runs += begins_run(i);
  }
  TF_RNN_OPS_RETURN_IF_ERROR(AllocateOnHost(batch_, &lengths_));
  TF_RNN_OPS_RETURN_IF_ERROR(AllocateOnHost(num_runs, &runs_));
  std::int64_t staged = 0;
  for (std::int64_t i = 0; i < size_.batch; ++i) {
    const std::int32_t length = length_of(i);
    if (length == 0) continue;
    if (begins_run(i)) runs_[num_runs_++] = {i, staged, 0};
    ++runs_[num_runs_ - 1].count;
    lengths_[staged++] = length;
    has_shorter_sequences_ = has_shorter_sequences_ || length < time;
  }
  return Status();
}

std::size_t CudnnRnnStaging::NumBytes(const StagedShape& shape) const {
  return NumElements(shape) * SizeOf(cudnn_type_);
}

std::int64_t CudnnRnnStaging::NumElements(const StagedShape& shape) const {
  return shape.steps * batch() * shape.width;
}

bool CudnnRnnStaging::Moves(const StagedShape& shape) const {
  const bool transposes =
      shape.is_state && !time_major_ && shape.steps > 1 && size_.batch > 1;
  return leaves_out_samples() || transposes;
}

RowStrides CudnnRnnStaging::TensorStrides(const StagedShape& shape) const {
  if (time_major_) return {size_.batch * shape.width, shape.width};
  return {shape.width, shape.steps * shape.width};
}

RowStrides CudnnRnnStaging::StagedStrides(const StagedShape& shape) const {
  if (time_major_ || shape.is_state) {
    return {batch() * shape.width, shape.width};
  }
  return {shape.width, shape.steps * shape.width};
}

Status CudnnRnnStaging::Read(const void* tensor, const StagedShape& shape,
                             const void** staged) {
  *staged = tensor;
  if (Moves(shape)) {
    void* moved;
    TF_RNN_OPS_RETURN_IF_ERROR(
        call_.scratch->Allocate(NumElements(shape) * SizeOf(type_), &moved));
    TF_RNN_OPS_RETURN_IF_ERROR(Gather(tensor, shape, moved));
    *staged = moved;
  }
  if (!converts()) return Status();
  void* converted;
  TF_RNN_OPS_RETURN_IF_ERROR(
      call_.scratch->Allocate(NumBytes(shape), &converted));
  TF_RNN_OPS_RETURN_IF_ERROR(WidenBFloat16(call_, NumElements(shape), *staged,
                                           static_cast<float*>(converted)));
  *staged = converted;
  return Status();
}

Status CudnnRnnStaging::Write(void* tensor, const StagedShape& shape,
                              const void* without_steps, void** staged) {
  if (!Moves(shape) && !converts()) {
    *staged = tensor;
    return Status();
  }
  TF_RNN_OPS_RETURN_IF_ERROR(call_.scratch->Allocate(NumBytes(shape), staged));
  return WriteThrough(*staged, shape, tensor, without_steps);
}

Status CudnnRnnStaging::WriteThrough(void* staged, const StagedShape& shape,
                                     void* tensor, const void* without_steps) {
  results_.push_back({tensor, shape, staged});
  return leaves_out_samples() ? FillWithoutSteps(tensor, shape, without_steps)
                              : Status();
}

Status CudnnRnnStaging::FillWithoutSteps(void* tensor, const StagedShape& shape,
                                         const void* without_steps) {
  const std::size_t num_bytes =
      shape.steps * size_.batch * shape.width * SizeOf(type_);
  return without_steps == nullptr
             ? ZeroBytes(call_, num_bytes, tensor)
             : CopyBytes(call_, num_bytes, without_steps, tensor);
}

Status CudnnRnnStaging::Finish() {
  for (const Result& result : results_) {
    const void* staged = result.staged;
    const bool moves = Moves(result.shape);
    if (converts()) {
      const std::int64_t size = NumElements(result.shape);
      void* converted = result.tensor;
      if (moves) {
        TF_RNN_OPS_RETURN_IF_ERROR(
            call_.scratch->Allocate(size * SizeOf(type_), &converted));
      }
      TF_RNN_OPS_RETURN_IF_ERROR(RoundToBFloat16(
          call_, size, static_cast<const float*>(staged), converted));
      staged = converted;
    }
    if (moves) {
      TF_RNN_OPS_RETURN_IF_ERROR(Scatter(staged, result.shape, result.tensor));
    }
  }
  return Status();
}

Status CudnnRnnStaging::Drop(const StagedShape& shape, const DropoutMask& mask,
                             const void* source, void* target) const {
  const RowStrides strides = StagedStrides(shape);
  for (std::int64_t i = 0; i < num_runs_; ++i) {
    const Run& run = runs_[i];
    const MaskRows rows = {mask,
                           run.first * shape.width,
                           {size_.batch * shape.width, shape.width}};
    const std::int64_t first = run.staged_first * strides.inner;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ApplyDropout(call_, cudnn_type_, {shape.steps, run.count, shape.width},
                     rows, At(source, first, cudnn_type_), strides,
                     At(target, first, cudnn_type_)));
  }
  return Status();
}

Status CudnnRnnStaging::Gather(const void* tensor, const StagedShape& shape,
                               void* staged) {
  const RowStrides from = TensorStrides(shape);
  const RowStrides to = StagedStrides(shape);
  for (std::int64_t i = 0; i < num_runs_; ++i) {
    const Run& run = runs_[i];
    TF_RNN_OPS_RETURN_IF_ERROR(
        CopyRows(call_, type_, {shape.steps, run.count, shape.width},
                 At(tensor, run.first * from.inner, type_), from,
                 At(staged, run.staged_first * to.inner, type_), to));
  }
  return Status();
}

Status CudnnRnnStaging::Scatter(const void* staged, const StagedShape& shape,
                                void* tensor) {
  const RowStrides from = StagedStrides(shape);
  const RowStrides to = TensorStrides(shape);
  for (std::int64_t i = 0; i < num_runs_; ++i) {
    const Run& run = runs_[i];
    TF_RNN_OPS_RETURN_IF_ERROR(
        CopyRows(call_, type_, {shape.steps, run.count, shape.width},
                 At(staged, run.staged_first * from.inner, type_), from,
                 At(tensor, run.first * to.inner, type_), to));
  }
  return Status();
}

}  // namespace tf_rnn_ops::gpu
