// The weights of a layer as integers, for inference.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/quantized_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Memory for the columns of both directions.
// Right: QuantizedRight or TwoDigitRight
template <typename Right>
struct QuantizedColumns {
  std::int8_t* data = nullptr;   // [D, panels of U, G] blocks
  float* scales = nullptr;       // [D, Right::kProducts, PanelCols]
  std::int32_t* sums = nullptr;  // likewise

  QuantizedColumns() = default;
  QuantizedColumns(const RnnConfig& config, std::int64_t depth, Arena& arena) {
    const CheckedInt cols =
        CheckedInt(config.num_directions) * PanelCols<float>(config);
    data = arena.Take<std::int8_t>(cols * Right::ColSize(depth));
    scales = arena.Take<float>(cols * Right::kProducts);
    sums = arena.Take<std::int32_t>(cols * Right::kProducts);
  }

  // [depth, cols], where cols = PanelCols.
  Right Of(std::int64_t direction, std::int64_t depth,
           std::int64_t cols) const {
    const std::int64_t first = direction * cols;
    return Right{data + first * Right::ColSize(depth),
                 scales + first * Right::kProducts,
                 sums + first * Right::kProducts, depth, cols};
  }
};

// Memory for the weights of a layer. The projection is not quantized.
struct QuantizedWeightsMemory {
  using Right = MutableRightMatrix<float>;

  QuantizedColumns<TwoDigitRight> input;
  // [D, F]: see QuantizedWeights::InputFactors
  float* input_factors = nullptr;
  QuantizedColumns<QuantizedRight> recurrent;
  float* projection = nullptr;  // [D] right operands [U, O]

  QuantizedWeightsMemory() = default;
  // fan_in: of the layer; or the largest, for any layer of the network.
  QuantizedWeightsMemory(const RnnConfig& config, std::int64_t fan_in,
                         Arena& arena)
      : input(config, fan_in, arena),
        input_factors(
            arena.Take<float>(CheckedInt(config.num_directions) * fan_in)),
        recurrent(config, config.output_size(), arena),
        projection(arena.Take<float>(ProjectionSize<float>(config))) {}
};

// The power of two nearest to x, not negative; 0 for 0. It and its reciprocal
// are normal numbers.
inline float NearestPowerOfTwo(float x) {
  constexpr long kMost = 126;
  if (x == 0) return 0;
  return std::ldexp(1.0f, static_cast<int>(std::clamp(std::lround(std::log2(x)),
                                                      -kMost, kMost)));
}

// The same matrices as those of PanelWeights.
template <typename Cell>
class QuantizedWeights {
 public:
  using Right = MutableRightMatrix<float>;

  // weights: of the whole network.
  QuantizedWeights(const RnnConfig& config, const LayerShape& shape,
                   const Weights<const float>& weights,
                   const QuantizedWeightsMemory& scratch)
      : scratch_(scratch),
        shape_(shape),
        params_(config, shape, weights),
        panels_(CeilDiv(shape.units, kCols)),
        projection_(config, shape, weights, scratch.projection) {}

  // Call before reading the matrices below.
  void Pack(Executor& executor) const {
    const std::int64_t num_blocks = panels_ * Cell::kGates;
    const std::int64_t num_groups = CeilDiv(shape_.fan_in, kFeatures);
    if (!shape_.skips_input) {
      RunTogether(executor,
                  Tasks{shape_.directions * num_groups, [&](std::int64_t task) {
                          FindFactors(task / num_groups,
                                      task % num_groups * kFeatures);
                        }});
    }
    RunTogether(executor,
                Tasks{shape_.directions * num_blocks, [&](std::int64_t task) {
                        PackBlocks(task / num_blocks, task % num_blocks);
                      }});
    projection_.Pack(executor);
  }

