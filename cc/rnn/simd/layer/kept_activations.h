// The layout of the activations that the cells of a layer keep.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_KEPT_ACTIVATIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_KEPT_ACTIVATIONS_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// K values for each unit, sample and step of each direction: [D, S, blocks of
// U, B, K, units of the block]. A step reads a few units of many samples, which
// are contiguous. E: T or const T.
template <typename E>
class KeptActivations {
 public:
  // Nothing is kept.
  KeptActivations() = default;
  // data: null if nothing is kept.
  // are_pairs: whether the values have the form of ToFinitePair.
  KeptActivations(E* data, const RnnConfig& config, const RnnSize& size,
                  bool are_pairs)
      : data_(config.num_kept() > 0 ? data : nullptr),
        values_(config.num_kept()),
        units_(config.num_units),
        time_(size.time),
        batch_(size.batch),
        is_uncached_(IsBestUncached(
            data_, config.num_directions * time_ * batch_ * values_ * units_,
            units_)),
        are_pairs_(are_pairs) {}

  // The first value of a unit, for each sample; null if nothing is kept.
  ColumnView<E> Column(std::int64_t direction, std::int64_t t,
                       std::int64_t unit) const {
    if (data_ == nullptr) return {nullptr, 0};
    assert(t >= 0 && t < time_ && unit >= 0 && unit < units_);
    const std::int64_t in_block = unit % kLeftCols<E>;
    const std::int64_t before =
        (direction * time_ + t) * units_ + unit - in_block;
    return {data_ + before * batch_ * values_ + in_block,
            values_ * Stride(unit)};
  }
  // The distance between the values of a unit.
  std::int64_t Stride(std::int64_t unit) const {
    return Min(kLeftCols<E>, units_ - unit / kLeftCols<E> * kLeftCols<E>);
  }
  std::int64_t values() const { return values_; }

  // Calls body(kept, offset, count) for units that are next to each other in
  // both layouts: their first value, and their place in an array [S, B, U]. For
  // one direction.
  template <typename Body>
  void ForEachRun(Executor& executor, const Body& body) const {
    executor.ParallelFor(time_ * batch_, [&](std::int64_t row) {
      for (std::int64_t unit = 0; unit < units_; unit += kLeftCols<E>) {
        body(Column(0, row / batch_, unit).At(row % batch_),
             row * units_ + unit, Stride(unit));
      }
    });
  }

  // Whether the values should be written past the caches.
  bool is_uncached() const { return is_uncached_; }
  bool are_pairs() const { return are_pairs_; }

 private:
  E* data_ = nullptr;
  std::int64_t values_ = 0;
  std::int64_t units_ = 0;
  std::int64_t time_ = 0;
  std::int64_t batch_ = 0;
  bool is_uncached_ = false;
  bool are_pairs_ = false;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_KEPT_ACTIVATIONS_H_
