#include "cc/gpu/cudnn_rnn_pass.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "cc/gpu/arrays.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

// Refuses what cuDNN cannot count.
Status CheckCounts(std::initializer_list<std::int64_t> counts) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (std::max(counts) <= kLargest) return Status();
  return Status(StatusCode::kUnimplemented,
                "cuDNN counts steps, samples and sizes of vectors up to " +
                    std::to_string(kLargest));
}

// Refuses more steps than cuDNN takes.
Status CheckTime(std::int64_t time) {
  constexpr std::int64_t kMostSteps = 65535;
  if (time <= kMostSteps) return Status();
  return Status(StatusCode::kUnimplemented,
                "time must be at most " + std::to_string(kMostSteps) +
                    " on a GPU, where cuDNN takes no more steps, but is " +
                    std::to_string(time));
}

}  // namespace

bool HasNoSteps(const rnn::RnnConfig& config, const SequenceBatch& sequences) {
  const rnn::RnnSize& size = sequences.size;
  if (size.time == 0 || size.batch == 0 || config.num_units == 0) return true;
  return sequences.lengths != nullptr &&
         std::all_of(sequences.lengths, sequences.lengths + size.batch,
                     [](std::int32_t length) { return length == 0; });
}

CudnnRnnPass::CudnnRnnPass(const Call& call, const Cudnn& cudnn,
                           cudnnHandle_t handle, const rnn::RnnConfig& config,
                           const CudnnRnnNetwork& network,
                           const SequenceBatch& sequences, DataType type)
    : call_(call),
      cudnn_(cudnn),
      handle_(handle),
      config_(config),
      network_(network),
      sequences_(sequences),
      type_(type),
      staging_(call, type, network.type(), sequences.size,
               sequences.time_major) {}

Status CudnnRnnPass::Init(cudnnForwardMode_t mode) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckTime(sequences_.size.time));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCounts({sequences_.size.batch}));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging_.Init(sequences_.lengths));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(DescribeSequences(input_shape(), &input_));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(DescribeSequences(output_shape(), &output_));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      DescribeState(hidden_state_shape(), &hidden_state_));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      DescribeState(cell_state_shape(), &cell_state_));
  return cudnn_.Check(cudnn_.cudnnGetRNNTempSpaceSizes(
                          handle_, network_.descriptor(), mode, input_.get(),
                          &workspace_bytes_, &reserve_bytes_),
                      "cudnnGetRNNTempSpaceSizes");
}

StagedShape CudnnRnnPass::input_shape() const {
  return {sequences_.size.time, network_.input_size(), /*is_state=*/false};
}

StagedShape CudnnRnnPass::output_shape() const {
  return {sequences_.size.time, config_.num_directions * config_.output_size(),
          /*is_state=*/false};
}

StagedShape CudnnRnnPass::hidden_state_shape() const {
  return {config_.num_pseudo_layers(), config_.output_size(),
          /*is_state=*/true};
}

StagedShape CudnnRnnPass::cell_state_shape() const {
  return {config_.num_pseudo_layers(), config_.num_units, /*is_state=*/true};
}

Status CudnnRnnPass::DescribeSequences(
    const StagedShape& shape, CudnnRnnDataDescriptor* descriptor) const {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCounts({shape.steps, shape.width}));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      descriptor->Create(cudnn_, "cudnnCreateRNNDataDescriptor"));
  double zero = 0;  // the same bits in every type
  return cudnn_.Check(
      cudnn_.cudnnSetRNNDataDescriptor(
          descriptor->get(), CudnnType(network_.type()),
          sequences_.time_major ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
                                : CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
          static_cast<std::int32_t>(shape.steps),
          static_cast<std::int32_t>(staging_.batch()),
          static_cast<std::int32_t>(shape.width), staging_.lengths(), &zero),
      "cudnnSetRNNDataDescriptor");
}

