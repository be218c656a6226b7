// Scalars in place of vectors. The cells are compiled with these as device
// code, where each thread computes one unit of one sample.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SCALAR_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SCALAR_H_

#if !defined(__CUDACC_RTC__)  // has it built in
#include <math.h>
#endif

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

#define TF_RNN_OPS_VECTOR_INLINE inline

template <typename T>
using Vector = T;

template <typename T>
T Broadcast(T x) {
  return x;
}

// a * b + c
template <typename T>
T MultiplyAdd(T a, T b, T c) {
  return a * b + c;
}

// a * b + c * d
template <typename T>
T SumOfProducts(T a, T b, T c, T d) {
  return a * b + c * d;
}

template <typename T>
T Select(bool condition, T a, T b) {
  return condition ? a : b;
}

inline float Exp(float x) { return expf(x); }
inline double Exp(double x) { return exp(x); }

// The functions of activations.h.

template <typename T>
T Tanh(T x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return tanhf(x);
  } else {
    return tanh(x);
  }
}

template <typename T>
T Sigmoid(T x) {
  return 1 / (1 + Exp(-x));
}

// The derivative of tanh at a point where its value is t.
template <typename T>
T TanhSlope(T t) {
  return 1 - t * t;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_SCALAR_H_