  // For `num_panels` panels: [F, num_panels * G * kTileCols]. Feature k is
  // divided by its factor.
  TwoDigitRight Input(std::int64_t direction, std::int64_t panel,
                      std::int64_t num_panels) const {
    return Panels(scratch_.input, shape_.fan_in, direction, panel, num_panels);
  }
  // For each feature, about the largest magnitude of its weights: a power of
  // two, or 0. With a row of the input multiplied by them, the scales of rows
  // and columns are those of the contributions W_jk x_k, not of the units in
  // which features are measured. [F]
  float* InputFactors(std::int64_t direction) const {
    return scratch_.input_factors + direction * shape_.fan_in;
  }
  // [O, num_panels * G * kTileCols]
  QuantizedRight Recurrent(std::int64_t direction, std::int64_t panel,
                           std::int64_t num_panels) const {
    return Panels(scratch_.recurrent, shape_.output_size, direction, panel,
                  num_panels);
  }
  // [U, O]
  Right Projection(std::int64_t direction) const {
    return projection_.Of(direction);
  }

 private:
  static constexpr std::int64_t kCols = QuantizedRight::kCols;
  static constexpr std::int64_t kPanelCols = Cell::kGates * kCols;

  // Features whose factors a task finds.
  static constexpr std::int64_t kFeatures = 16;

  // An element of a gate's matrix.
  float Weight(const MatrixView<const float>& matrix, std::int64_t k,
               std::int64_t unit) const {
    return params_.is_transposed() ? *matrix.At(k, unit) : *matrix.At(unit, k);
  }

  void FindFactors(std::int64_t direction, std::int64_t first) const {
    const std::int64_t count = Min(kFeatures, shape_.fan_in - first);
    float most[kFeatures] = {};
    for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
      const auto matrix = params_.Input(direction, InputGate<Cell>(gate));
      for (std::int64_t unit = 0; unit < shape_.units; ++unit) {
        for (std::int64_t i = 0; i < count; ++i) {
          const float weight = std::fabs(Weight(matrix, first + i, unit));
          if (std::isfinite(weight)) most[i] = std::fmax(most[i], weight);
        }
      }
    }
    std::transform(most, most + count, InputFactors(direction) + first,
                   NearestPowerOfTwo);
  }

  // Packs a block of W and one of R.
  void PackBlocks(std::int64_t direction, std::int64_t block) const {
    const std::int64_t panel = block / Cell::kGates;
    const std::int64_t gate = block % Cell::kGates;
    const std::int64_t col = block * kCols;
    if (!shape_.skips_input) {
      const auto matrix = params_.Input(direction, InputGate<Cell>(gate));
      const float* const factors = InputFactors(direction);
      PackBlock(
          [&](std::int64_t k, std::int64_t unit) {
            const float weight = Weight(matrix, k, unit);
            return factors[k] == 0 ? weight : weight / factors[k];
          },
          panel, Input(direction, 0, panels_).Cols(col, kCols));
    }
    const auto matrix = params_.Recurrent(direction, gate);
    PackBlock([&](std::int64_t k,
                  std::int64_t unit) { return Weight(matrix, k, unit); },
              panel, Recurrent(direction, 0, panels_).Cols(col, kCols));
  }
  // Packs the part of a gate's matrix for the units of a panel.
  // weight(k, unit): an element of the matrix
  template <typename WeightOf, typename Right>
  void PackBlock(const WeightOf& weight, std::int64_t panel,
                 const Right& to) const {
    for (std::int64_t col = 0; col < kCols; ++col) {
      const std::int64_t unit = panel * kCols + col;
      QuantizeColumn(
          [&](std::int64_t k) {
            return unit < shape_.units ? weight(k, unit) : 0.0f;
          },
          to, col);
    }
  }

  template <typename Right>
  Right Panels(const QuantizedColumns<Right>& columns, std::int64_t depth,
               std::int64_t direction, std::int64_t panel,
               std::int64_t num_panels) const {
    return columns.Of(direction, depth, panels_ * kPanelCols)
        .Cols(panel * kPanelCols, num_panels * kPanelCols);
  }

  const QuantizedWeightsMemory scratch_;
  const LayerShape shape_;
  const LayerParams<const float> params_;
  const std::int64_t panels_;  // of units
  const ProjectionWeights<float> projection_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_
