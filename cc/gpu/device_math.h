// Loading, arithmetic and storing of vectors of elements, for host and device.

#ifndef TF_RNN_OPS_CC_GPU_DEVICE_MATH_H_
#define TF_RNN_OPS_CC_GPU_DEVICE_MATH_H_

#if !defined(__CUDACC_RTC__)  // NVRTC has these functions built in
#include <math.h>
#endif

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/float16_conversion.h"

namespace tf_rnn_ops::gpu {

// Number of elements per load or store of an aligned array: 16 bytes, the
// maximum of a GPU, in the compute type.
template <typename T>
constexpr int kVectorWidth = 16 / sizeof(rnn::ComputeType<T>);

// Elements in their storage type.
template <typename T, int kWidth>
struct alignas(kWidth * sizeof(T)) StoredVector {
  T values[kWidth];
};

// Elements in their compute type.
template <typename C, int kWidth>
struct Vector {
  C values[kWidth];
};

using rnn::Round;
using rnn::ToCompute;

template <int kWidth, typename T>
Vector<rnn::ComputeType<T>, kWidth> Load(const T* from) {
  const auto stored = *reinterpret_cast<const StoredVector<T, kWidth>*>(from);
  Vector<rnn::ComputeType<T>, kWidth> result;
  for (int i = 0; i < kWidth; ++i) {
    result.values[i] = ToCompute(stored.values[i]);
  }
  return result;
}

// Loads array[index] and the following elements; zeros if `array` is null.
template <int kWidth, typename T>
Vector<rnn::ComputeType<T>, kWidth> LoadOrZero(const T* array,
                                               std::int64_t index) {
  if (array == nullptr) return {};
  return Load<kWidth>(array + index);
}

template <typename C, int kWidth, typename T>
void Store(const Vector<C, kWidth>& vector, T* to) {
  StoredVector<T, kWidth> stored;
  for (int i = 0; i < kWidth; ++i) Round(vector.values[i], &stored.values[i]);
  *reinterpret_cast<StoredVector<T, kWidth>*>(to) = stored;
}

template <int kWidth, typename T>
void Copy(const T* from, T* to) {
  *reinterpret_cast<StoredVector<T, kWidth>*>(to) =
      *reinterpret_cast<const StoredVector<T, kWidth>*>(from);
}

template <typename C, int kWidth, typename Function>
Vector<C, kWidth> ForEach(const Vector<C, kWidth>& a,
                          const Function& function) {
  Vector<C, kWidth> result;
  for (int i = 0; i < kWidth; ++i) result.values[i] = function(a.values[i]);
  return result;
}

template <typename C, int kWidth, typename Function>
Vector<C, kWidth> ForEach(const Vector<C, kWidth>& a,
                          const Vector<C, kWidth>& b,
                          const Function& function) {
  Vector<C, kWidth> result;
  for (int i = 0; i < kWidth; ++i) {
    result.values[i] = function(a.values[i], b.values[i]);
  }
  return result;
}

template <typename C, int kWidth>
Vector<C, kWidth> operator+(const Vector<C, kWidth>& a,
                            const Vector<C, kWidth>& b) {
  return ForEach(a, b, [](C x, C y) { return x + y; });
}

template <typename C, int kWidth>
Vector<C, kWidth> operator-(const Vector<C, kWidth>& a,
                            const Vector<C, kWidth>& b) {
  return ForEach(a, b, [](C x, C y) { return x - y; });
}

template <typename C, int kWidth>
Vector<C, kWidth> operator*(const Vector<C, kWidth>& a,
                            const Vector<C, kWidth>& b) {
  return ForEach(a, b, [](C x, C y) { return x * y; });
}

// For 1 - b.
template <typename C, int kWidth>
Vector<C, kWidth> operator-(int a, const Vector<C, kWidth>& b) {
  return ForEach(b, [a](C y) { return static_cast<C>(a) - y; });
}

inline float Exp(float x) { return expf(x); }
inline double Exp(double x) { return exp(x); }

template <typename C, int kWidth>
Vector<C, kWidth> Sigmoid(const Vector<C, kWidth>& a) {
  return ForEach(a, [](C x) { return 1 / (1 + Exp(-x)); });
}

inline float TanhOf(float x) { return tanhf(x); }
inline double TanhOf(double x) { return tanh(x); }

template <typename C, int kWidth>
Vector<C, kWidth> Tanh(const Vector<C, kWidth>& a) {
  return ForEach(a, [](C x) { return TanhOf(x); });
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_DEVICE_MATH_H_
