// Gives tests access to vector.h and activations.h. vector_functions.cc defines
// these functions once for each instruction set.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_FUNCTIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_FUNCTIONS_H_

#include <cstdint>

namespace tf_rnn_ops::rnn {

template <typename T>
struct VectorFunctions {
  std::int64_t vector_elements;
  // Elementwise, for `size` elements.
  void (*tanh)(const T* x, T* result, std::int64_t size);
  void (*sigmoid)(const T* x, T* result, std::int64_t size);
  // lanes: [vector_elements]
  void (*load_partial)(const T* from, std::int64_t count, T* lanes);
  void (*store_partial)(const T* lanes, T* to, std::int64_t count);
};

namespace baseline {
template <typename T>
VectorFunctions<T> GetVectorFunctions();
}  // namespace baseline

namespace avx2 {
template <typename T>
VectorFunctions<T> GetVectorFunctions();
}  // namespace avx2

namespace avx512 {
template <typename T>
VectorFunctions<T> GetVectorFunctions();
}  // namespace avx512

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_VECTOR_FUNCTIONS_H_