Status CudnnRnnPass::DescribeState(const StagedShape& shape,
                                   CudnnTensorDescriptor* descriptor) const {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCounts({shape.steps, shape.width}));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      descriptor->Create(cudnn_, "cudnnCreateTensorDescriptor"));
  const auto steps = static_cast<std::int32_t>(shape.steps);
  const auto batch = static_cast<std::int32_t>(staging_.batch());
  const auto width = static_cast<std::int32_t>(shape.width);
  const std::int64_t step_stride = std::int64_t{batch} * width;
  if (step_stride > std::numeric_limits<std::int32_t>::max()) {
    return Status(StatusCode::kUnimplemented,
                  "cuDNN has no states of more than 2147483647 elements in a "
                  "layer");
  }
  const int dims[3] = {steps, batch, width};
  const int strides[3] = {static_cast<int>(step_stride), width, 1};
  return cudnn_.Check(
      cudnn_.cudnnSetTensorNdDescriptor(
          descriptor->get(), CudnnType(network_.type()), 3, dims, strides),
      "cudnnSetTensorNdDescriptor");
}

Status CudnnRnnPass::ReadInput(const void* input, const void** staged) {
  if (config_.input_size > 0) {
    return staging_.Read(input, input_shape(), staged);
  }
  const std::size_t num_bytes = staging_.NumBytes(input_shape());
  void* zeros;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(call_.scratch->Allocate(num_bytes, &zeros));
  *staged = zeros;
  return ZeroBytes(call_, num_bytes, zeros);
}

std::size_t CudnnRnnPass::kept_output_bytes() const {
  return converts_type() ? staging_.NumBytes(output_shape()) : 0;
}

Status CudnnRnnPass::WriteOutput(void* output, void* kept, void** staged) {
  *staged = kept;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      kept == nullptr
          ? staging_.Write(output, output_shape(), nullptr, staged)
          : staging_.WriteThrough(kept, output_shape(), output, nullptr));
  return ZeroIfNotWritten(output_shape(), *staged);
}

Status CudnnRnnPass::WriteInputGradient(void* gradient, void** staged) {
  if (config_.input_size == 0) {
    return call_.scratch->Allocate(staging_.NumBytes(input_shape()), staged);
  }
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      staging_.Write(gradient, input_shape(), nullptr, staged));
  return ZeroIfNotWritten(input_shape(), *staged);
}

Status CudnnRnnPass::ZeroIfNotWritten(const StagedShape& shape,
                                      void* staged) const {
  return staging_.has_shorter_sequences()
             ? ZeroBytes(call_, staging_.NumBytes(shape), staged)
             : Status();
}

bool CudnnRnnPass::converts_params() const {
  return !network_.params().is_same();
}

std::int64_t CudnnRnnPass::params_size() const {
  return rnn::CudnnRnnParamsSize(config_);
}

Status CudnnRnnPass::ReadParams(const void* params, const void** weights) {
  *weights = params;
  if (converts_type()) {
    void* widened;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        call_.scratch->Allocate(params_size() * sizeof(float), &widened));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(WidenBFloat16(call_, params_size(), params,
                                                 static_cast<float*>(widened)));
    *weights = widened;
  }
  if (!converts_params()) return Status();
  void* converted;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      call_.scratch->Allocate(network_.params().num_bytes(), &converted));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      network_.params().ToCudnn(call_, *weights, converted));
  *weights = converted;
  return Status();
}

Status CudnnRnnPass::WriteParamsGradient(void* gradient, void** weights) {
  params_gradient_ = gradient;
  *weights = gradient;
  if (converts_type() || converts_params()) {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        call_.scratch->Allocate(network_.params().num_bytes(), weights));
  }
  weights_gradient_ = *weights;
  return ZeroBytes(call_, network_.params().num_bytes(), *weights);
}

Status CudnnRnnPass::Finish() {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging_.Finish());
  return params_gradient_ == weights_gradient_ ? Status()
                                               : FinishParamsGradient();
}

Status CudnnRnnPass::FinishParamsGradient() {
  const void* gradient = weights_gradient_;
  if (converts_params()) {
    void* converted = params_gradient_;
    if (converts_type()) {
      TF_RNN_OPS_GPU_RETURN_IF_ERROR(
          call_.scratch->Allocate(params_size() * sizeof(float), &converted));
    }
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        network_.params().FromCudnn(call_, gradient, converted));
    gradient = converted;
  }
  if (!converts_type()) return Status();
  return RoundToBFloat16(call_, params_size(),
                         static_cast<const float*>(gradient), params_gradient_);
}

}  // namespace tf_rnn_ops::gpu
