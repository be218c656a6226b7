#include "cc/gpu/cudnn_rnn_network.h"

#include <algorithm>
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
    case rnn::RnnMode::kGruResetBefore:
    case rnn::RnnMode::kRnn:
      break;  // not of cuDNN
  }
  return CUDNN_LSTM;
}

// The accumulator type: float32 for 16-bit types.
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

// Rejects sizes that overflow cuDNN's types.
Status CheckSizes(const rnn::RnnConfig& config) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (std::max({config.num_layers, config.num_units, config.input_size}) <=
      kLargest) {
    return Status();
  }
  return Status(StatusCode::kUnimplemented, "cuDNN supports at most " +
                                                std::to_string(kLargest) +
                                                " layers, units and inputs");
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
                             const CudnnRnnLayers& layers,
                             const CudnnRnnMethod& method) {
  config_ = layers.config();
  // cuDNN does not support empty inputs: use a single input of zeros.
  input_size_ = std::max<std::int64_t>(config_.input_size, 1);
  TF_RNN_OPS_RETURN_IF_ERROR(CheckSizes(config_));
  TF_RNN_OPS_RETURN_IF_ERROR(
      descriptor_.Create(cudnn, "cudnnCreateRNNDescriptor"));
  TF_RNN_OPS_RETURN_IF_ERROR(Describe(cudnn, method));
  return params_.Query(cudnn, handle, descriptor_.get(), layers,
                       SizeOf(method.type));
}

Status CudnnRnnNetwork::Describe(const Cudnn& cudnn,
                                 const CudnnRnnMethod& method) {
  return cudnn.Check(
      cudnn.cudnnSetRNNDescriptor_v8(
          descriptor_.get(), method.algorithm, CudnnMode(config_.mode),
          CUDNN_RNN_DOUBLE_BIAS,
          config_.num_directions == 2 ? CUDNN_BIDIRECTIONAL
                                      : CUDNN_UNIDIRECTIONAL,
          config_.skip_input ? CUDNN_SKIP_INPUT : CUDNN_LINEAR_INPUT,
          CudnnType(method.type), PrecisionOf(method.type),
          MathOf(method.type, method.allow_tf32),
          static_cast<std::int32_t>(input_size_),
          static_cast<std::int32_t>(config_.num_units),
          // Equal to num_units if there is no projection.
          static_cast<std::int32_t>(config_.output_size()),
          static_cast<std::int32_t>(config_.num_layers),
          /*dropoutDesc=*/nullptr, CUDNN_RNN_PADDED_IO_ENABLED),
      "cudnnSetRNNDescriptor_v8");
}

}  // namespace tf_rnn_ops::gpu
