#include "cc/gpu/cudnn_rnn_network.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace tf_rnn_ops::gpu {
namespace {

cudnnRNNMode_t CudnnMode(rnn::RnnMode mode) {
  switch (mode) {
    case rnn::RnnMode::kRelu:
      return CUDNN_RNN_RELU;
    case rnn::RnnMode::kTanh:
      return CUDNN_RNN_TANH;
    case rnn::RnnMode::kLstm:
      return CUDNN_LSTM;
    case rnn::RnnMode::kGru:
      return CUDNN_GRU;
  }
  return CUDNN_LSTM;
}

// The type of sums: 16-bit types are summed in float32.
cudnnDataType_t PrecisionOf(DataType type) {
  return type == DataType::kDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// Whether tensor cores may be used.
cudnnMathType_t MathOf(DataType type, bool allow_tf32) {
  switch (type) {
    case DataType::kHalf:
    case DataType::kBFloat16:
      return CUDNN_TENSOR_OP_MATH;
    case DataType::kFloat:
      // CUDNN_TENSOR_OP_MATH may round to 16 bits.
      return allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    case DataType::kDouble:
      return CUDNN_DEFAULT_MATH;
  }
  return CUDNN_DEFAULT_MATH;
}

// Refuses sizes that cuDNN cannot be told.
Status CheckSizes(const rnn::RnnConfig& config) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (std::max({config.num_layers, config.num_units, config.input_size}) <=
      kLargest) {
    return Status();
  }
  return Status(StatusCode::kUnimplemented,
                "cuDNN counts layers, units and inputs up to " +
                    std::to_string(kLargest));
}

}  // namespace

cudnnDataType_t CudnnType(DataType type) {
  switch (type) {
    case DataType::kHalf:
      return CUDNN_DATA_HALF;
    case DataType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DataType::kFloat:
      return CUDNN_DATA_FLOAT;
    case DataType::kDouble:
      return CUDNN_DATA_DOUBLE;
  }
  return CUDNN_DATA_FLOAT;
}

Status CudnnRnnNetwork::Init(const Cudnn& cudnn, cudnnHandle_t handle,
                             const rnn::RnnConfig& config, DataType type,
                             cudnnDropoutDescriptor_t dropout,
                             bool allow_tf32) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckSizes(config));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      descriptor_.Create(cudnn, "cudnnCreateRNNDescriptor"));
  // A layer without inputs is to cuDNN one whose only input is zero.
  input_size_ = std::max<std::int64_t>(config.input_size, 1);
  type_ = type;
  Status status = Describe(cudnn, config, dropout, allow_tf32);
  if (type == DataType::kBFloat16) {
    if (status.ok()) status = TryType(cudnn, handle);
    if (status.code() == StatusCode::kUnimplemented) {
      type_ = DataType::kFloat;
      status = Describe(cudnn, config, dropout, allow_tf32);
    }
  }
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(status);
  return params_.Ask(cudnn, handle, descriptor_.get(), config, SizeOf(type_));
}

Status CudnnRnnNetwork::TryType(const Cudnn& cudnn,
                                cudnnHandle_t handle) const {
  CudnnRnnDataDescriptor input;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      input.Create(cudnn, "cudnnCreateRNNDataDescriptor"));
  const int length = 1;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn.Check(
      cudnn.cudnnSetRNNDataDescriptor(input.get(), CudnnType(type_),
                                      CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                      /*maxSeqLength=*/1, /*batchSize=*/1,
                                      static_cast<std::int32_t>(input_size_),
                                      &length,
                                      /*paddingFill=*/nullptr),
      "cudnnSetRNNDataDescriptor"));
  std::size_t workspace_bytes, reserve_bytes;
  return cudnn.Check(cudnn.cudnnGetRNNTempSpaceSizes(
                         handle, descriptor_.get(), CUDNN_FWD_MODE_TRAINING,
                         input.get(), &workspace_bytes, &reserve_bytes),
                     "cudnnGetRNNTempSpaceSizes");
}

Status CudnnRnnNetwork::Describe(const Cudnn& cudnn,
                                 const rnn::RnnConfig& config,
                                 cudnnDropoutDescriptor_t dropout,
                                 bool allow_tf32) {
  return cudnn.Check(
      cudnn.cudnnSetRNNDescriptor_v8(
          descriptor_.get(), CUDNN_RNN_ALGO_STANDARD, CudnnMode(config.mode),
          CUDNN_RNN_DOUBLE_BIAS,
          config.num_directions == 2 ? CUDNN_BIDIRECTIONAL
                                     : CUDNN_UNIDIRECTIONAL,
          config.skip_input ? CUDNN_SKIP_INPUT : CUDNN_LINEAR_INPUT,
          CudnnType(type_), PrecisionOf(type_), MathOf(type_, allow_tf32),
          static_cast<std::int32_t>(input_size_),
          static_cast<std::int32_t>(config.num_units),
          // As many as units: no projection.
          static_cast<std::int32_t>(config.output_size()),
          static_cast<std::int32_t>(config.num_layers), dropout,
          CUDNN_RNN_PADDED_IO_ENABLED),
      "cudnnSetRNNDescriptor_v8");
}

}  // namespace tf_rnn_ops::gpu
