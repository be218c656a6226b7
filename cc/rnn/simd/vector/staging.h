// Gives the network access to a caller's arrays: time-major, in the network's
// order of samples and steps, and in the network's type. Arrays that already
// match are used in place; others are copied.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_
#define TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_

#include <algorithm>
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

// How a caller's arrays are laid out.
struct CallersLayout {
  bool time_major;
  SampleOrder order;
};
constexpr CallersLayout kNetworksLayout{/*time_major=*/true, kCallersOrder};

// Of an array that the network needs even if the caller's is null.
constexpr bool kIsNeeded = true;

// A caller's array, and memory for a copy of it if the network cannot use it in
// place.
// T: the caller's type, const if the array is only read. C: the network's type.
template <typename T, typename C = ComputeType<std::remove_const_t<T>>>
class StagedArray {
 public:
  // No array.
  StagedArray() = default;
  // An array for ReadTo only, which needs no memory. Arguments: see below.
  StagedArray(T* array, const StagedShape* shape, const CallersLayout* layout)
      : array_(array), shape_(shape), layout_(layout) {}
  // array: may be null.
  // shape, layout: not copied.
  // is_needed: see kIsNeeded.
  StagedArray(T* array, const StagedShape* shape, const CallersLayout* layout,
              Arena& arena, bool is_needed = false)
      : array_(array), shape_(shape), layout_(layout) {
    if (array == nullptr ? is_needed : IsCopied()) {
      copy_ = arena.Take<C>(shape->size());
    }
  }

  // Whether the network cannot use an array like this in place.
  bool IsCopied() const {
    return !kIsSameType || !layout_->order.is_callers ||
           !(layout_->time_major || shape_->HasOneOrder());
  }

  // The contents of the caller's array. If that is null, zeros if needed,
  // otherwise null.
  const C* Read(Executor& executor) const {
    if constexpr (kIsSameType) {
      if (copy_ == nullptr) return array_;
    }
    if (copy_ != nullptr) ReadTo(copy_, executor);
    return copy_;
  }
  // Copies the contents of the caller's array, or zeros if that is null.
  void ReadTo(C* to, Executor& executor) const {
    if (array_ == nullptr) {
      std::fill_n(to, shape_->size().value(), C{});
      return;
    }
    if constexpr (kIsSameType) {
      if (!IsCopied()) {
        std::copy_n(array_, shape_->size().value(), to);
        return;
      }
    }
    ForEachRun(*shape_, layout_->time_major, layout_->order, executor,
               [&](auto ours, auto theirs, auto length) {
                 Convert(array_ + theirs, to + ours, length);
               });
  }

  // The memory for a copy, or null.
  C* copy() const { return copy_; }

  // Where to write the contents of the caller's array; null if that is null and
  // not needed.
  C* Target() const {
    if constexpr (std::is_same_v<T, C>) {
      if (copy_ == nullptr) return array_;
    }
    return copy_;
  }
  // Copies what was written to Target() to the caller's array.
  void Write(Executor& executor) const { WriteFrom(copy_, executor); }
  // Fills the caller's array with zeros, if it exists.
  void WriteZeros(Executor& executor) const {
    if (array_ != nullptr) FillZero(array_, shape_->size().value(), executor);
  }
  // Copies `from` to the caller's array, if both exist and differ.
  void WriteFrom(const C* from, Executor& executor) const {
    if (from == nullptr || array_ == nullptr ||
        static_cast<const void*>(from) == array_) {
      return;
    }
    ForEachRun(*shape_, layout_->time_major, layout_->order, executor,
               [&](auto ours, auto theirs, auto length) {
                 Convert(from + ours, array_ + theirs, length);
               });
  }

 private:
  static constexpr bool kIsSameType = std::is_same_v<std::remove_const_t<T>, C>;

  T* array_ = nullptr;
  C* copy_ = nullptr;
  const StagedShape* shape_ = nullptr;
  const CallersLayout* layout_ = nullptr;
};

// Several arrays of one shape.
// Arrays: has `arrays`, kCount pointers that may be null.
template <template <typename> class Arrays, typename T>
class StagedArrays {
 public:
  using C = ComputeType<std::remove_const_t<T>>;

  // See StagedArray.
  StagedArrays(const Arrays<T>& callers, const StagedShape* shape,
               const CallersLayout* layout, Arena& arena) {
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      arrays_[i] = {callers.arrays[i], shape, layout, arena};
    }
  }

  Arrays<const C> Read(Executor& executor) const {
    Arrays<const C> read;
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      read.arrays[i] = arrays_[i].Read(executor);
    }
    return read;
  }
  Arrays<C> Target() const {
    Arrays<C> targets;
    for (int i = 0; i < Arrays<T>::kCount; ++i) {
      targets.arrays[i] = arrays_[i].Target();
    }
    return targets;
  }
  void Write(Executor& executor) const {
    for (const StagedArray<T>& array : arrays_) array.Write(executor);
  }
  void WriteZeros(Executor& executor) const {
    for (const StagedArray<T>& array : arrays_) array.WriteZeros(executor);
  }

 private:
  StagedArray<T> arrays_[Arrays<T>::kCount];
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_VECTOR_STAGING_H_
