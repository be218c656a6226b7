#include "cc/gpu/cudnn_rnn_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "cc/gpu/arrays.h"
#include "cc/gpu/dropout_device.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

// Offset of the data after the header in a reserve space.
constexpr std::size_t kPartsOffset = 256;
static_assert(kPartsOffset >= rnn::kReserveSpaceHeaderBytes);

// Rounds a size up to the alignment of cuDNN's memory.
std::size_t Aligned(std::size_t num_bytes) {
  constexpr std::size_t kAlignment = 256;
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Rejects sizes that overflow cuDNN's types.
Status CheckCounts(std::initializer_list<std::int64_t> counts) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (std::max(counts) <= kLargest) return Status();
  return Status(StatusCode::kUnimplemented,
                "cuDNN supports time, batch and vector sizes up to " +
                    std::to_string(kLargest));
}

// Rejects more time steps than cuDNN supports.
Status CheckTime(std::int64_t time) {
  constexpr std::int64_t kMaxSteps = 65535;
  if (time <= kMaxSteps) return Status();
  return Status(StatusCode::kUnimplemented,
                "time must be at most " + std::to_string(kMaxSteps) +
                    " on a GPU, the limit of cuDNN, but is " +
                    std::to_string(time));
}

Status DescribeSequences(const Cudnn& cudnn, const CudnnRnnStaging& staging,
                         std::int64_t time, std::int64_t width,
                         CudnnRnnDataDescriptor* descriptor) {
  TF_RNN_OPS_RETURN_IF_ERROR(CheckCounts({time, width}));
  TF_RNN_OPS_RETURN_IF_ERROR(
      descriptor->Create(cudnn, "cudnnCreateRNNDataDescriptor"));
  double zero = 0;  // the same bits in every type
  return cudnn.Check(
      cudnn.cudnnSetRNNDataDescriptor(
          descriptor->get(), CudnnType(staging.cudnn_type()),
          staging.time_major() ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
                               : CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
          static_cast<std::int32_t>(time),
          static_cast<std::int32_t>(staging.batch()),
          static_cast<std::int32_t>(width), staging.lengths(), &zero),
      "cudnnSetRNNDataDescriptor");
}

Status DescribeState(const Cudnn& cudnn, const CudnnRnnStaging& staging,
                     std::int64_t num_pseudo_layers, std::int64_t num_units,
                     CudnnTensorDescriptor* descriptor) {
  TF_RNN_OPS_RETURN_IF_ERROR(CheckCounts({num_pseudo_layers, num_units}));
  TF_RNN_OPS_RETURN_IF_ERROR(
      descriptor->Create(cudnn, "cudnnCreateTensorDescriptor"));
  const auto steps = static_cast<std::int32_t>(num_pseudo_layers);
  const auto batch = static_cast<std::int32_t>(staging.batch());
  const auto width = static_cast<std::int32_t>(num_units);
  const std::int64_t step_stride = std::int64_t{batch} * width;
  if (step_stride > std::numeric_limits<std::int32_t>::max()) {
    return Status(StatusCode::kUnimplemented,
                  "cuDNN supports at most 2147483647 elements in the state of "
                  "a layer");
  }
  const int dims[3] = {steps, batch, width};
  const int strides[3] = {static_cast<int>(step_stride), width, 1};
  return cudnn.Check(
      cudnn.cudnnSetTensorNdDescriptor(
          descriptor->get(), CudnnType(staging.cudnn_type()), 3, dims, strides),
      "cudnnSetTensorNdDescriptor");
}

}  // namespace

// -------------------------------------------------------------------- a stack

Status CudnnRnnStack::Init(const Cudnn& cudnn, cudnnHandle_t handle,
                           std::int64_t time, const CudnnRnnStaging& staging,
                           cudnnForwardMode_t mode) {
  const rnn::RnnConfig& config = network_.config();
  TF_RNN_OPS_RETURN_IF_ERROR(
      DescribeSequences(cudnn, staging, time, network_.input_size(), &input_));
  TF_RNN_OPS_RETURN_IF_ERROR(DescribeSequences(
      cudnn, staging, time, config.num_directions * config.output_size(),
      &output_));
  TF_RNN_OPS_RETURN_IF_ERROR(
      DescribeState(cudnn, staging, config.num_pseudo_layers(),
                    config.output_size(), &hidden_state_));
  TF_RNN_OPS_RETURN_IF_ERROR(DescribeState(cudnn, staging,
                                           config.num_pseudo_layers(),
                                           config.num_units, &cell_state_));
  return cudnn.Check(cudnn.cudnnGetRNNTempSpaceSizes(
                         handle, network_.descriptor(), mode, input_.get(),
                         &workspace_bytes_, &reserve_bytes_),
                     "cudnnGetRNNTempSpaceSizes");
}

// -------------------------------------------------------------------- the plan

