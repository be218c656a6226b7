// Data types of arrays on the GPU.

#ifndef TF_RNN_OPS_CC_GPU_DATA_TYPE_H_
#define TF_RNN_OPS_CC_GPU_DATA_TYPE_H_

#include <cstddef>

#include "cc/rnn/float16.h"

namespace tf_rnn_ops::gpu {

enum class DataType { kHalf, kBFloat16, kFloat, kDouble };

template <typename T>
constexpr DataType DataTypeOf = DataType::kDouble;
template <>
constexpr DataType DataTypeOf<float> = DataType::kFloat;
template <>
constexpr DataType DataTypeOf<rnn::Half> = DataType::kHalf;
template <>
constexpr DataType DataTypeOf<rnn::BFloat16> = DataType::kBFloat16;

// Size of an element in bytes.
constexpr std::size_t SizeOf(DataType type) {
  return type == DataType::kDouble ? 8 : type == DataType::kFloat ? 4 : 2;
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DATA_TYPE_H_
