// The weights of a layer as 8-bit integers, for inference.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_

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

// Memory for quantized columns of both directions: see QuantizedRight.
struct QuantizedColumns {
  std::int8_t* data = nullptr;   // [D, panels of U, G] blocks
  float* scales = nullptr;       // [D, PanelCols]
  std::int32_t* sums = nullptr;  // [D, PanelCols]

  QuantizedColumns() = default;
  QuantizedColumns(const RnnConfig& config, std::int64_t depth, Arena& arena) {
    const CheckedInt cols =
        CheckedInt(config.num_directions) * PanelCols<float>(config);
    data = arena.Take<std::int8_t>(cols * CeilDiv(depth, kQuantizedTerms) *
                                   kQuantizedTerms);
    scales = arena.Take<float>(cols);
    sums = arena.Take<std::int32_t>(cols);
  }
};

// Memory for the weights of a layer. The projection is not quantized.
struct QuantizedWeightsMemory {
  using Right = MutableRightMatrix<float>;

  QuantizedColumns input;
  QuantizedColumns recurrent;
  float* projection = nullptr;  // [D] right operands [U, O]

  QuantizedWeightsMemory() = default;
  // fan_in: of the layer; or the largest, for any layer of the network.
  QuantizedWeightsMemory(const RnnConfig& config, std::int64_t fan_in,
                         Arena& arena)
      : input(config, fan_in, arena),
        recurrent(config, config.output_size(), arena),
        projection(arena.Take<float>(ProjectionSize<float>(config))) {}
};

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
    RunTogether(executor,
                Tasks{shape_.directions * num_blocks, [&](std::int64_t task) {
                        PackBlocks(task / num_blocks, task % num_blocks);
                      }});
    projection_.Pack(executor);
  }

  // For `num_panels` panels: [F, num_panels * G * kTileCols].
  QuantizedRight Input(std::int64_t direction, std::int64_t panel,
                       std::int64_t num_panels) const {
    return Panels(scratch_.input, shape_.fan_in, direction, panel, num_panels);
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

  // Packs a block of W and one of R.
  void PackBlocks(std::int64_t direction, std::int64_t block) const {
    const std::int64_t panel = block / Cell::kGates;
    const std::int64_t gate = block % Cell::kGates;
    const std::int64_t col = block * kCols;
    if (!shape_.skips_input) {
      PackBlock(params_.Input(direction, InputGate<Cell>(gate)), panel,
                Input(direction, 0, panels_).Cols(col, kCols));
    }
    PackBlock(params_.Recurrent(direction, gate), panel,
              Recurrent(direction, 0, panels_).Cols(col, kCols));
  }
  // Packs the part of a gate's matrix for the units of a panel.
  void PackBlock(const MatrixView<const float>& matrix, std::int64_t panel,
                 const QuantizedRight& to) const {
    for (std::int64_t col = 0; col < kCols; ++col) {
      const std::int64_t unit = panel * kCols + col;
      QuantizeColumn(
          [&](std::int64_t k) {
            if (unit >= shape_.units) return 0.0f;
            return params_.is_transposed() ? *matrix.At(k, unit)
                                           : *matrix.At(unit, k);
          },
          to, col);
    }
  }

  QuantizedRight Panels(const QuantizedColumns& columns, std::int64_t depth,
                        std::int64_t direction, std::int64_t panel,
                        std::int64_t num_panels) const {
    const std::int64_t cols = panels_ * kPanelCols;
    const std::int64_t size =
        panels_ * Cell::kGates * QuantizedRight::BlockSize(depth);
    const QuantizedRight all{columns.data + direction * size,
                             columns.scales + direction * cols,
                             columns.sums + direction * cols, depth, cols};
    return all.Cols(panel * kPanelCols, num_panels * kPanelCols);
  }

  const QuantizedWeightsMemory scratch_;
  const LayerShape shape_;
  const LayerParams<const float> params_;
  const std::int64_t panels_;  // of units
  const ProjectionWeights<float> projection_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_QUANTIZED_WEIGHTS_H_