Status CudnnRnnPlan::Init(const Call& call, DataType type,
                          const rnn::ReserveSpaceKey& key, bool is_training) {
  call_ = call;
  type_ = type;
  key_ = key;
  key_.device = rnn::Device::kGpu;
  key_.variant = 0;
  is_training_ = is_training;
  if (!has_steps()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(CheckTime(key.size.time));
  TF_RNN_OPS_RETURN_IF_ERROR(CheckCounts({key.size.batch}));
  staging_.emplace(call_, type, key.size, key.time_major);
  return staging_->Init(key.sequence_lengths);
}

void CudnnRnnPlan::BeginStacks(const CudnnRnnMethod& method) {
  stacks_.clear();
  staging_->set_cudnn_type(method.type);
}

Status CudnnRnnPlan::AddStack(const Cudnn& cudnn, cudnnHandle_t handle,
                              const CudnnRnnNetwork& network) {
  return stacks_.emplace_back(network).Init(
      cudnn, handle, key_.size.time, *staging_,
      is_training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE);
}

bool CudnnRnnPlan::has_all_steps() const {
  return staging_->batch() == key_.size.batch &&
         !staging_->has_shorter_sequences();
}

bool CudnnRnnPlan::has_steps() const {
  const rnn::RnnSize& size = key_.size;
  if (size.time == 0 || size.batch == 0 || key_.config.num_units == 0) {
    return false;
  }
  const std::int32_t* const lengths = key_.sequence_lengths;
  return lengths == nullptr ||
         std::any_of(lengths, lengths + size.batch,
                     [](std::int32_t length) { return length > 0; });
}

std::int64_t CudnnRnnPlan::layers_per_stack() const {
  return is_training_ && key_.dropout > 0 ? 1 : key_.config.num_layers;
}

std::size_t CudnnRnnPlan::workspace_bytes() const {
  std::size_t most = 0;
  for (const CudnnRnnStack& stack : stacks_) {
    most = std::max(most, stack.workspace_bytes());
  }
  return most;
}

StagedShape CudnnRnnPlan::input_shape() const {
  return {key_.size.time, stacks_.front().network().input_size(),
          /*is_state=*/false};
}

StagedShape CudnnRnnPlan::output_shape() const {
  const rnn::RnnConfig& config = key_.config;
  return {key_.size.time, config.num_directions * config.output_size(),
          /*is_state=*/false};
}

StagedShape CudnnRnnPlan::hidden_state_shape() const {
  return {key_.config.num_pseudo_layers(), key_.config.output_size(),
          /*is_state=*/true};
}

StagedShape CudnnRnnPlan::cell_state_shape() const {
  return {key_.config.num_pseudo_layers(), key_.config.num_units,
          /*is_state=*/true};
}

void* CudnnRnnPlan::StateOf(std::size_t stack, void* states,
                            std::int64_t width) const {
  if (states == nullptr) return nullptr;
  const StagedShape below = {static_cast<std::int64_t>(stack) *
                                 layers_per_stack() *
                                 key_.config.num_directions,
                             width, /*is_state=*/true};
  return static_cast<char*>(states) + staging_->NumBytes(below);
}

const void* CudnnRnnPlan::StateOf(std::size_t stack, const void* states,
                                  std::int64_t width) const {
  return StateOf(stack, const_cast<void*>(states), width);
}

// --------------------------------------------------------- the reserve space

// The header, the kept outputs, cuDNN's reserve space of each stack, and the
// marks of elements that were not finite.

std::size_t CudnnRnnPlan::reserve_space_bytes() const {
  if (stacks_.empty()) return kPartsOffset;
  return CudnnPartOffset(stacks_.size()) +
         NumMarks(type_, parts_count()) * SizeOf(type_);
}

std::int64_t CudnnRnnPlan::parts_count() const {
  return static_cast<std::int64_t>(
      (CudnnPartOffset(stacks_.size()) - kPartsOffset) / SizeOf(type_));
}

Status CudnnRnnPlan::Seal(void* reserve_space) const {
  char* const bytes = static_cast<char*>(reserve_space);
  return MarkNonFinite(call_, type_, parts_count(), bytes + kPartsOffset,
                       bytes + CudnnPartOffset(stacks_.size()));
}

Status CudnnRnnPlan::Open(void* reserve_space) const {
  char* const bytes = static_cast<char*>(reserve_space);
  return RestoreMarked(call_, type_, parts_count(),
                       bytes + CudnnPartOffset(stacks_.size()),
                       bytes + kPartsOffset);
}

std::size_t CudnnRnnPlan::num_kept_outputs() const {
  return stacks_.size() - (staging_->converts() ? 0 : 1);
}

std::size_t CudnnRnnPlan::CudnnPartOffset(std::size_t stack) const {
  std::size_t offset =
      kPartsOffset +
      num_kept_outputs() * Aligned(staging_->NumBytes(output_shape()));
  for (std::size_t i = 0; i < stack; ++i) {
    offset += Aligned(stacks_[i].reserve_bytes());
  }
  return offset;
}

void* CudnnRnnPlan::KeptOutput(void* reserve_space, std::size_t stack) const {
  if (reserve_space == nullptr || stack >= num_kept_outputs()) return nullptr;
  return static_cast<char*>(reserve_space) + kPartsOffset +
         stack * Aligned(staging_->NumBytes(output_shape()));
}

void* CudnnRnnPlan::CudnnPart(void* reserve_space, std::size_t stack) const {
  if (reserve_space == nullptr) return nullptr;
  return static_cast<char*>(reserve_space) + CudnnPartOffset(stack);
}

// ------------------------------------------------------ sequences and dropout

Status CudnnRnnPlan::ReadInput(const void* input, const void** staged) {
  if (key_.config.input_size > 0) {
    return staging_->Read(input, input_shape(), staged);
  }
  const std::size_t num_bytes = staging_->NumBytes(input_shape());
  void* zeros;
  TF_RNN_OPS_RETURN_IF_ERROR(call_.scratch->Allocate(num_bytes, &zeros));
  *staged = zeros;
  return ZeroBytes(call_, num_bytes, zeros);
}

Status CudnnRnnPlan::WriteOutput(void* output, void* kept, void** staged) {
  *staged = kept;
  return kept == nullptr
             ? staging_->Write(output, output_shape(), nullptr, staged)
             : staging_->WriteThrough(kept, output_shape(), output, nullptr);
}

Status CudnnRnnPlan::WriteInputGradient(void* gradient, void** staged) {
  if (key_.config.input_size == 0) {
    return call_.scratch->Allocate(staging_->NumBytes(input_shape()), staged);
  }
  return staging_->Write(gradient, input_shape(), nullptr, staged);
}

Status CudnnRnnPlan::AllocateOutput(void** staged) const {
  return call_.scratch->Allocate(staging_->NumBytes(output_shape()), staged);
}

Status CudnnRnnPlan::ZeroIfNotWritten(const StagedShape& shape,
                                      void* staged) const {
  return staging_->has_shorter_sequences()
             ? ZeroBytes(call_, staging_->NumBytes(shape), staged)
             : Status();
}

Status CudnnRnnPlan::Drop(std::size_t stack, const rnn::RandomStream& stream,
                          const void* source, void* target) const {
  const std::int64_t first_counter =
      (static_cast<std::int64_t>(stack) - 1) *
      rnn::NumLayerDropoutSamples(key_.config, key_.size);
  return staging_->Drop(output_shape(),
                        MakeDropoutMask(key_.dropout, stream, first_counter),
                        source, target);
}

// ---------------------------------------------------------------------- params

std::int64_t CudnnRnnPlan::params_size() const {
  return rnn::CudnnRnnParamsSize(key_.config);
}

Status CudnnRnnPlan::ReadParams(const void* params, const void** staged) const {
  *staged = params;
  if (!staging_->converts()) return Status();
  void* widened;
  TF_RNN_OPS_RETURN_IF_ERROR(
      call_.scratch->Allocate(params_size() * sizeof(float), &widened));
  *staged = widened;
  return WidenBFloat16(call_, params_size(), params,
                       static_cast<float*>(widened));
}

Status CudnnRnnPlan::ReadWeights(const CudnnRnnStack& stack, const void* staged,
                                 const void** weights) const {
  const CudnnRnnParams& params = stack.network().params();
  *weights = staged;
  if (params.is_same()) return Status();
  void* converted;
  TF_RNN_OPS_RETURN_IF_ERROR(
      call_.scratch->Allocate(params.num_bytes(), &converted));
  *weights = converted;
  return params.ToCudnn(call_, staged, converted);
}

Status CudnnRnnPlan::WriteParamsGradient(void* gradient, void** staged) {
  params_gradient_ = gradient;
  *staged = gradient;
  if (staging_->converts()) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        call_.scratch->Allocate(params_size() * sizeof(float), staged));
  }
  staged_params_gradient_ = *staged;
  return Status();
}

Status CudnnRnnPlan::WriteWeightsGradient(const CudnnRnnStack& stack,
                                          void* staged, void** weights) const {
  const CudnnRnnParams& params = stack.network().params();
  *weights = staged;
  if (!params.is_same()) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        call_.scratch->Allocate(params.num_bytes(), weights));
  }
  return ZeroBytes(call_, params.num_bytes(), *weights);
}

Status CudnnRnnPlan::FinishWeightsGradient(const CudnnRnnStack& stack,
                                           const void* weights,
                                           void* staged) const {
  if (weights == staged) return Status();
  return stack.network().params().FromCudnn(call_, weights, staged);
}

Status CudnnRnnPlan::Finish() {
  TF_RNN_OPS_RETURN_IF_ERROR(staging_->Finish());
  if (staged_params_gradient_ == params_gradient_) return Status();
  return RoundToBFloat16(call_, params_size(),
                         static_cast<const float*>(staged_params_gradient_),
                         params_gradient_);
}

}  // namespace tf_rnn_ops::gpu
