// The formats of a layer's weights. A format states how one matrix of weights
// is packed and multiplied; packed_weights.h has what all formats share. To add
// one, see "A format of weights" in docs/design/engine.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHT_FORMATS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHT_FORMATS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/quantized_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// packed_weights.h
template <typename Products>
struct PackedLayer;
template <typename Products, typename Cell>
class PanelWeights;

// Memory for the right operands of both directions.
template <typename P>
struct PlainPanels {
  using Right = MutableRightMatrix<P>;

  P* data = nullptr;  // [D] right operands

  PlainPanels() = default;
  // depth: the largest of Of.
  PlainPanels(CheckedInt directions, std::int64_t depth, std::int64_t cols,
              Arena& arena)
      : data(arena.Take<P>(directions * Right::Size(depth, cols))) {}

  // [depth, cols]
  Right Of(std::int64_t direction, std::int64_t depth,
           std::int64_t cols) const {
    return {data + direction * SizeOf<Right>(depth, cols), depth, cols};
  }
};

// What a layer multiplies with: operands of type P.
template <typename P>
struct PlainProducts {
  // The type of the weights before they are packed, and of states.
  using Operand = P;
  // The memory for W and R.
  using Input = PlainPanels<P>;
  using Recurrent = PlainPanels<P>;
  using Packed = PackedLayer<PlainProducts>;
  template <typename Cell>
  using WeightsOf = PanelWeights<PlainProducts, Cell>;
  static constexpr bool kAreQuantized = false;
  // Whether `Input` has factors of the features: see QuantizedProducts.
  static constexpr bool kScalesFeatures = false;
  static constexpr std::int64_t kSpeed = 1;  // relative to float
  static constexpr std::int64_t kWeightBytes = sizeof(P);
  // The digits of W, and how many products of digits make one with x.
  static constexpr std::int64_t kInputDigits = 1;
  static constexpr std::int64_t kInputProducts = 1;

  // Packs the weights of up to kTileCols units, one block of columns.
  static void Pack(const UnitWeights<P>& from,
                   const MutableRightMatrix<P>& to) {
    if (from.is_transposed) {
      PackTransposed(from.stored, to);
    } else {
      PackRows(from.stored, 0, from.stored.rows, to);
    }
  }
};

// The same memory for columns of integers.
// Right: QuantizedRight or TwoDigitRight
template <typename Right>
struct QuantizedPanels {
  std::int8_t* data = nullptr;   // [D, cols, ColSize(depth)]
  float* scales = nullptr;       // [D, Right::kProducts, cols]
  std::int32_t* sums = nullptr;  // likewise

  QuantizedPanels() = default;
  QuantizedPanels(CheckedInt directions, std::int64_t depth, std::int64_t cols,
                  Arena& arena)
      : data(
            arena.Take<std::int8_t>(directions * cols * Right::ColSize(depth))),
        scales(arena.Take<float>(directions * cols * Right::kProducts)),
        sums(arena.Take<std::int32_t>(directions * cols * Right::kProducts)) {}

  Right Of(std::int64_t direction, std::int64_t depth,
           std::int64_t cols) const {
    const std::int64_t first = direction * cols;
    return Right{data + first * Right::ColSize(depth),
                 scales + first * Right::kProducts,
                 sums + first * Right::kProducts, depth, cols};
  }
};

// The same with factors of the features.
struct ScaledPanels {
  QuantizedPanels<TwoDigitRight> panels;
  float* factors = nullptr;  // [D, F]: TwoDigitRight::factors

  ScaledPanels() = default;
  ScaledPanels(CheckedInt directions, std::int64_t depth, std::int64_t cols,
               Arena& arena)
      : panels(directions, depth, cols, arena),
        factors(arena.Take<float>(directions * depth)) {}

  TwoDigitRight Of(std::int64_t direction, std::int64_t depth,
                   std::int64_t cols) const {
    TwoDigitRight right = panels.Of(direction, depth, cols);
    right.factors = factors + direction * depth;
    return right;
  }
};

// The power of two nearest to x, not negative; 0 for 0. It and its reciprocal
// are normal numbers.
inline float NearestPowerOfTwo(float x) {
  constexpr long kMost = 126;
  if (x == 0) return 0;
  return std::ldexp(1.0f, static_cast<int>(std::clamp(std::lround(std::log2(x)),
                                                      -kMost, kMost)));
}

// What a layer multiplies with: integers, of two digits in W x. The matrix of a
// second half is not quantized.
struct QuantizedProducts {
  using Operand = float;
  using Input = ScaledPanels;
  using Recurrent = QuantizedPanels<QuantizedRight>;
  using Packed = PackedLayer<QuantizedProducts>;
  template <typename Cell>
  using WeightsOf = PanelWeights<QuantizedProducts, Cell>;
  static constexpr bool kAreQuantized = true;
  static constexpr bool kScalesFeatures = true;
  static constexpr std::int64_t kSpeed = kQuantizedSpeed;
  static constexpr std::int64_t kWeightBytes = 1;
  static constexpr std::int64_t kInputDigits = 2;
  static constexpr std::int64_t kInputProducts = 3;

  // Finds factors[k], for `count` features k from `first` on: about the largest
  // magnitude of the feature's weights, a power of two, or 0. With a row of the
  // input multiplied by them, the scales of rows and columns are those of the
  // contributions W_jk x_k, not of the units in which features are measured.
  // weights(gate): W of a gate
  template <typename WeightsOfGate>
  static void FindFactors(std::int64_t gates, const WeightsOfGate& weights,
                          std::int64_t first, std::int64_t count,
                          float* factors) {
    std::fill_n(factors + first, count, 0.0f);
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      const UnitWeights<float> matrix = weights(gate);
      for (std::int64_t unit = 0; unit < matrix.units(); ++unit) {
        for (std::int64_t k = first; k < first + count; ++k) {
          const float weight = std::fabs(matrix.At(k, unit));
          if (std::isfinite(weight)) factors[k] = std::fmax(factors[k], weight);
        }
      }
    }
    std::transform(factors + first, factors + first + count, factors + first,
                   NearestPowerOfTwo);
  }

  template <typename Right>
  static void Pack(const UnitWeights<float>& from, const Right& to) {
    for (std::int64_t col = 0; col < QuantizedRight::kCols; ++col) {
      QuantizeColumn(
          [&](std::int64_t k) {
            return col < from.units() ? from.At(k, col) : 0.0f;
          },
          to, col);
    }
  }
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHT_FORMATS_H_
