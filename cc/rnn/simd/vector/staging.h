// Gives the network access to a caller's arrays: time-major, in the network's
// order of samples and steps, and in the network's type. Arrays that already
// match are used in place; others are copied.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_

#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/simd/vector/convert.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// An array [outer, inner, width] in time-major order: outer is the time or the
// pseudo-layer, inner the batch.
struct StagedShape {
  std::int64_t outer;
  std::int64_t inner;
  std::int64_t width;
  // [inner, outer], the position of each step of each sample in the caller's
  // array; null for the natural order.
  const std::int32_t* steps = nullptr;
  // Whether the caller's steps are in reverse order.
  bool is_reversed = false;

  CheckedInt size() const { return CheckedInt(outer) * inner * width; }
  // Whether time-major and batch-major arrays have the same memory layout.
  bool HasOneOrder() const {
    return outer <= 1 || (inner <= 1 && steps == nullptr && !is_reversed);
  }
};

// The order in which the network processes the samples.
struct SampleOrder {
  bool is_callers;
  // [batch], unless the order is the caller's; also null when counting memory.
  const std::int64_t* samples;

  std::int64_t of(std::int64_t place) const {
    return is_callers ? place : samples[place];
  }
};
constexpr SampleOrder kCallersOrder{true, nullptr};

// Calls body(ours, theirs, length) for runs of elements that are consecutive in
// both orders, with the offset of the first in our array and in the caller's.
template <typename Body>
void ForEachRun(const StagedShape& shape, bool time_major,
                const SampleOrder& order, Executor& executor,
                const Body& body) {
  if (shape.width == 0) return;  // the array may be null
  if ((time_major || shape.HasOneOrder()) && order.is_callers) {
    ForEachPiece(shape.size().value(), executor,
                 [&](std::int64_t offset, std::int64_t length) {
                   body(offset, offset, length);
                 });
    return;
  }
  executor.ParallelFor(shape.outer, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < shape.inner; ++j) {
      const std::int64_t sample = order.of(j);
      const std::int64_t place =
          shape.steps == nullptr ? i : shape.steps[sample * shape.outer + i];
      const std::int64_t step =
          shape.is_reversed ? shape.outer - 1 - place : place;
      const std::int64_t row =
          time_major ? i * shape.inner + sample : sample * shape.outer + step;
      body((i * shape.inner + j) * shape.width, row * shape.width, shape.width);
    }
  });
}

// T: the caller's type. C: the network's type.
template <typename T, typename C = ComputeType<T>>
class Staging {
 public:
  explicit Staging(bool time_major, const SampleOrder& order = kCallersOrder)
      : time_major_(time_major), order_(order) {}

  bool IsCopied(const StagedShape& shape) const {
    return !std::is_same_v<T, C> || !order_.is_callers ||
           !(time_major_ || shape.HasOneOrder());
  }

  // Memory for a copy of an array, or null if it needs no copy.
  C* Buffer(const StagedShape& shape, Arena& arena) const {
    return IsCopied(shape) ? arena.Take<C>(shape.size()) : nullptr;
  }

  // The same for an array that may be null, such as a result that is not
  // needed.
  C* BufferIfAny(const T* array, const StagedShape& shape, Arena& arena) const {
    return array == nullptr ? nullptr : Buffer(shape, arena);
  }

  // The caller's array, copied to its buffer if it has one; null if the array
  // is null.
  const C* Read(const T* from, C* buffer, const StagedShape& shape,
                Executor& executor) const {
    if (from == nullptr) return nullptr;
    if constexpr (std::is_same_v<T, C>) {
      if (!IsCopied(shape)) return from;
    }
    ForEachRun(shape, time_major_, order_, executor,
               [&](auto ours, auto theirs, auto length) {
                 Convert(from + theirs, buffer + ours, length);
               });
    return buffer;
  }

  // Where to write the contents of the caller's array: its buffer, if it has
  // one, otherwise the array itself, which may be null.
  C* Target(T* to, C* buffer) const {
    if constexpr (std::is_same_v<T, C>) {
      if (buffer == nullptr) return to;
    }
    return buffer;
  }

  // Copies a buffer to the caller's array, if both exist and differ.
  void Write(const C* from, T* to, const StagedShape& shape,
             Executor& executor) const {
    if (from == nullptr || to == nullptr ||
        static_cast<const void*>(from) == to) {
      return;
    }
    ForEachRun(shape, time_major_, order_, executor,
               [&](auto ours, auto theirs, auto length) {
                 Convert(from + ours, to + theirs, length);
               });
  }

 private:
  const bool time_major_;
  const SampleOrder order_;
};

// Stages several time-major arrays of one shape.
// Arrays: has `arrays`, kCount pointers that may be null.
template <template <typename> class Arrays, typename T>
class ArraysStaging {
 public:
  using Element = std::remove_const_t<T>;
  using C = ComputeType<Element>;

  ArraysStaging(const Arrays<T>& callers, const StagedShape& shape,
                Arena& arena)
      : callers_(callers), shape_(shape), buffers_{} {
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      buffers_.arrays[i] =
          staging_.BufferIfAny(callers.arrays[i], shape_, arena);
    }
  }

  Arrays<const C> Read(Executor& executor) const {
    Arrays<const C> read;
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      read.arrays[i] = staging_.Read(callers_.arrays[i], buffers_.arrays[i],
                                     shape_, executor);
    }
    return read;
  }
  Arrays<C> Target() const {
    Arrays<C> targets;
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      targets.arrays[i] =
          staging_.Target(callers_.arrays[i], buffers_.arrays[i]);
    }
    return targets;
  }
  void Write(Executor& executor) const {
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      staging_.Write(buffers_.arrays[i], callers_.arrays[i], shape_, executor);
    }
  }

 private:
  Arrays<T> callers_;
  StagedShape shape_;
  Staging<Element> staging_{/*time_major=*/true};
  Arrays<C> buffers_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_
