// Conversion of arrays between the types that values are stored in and computed
// in.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CONVERT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CONVERT_H_

#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/simd/eigen.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Eigen's type of the same bits.
template <typename T>
struct EigenTypeOf {
  using Type = T;
};
template <>
struct EigenTypeOf<Half> {
  using Type = Eigen::half;
};
template <>
struct EigenTypeOf<BFloat16> {
  using Type = Eigen::bfloat16;
};
template <typename T>
using EigenType = typename EigenTypeOf<T>::Type;

// The elements of an array that one task handles.
constexpr std::int64_t kPiece = 1 << 16;

// Calls convert(offset, length) for pieces that cover [0, size).
template <typename Function>
void ForEachPiece(std::int64_t size, Executor& executor,
                  const Function& convert) {
  executor.ParallelFor((size + kPiece - 1) / kPiece, [&](std::int64_t i) {
    const std::int64_t offset = i * kPiece;
    convert(offset, size - offset < kPiece ? size - offset : kPiece);
  });
}

// to[i] = from[i], exactly. Arrays of `size` elements.
template <typename T>
void Widen(const T* from, float* to, std::int64_t size, Executor& executor) {
  ForEachPiece(size, executor, [=](std::int64_t offset, std::int64_t length) {
    Eigen::Map<Eigen::ArrayXf>(to + offset, length) =
        Eigen::Map<const Eigen::ArrayX<EigenType<T>>>(
            reinterpret_cast<const EigenType<T>*>(from + offset), length)
            .template cast<float>();
  });
}

// to[i] = from[i], rounded to nearest, ties to even. Arrays of `size` elements.
template <typename T>
void Narrow(const float* from, T* to, std::int64_t size, Executor& executor) {
  ForEachPiece(size, executor, [=](std::int64_t offset, std::int64_t length) {
    Eigen::Map<Eigen::ArrayX<EigenType<T>>>(
        reinterpret_cast<EigenType<T>*>(to + offset), length) =
        Eigen::Map<const Eigen::ArrayXf>(from + offset, length)
            .template cast<EigenType<T>>();
  });
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CONVERT_H_
