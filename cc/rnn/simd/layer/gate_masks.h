// The dropout masks of the input or the state of a layer, by gate and step.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_GATE_MASKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_GATE_MASKS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Of a layer with one direction. Sizes: see layer_shape.h.
template <typename T>
class GateMasks {
 public:
  // masks: [G, S, B, width], or [G, 1, B, width] if they are the same at all
  // steps; null if there are none.
  GateMasks(GateDropout dropout, const LayerShape& shape, std::int64_t width,
            const T* masks)
      : masks_(masks),
        batch_(shape.batch),
        width_(width),
        steps_(dropout == GateDropout::kMasksOfSteps ? shape.time : 1) {}
  static GateMasks OfInput(const RnnConfig& config, const LayerShape& shape,
                           const T* masks) {
    return {config.input_dropout, shape, shape.fan_in, masks};
  }
  static GateMasks OfState(const RnnConfig& config, const LayerShape& shape,
                           const T* masks) {
    return {config.state_dropout, shape, shape.units, masks};
  }

  bool any() const { return masks_ != nullptr; }
  std::int64_t batch() const { return batch_; }
  // Of a gate at time t, [B, width].
  MatrixView<const T> At(std::int64_t gate, std::int64_t t) const {
    const std::int64_t index = gate * steps_ + (steps_ == 1 ? 0 : t);
    return {masks_ + index * batch_ * width_, batch_, width_};
  }
  // The distance between the masks of two gates.
  std::int64_t GateStride() const { return steps_ * batch_ * width_; }

 private:
  const T* masks_;
  std::int64_t batch_;
  std::int64_t width_;
  std::int64_t steps_;
};

// Columns of a left operand, or of copies of it that are multiplied by masks.
// P: the operand type of products.
template <typename P>
struct MaskedColumns {
  using T = ComputeType<P>;

  ColumnView<P> to;  // of the first copy
  std::int64_t copies;
  std::int64_t copy_stride;
  ColumnView<const T> masks;  // of the first copy; null for no masks
  std::int64_t mask_stride;   // between copies

  template <typename Units>
  TF_RNN_OPS_VECTOR_INLINE void Write(std::int64_t row, const Units& units,
                                      Vector<T> x) const {
    if (masks.data == nullptr) {
      units.Write(x, to.At(row));
      return;
    }
    for (std::int64_t i = 0; i < copies; ++i) {
      units.Write(x * units.Read(masks.At(row) + i * mask_stride),
                  to.At(row) + i * copy_stride);
    }
  }
};

// One of several consecutive left operands of the same size.
template <typename Left>
Left NthCopy(const Left& first, std::int64_t index) {
  return {first.data + index * SizeOf<Left>(first.rows, first.cols), first.rows,
          first.cols};
}

// Reads units that may have fewer bits.
template <typename T, typename Units, typename E>
TF_RNN_OPS_VECTOR_INLINE Vector<T> ReadWidened(const Units& units,
                                               const E* from) {
  if constexpr (std::is_same_v<T, E>) {
    return units.Read(from);
  } else {
    T widened[kVectorElements<T>] = {};
    Convert(from, widened, units.count);
    return Load<T>(widened);
  }
}

// Packs what some gates multiply at some steps: into one left operand or, with
// masks, into one for each gate.
// Rows: see pack.h
template <typename Rows, typename P>
class PackMaskedWork {
 public:
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;

  // from: [times * step_rows, width]; the rows of the steps, in order of time,
  //   may come several times
  // to: of the first gate; the others follow
  PackMaskedWork(const Rows& from, const Left& to, const GateMasks<T>& masks,
                 std::int64_t first_gate, std::int64_t gates,
                 std::int64_t first_time, std::int64_t step_rows)
      : from_(from),
        to_(to),
        masks_(masks),
        first_gate_(first_gate),
        gates_(gates),
        first_time_(first_time),
        step_rows_(step_rows) {}

  std::int64_t size() const {
    return from_.cols == 0 ? 0 : CeilDiv(from_.rows, kRows);
  }
  void operator()(std::int64_t task) const {
    const std::int64_t first = task * kRows;
    const std::int64_t count = Min(kRows, from_.rows - first);
    if (!masks_.any()) {
      PackRows(from_, first, count, to_);
      return;
    }
    for (std::int64_t row = first; row < first + count; ++row) {
      for (std::int64_t i = 0; i < gates_; ++i) PackMasked(row, i);
    }
  }

 private:
  static constexpr std::int64_t kRows = 32;

  void PackMasked(std::int64_t row, std::int64_t i) const {
    const std::int64_t step_row = row % step_rows_;
    const T* const mask =
        masks_.At(first_gate_ + i, first_time_ + step_row / masks_.batch())
            .Row(step_row % masks_.batch());
    const auto* const from = from_.Row(row);
    const Left to = NthCopy(to_, i);
    const std::int64_t cols = from_.cols;
    StepTask::ForEachVector<T>(
        0, CeilDiv(cols, kTileCols<T>), cols, [&](auto unit, auto units) {
          units.Write(
              ReadWidened<T>(units, from + unit) * units.Read(mask + unit),
              to.At(row, unit));
        });
    const std::int64_t last = cols % Left::kCols;
    if (last > 0) {
      std::memset(static_cast<void*>(to.At(row, cols - 1) + 1), 0,
                  (Left::kCols - last) * sizeof(P));
    }
  }

  Rows from_;
  Left to_;
  GateMasks<T> masks_;
  std::int64_t first_gate_;
  std::int64_t gates_;
  std::int64_t first_time_;
  std::int64_t step_rows_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_GATE_MASKS_H_
