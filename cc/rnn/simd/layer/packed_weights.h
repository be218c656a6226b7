// The weights of a layer, packed for the products of its passes, in any format
// of weight_formats.h.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_PACKED_WEIGHTS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_PACKED_WEIGHTS_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/weight_formats.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A panel holds the columns of kTileCols units: G blocks, one for each gate.
// This is the number of columns in the panels of a layer's units.
template <typename T>
std::int64_t PanelCols(std::int64_t gates, std::int64_t units) {
  return gates * CeilDiv(units, kTileCols<T>) * kTileCols<T>;
}
template <typename T>
std::int64_t PanelCols(const RnnConfig& config) {
  return PanelCols<T>(config.num_gates(), config.num_units);
}
// The same for the gates that multiply h_prev.
template <typename T>
std::int64_t RecurrentPanelCols(const RnnConfig& config) {
  return PanelCols<T>(config.num_recurrent_gates(), config.num_units);
}

// Fills a row of panels with value(block, unit).
// row: [PanelCols of kGates]
template <std::int64_t kGates, typename T, typename Value>
void FillPanels(std::int64_t units, const Value& value, T* row) {
  constexpr std::int64_t kPanelCols = kGates * kTileCols<T>;
  const std::int64_t cols = CeilDiv(units, kTileCols<T>) * kPanelCols;
  for (std::int64_t col = 0; col < cols; ++col) {
    const std::int64_t unit =
        col / kPanelCols * kTileCols<T> + col % kTileCols<T>;
    row[col] =
        unit < units ? value(col % kPanelCols / kTileCols<T>, unit) : T(0);
  }
}

// An element of a bias, or zero if the bias is null.
template <typename P>
ComputeType<P> ElementOr0(const P* bias, std::int64_t unit) {
  return bias == nullptr ? ComputeType<P>(0) : Widened(bias[unit]);
}

// Memory for the weights of a layer. Sizes: see cc/rnn/network.h; F = fan_in
// of the layer, G = gates, Q = gates that multiply h_prev.
// Products: a format of weight_formats.h
template <typename Products>
struct PanelWeightsMemory {
  using P = typename Products::Operand;

  typename Products::Input input;          // of [F, panels of U, G * kTileCols]
  typename Products::Recurrent recurrent;  // of [O, panels of U, Q * kTileCols]
  P* second = nullptr;  // [D] right operands [U, O], of the second half

  // Null pointers, for weights that are not packed.
  PanelWeightsMemory() = default;
  // fan_in: of the layer; or the largest, for any layer of the network.
  PanelWeightsMemory(const RnnConfig& config, std::int64_t fan_in, Arena& arena)
      : input(config.num_directions, fan_in, PanelCols<P>(config), arena),
        recurrent(config.num_directions, config.output_size(),
                  RecurrentPanelCols<P>(config), arena),
        second(arena.Take<P>(
            CheckedInt(config.num_directions) *
            MutableRightMatrix<P>::Size(
                CheckedInt(config.has_second_half() ? config.num_units : 0),
                config.output_size()))) {}
};

// The transposed matrices, for x Wᵀ and h Rᵀ, and for m Pᵀ or m R_nᵀ of a
// second half. The blocks of all gates of the same units are adjacent.
template <typename Products, typename Cell>
class PanelWeights {
 public:
  using P = typename Products::Operand;
  using Right = MutableRightMatrix<P>;

  // weights: of the whole network.
  PanelWeights(const RnnConfig& config, const LayerShape& shape,
               const Weights<const P>& weights,
               const PanelWeightsMemory<Products>& memory)
      : memory_(memory),
        shape_(shape),
        params_(config, shape, weights),
        panels_(CeilDiv(shape.units, kTileCols<P>)) {}

  // Call before reading the matrices below. Tasks are ordered by direction and
  // panel, like those of the steps, so that a thread finds in its cache the
  // weights that it multiplies.
  void Pack(Executor& executor) const {
    if constexpr (Products::kScalesFeatures) {
      if (!shape_.skips_input) FindFactors(executor);
    }
    const std::int64_t num_blocks = panels_ * Cell::kGates;
    RunTogether(executor,
                Tasks{shape_.directions * num_blocks, [&](std::int64_t task) {
                        PackBlocks(task / num_blocks, task % num_blocks);
                      }});
    if constexpr (kHasFinish<Cell>) {
      assert(params_.is_transposed());
      PackSecond<PackWork<MatrixView<const P>, Right>>(
          [&](std::int64_t d) {
            return params_.Recurrent(d, Cell::kGates - 1);
          },
          executor);
    } else if (shape_.is_projected) {
      PackSecond<PackTransposedWork<P, Right>>(
          [&](std::int64_t d) { return params_.Projection(d); }, executor);
    }
  }

  // For `num_panels` panels: [F, num_panels * G * kTileCols].
  auto Input(std::int64_t direction, std::int64_t panel,
             std::int64_t num_panels) const {
    return Panels<Cell::kGates>(memory_.input, shape_.fan_in, direction, panel,
                                num_panels);
  }
  // [O, num_panels * Q * kTileCols]
  auto Recurrent(std::int64_t direction, std::int64_t panel,
                 std::int64_t num_panels) const {
    return Panels<Cell::kRecurrentGates>(memory_.recurrent, shape_.output_size,
                                         direction, panel, num_panels);
  }
  // [U, O]
  Right Second(std::int64_t direction) const {
    return {memory_.second +
                direction * SizeOf<Right>(shape_.units, shape_.output_size),
            shape_.units, shape_.output_size};
  }

 private:
  // matrix_of(direction): the matrix of a second half
  template <typename Work, typename MatrixOf>
  void PackSecond(const MatrixOf& matrix_of, Executor& executor) const {
    WorkList<Work> matrices;
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      matrices.Add({matrix_of(d), Second(d)});
    }
    RunTogether(executor, matrices);
  }

  // Finds the factors of the features, of some features in each task.
  void FindFactors(Executor& executor) const {
    constexpr std::int64_t kFeatures = 16;
    const std::int64_t groups = CeilDiv(shape_.fan_in, kFeatures);
    RunTogether(executor,
                Tasks{shape_.directions * groups, [&](std::int64_t task) {
                        const std::int64_t d = task / groups;
                        const std::int64_t k = task % groups * kFeatures;
                        Products::FindFactors(
                            Cell::kGates,
                            [&](std::int64_t gate) {
                              return params_.OfUnits(params_.Input(d, gate), 0,
                                                     shape_.units);
                            },
                            k, Min(kFeatures, shape_.fan_in - k),
                            Input(d, 0, panels_).factors);
                      }});
  }

  // Packs a block of W and, if the gate multiplies h_prev, one of R.
  void PackBlocks(std::int64_t direction, std::int64_t block) const {
    const std::int64_t gate = block % Cell::kGates;
    const std::int64_t panel = block / Cell::kGates;
    const std::int64_t unit = panel * kTileCols<P>;
    const std::int64_t units = Min(kTileCols<P>, shape_.units - unit);
    if (!shape_.skips_input) {
      const auto matrix = params_.Input(direction, InputGate<Cell>(gate));
      Products::Pack(params_.OfUnits(matrix, unit, units),
                     Input(direction, 0, panels_)
                         .Cols(block * kTileCols<P>, kTileCols<P>));
    }
    if (gate >= Cell::kRecurrentGates) return;
    const std::int64_t recurrent_block = panel * Cell::kRecurrentGates + gate;
    Products::Pack(
        params_.OfUnits(params_.Recurrent(direction, gate), unit, units),
        Recurrent(direction, 0, panels_)
            .Cols(recurrent_block * kTileCols<P>, kTileCols<P>));
  }

  // A range of panels [depth, gates * kTileCols], of the memory of all panels.
  template <std::int64_t kGates, typename Memory>
  auto Panels(const Memory& memory, std::int64_t depth, std::int64_t direction,
              std::int64_t panel, std::int64_t num_panels) const {
    constexpr std::int64_t kCols = kGates * kTileCols<P>;
    return memory.Of(direction, depth, panels_ * kCols)
        .Cols(panel * kCols, num_panels * kCols);
  }

  const PanelWeightsMemory<Products> memory_;
  const LayerShape shape_;
  const LayerParams<const P> params_;
  const std::int64_t panels_;  // of units
};

// The weights and biases of a layer, as the forward pass reads them.
template <typename Products>
struct PackedLayer {
  using T = ComputeType<typename Products::Operand>;
  using Memory = PanelWeightsMemory<Products>;

  Memory weights;     // null if read in place
  T* bias = nullptr;  // [D, panels of U, G * kTileCols]
  // [D, U], of the gate that is not in `bias`, if any
  T* recurrent_bias = nullptr;

  // Null pointers.
  PackedLayer() = default;
  PackedLayer(const RnnConfig& config, std::int64_t layer, Arena& arena)
      : PackedLayer(config,
                    config.skip_input && layer == 0 ? 0 : config.fan_in(layer),
                    /*reads_weights_in_place=*/false, arena) {}
  // fan_in: of the layer; or the largest, for any layer of the network.
  PackedLayer(const RnnConfig& config, std::int64_t fan_in,
              bool reads_weights_in_place, Arena& arena)
      : weights(reads_weights_in_place ? Memory()
                                       : Memory(config, fan_in, arena)) {
    const CheckedInt directions = config.num_directions;
    const bool has_recurrent_bias =
        TraitsOf(config.mode).blocks > config.num_gates();
    bias = arena.Take<T>(directions * PanelCols<T>(config));
    recurrent_bias =
        arena.Take<T>(directions * (has_recurrent_bias ? config.num_units : 0));
  }
};

// Fills the biases of a layer. What is added to W x is the sum of both biases,
// except for the GRU gate whose recurrent bias is added elsewhere.
template <typename Cell, typename P, typename Products>
void PackBiases(const RnnConfig& config, const LayerShape& shape,
                const Weights<const P>& weights,
                const PackedLayer<Products>& packed) {
  using T = ComputeType<P>;
  const LayerParams<const P> params(config, shape, weights);
  for (std::int64_t d = 0; d < shape.directions; ++d) {
    const auto input = params.InputBiases(d);
    const auto recurrent = params.RecurrentBiases(d);
    if constexpr (Cell::kFirstRecurrent > 0) {
      const P* const bias = recurrent[InputGate<Cell>(0)];
      for (std::int64_t unit = 0; unit < shape.units; ++unit) {
        packed.recurrent_bias[d * shape.units + unit] = ElementOr0(bias, unit);
      }
    }
    FillPanels<Cell::kGates>(
        shape.units,
        [&](std::int64_t block, std::int64_t unit) {
          const std::int64_t gate = InputGate<Cell>(block);
          T sum = ElementOr0(input[gate], unit);
          if constexpr (Cell::kIsBlockLstm) {
            if (gate == 1) sum += config.block_lstm.forget_bias;
          }
          return block < Cell::kFirstRecurrent
                     ? sum
                     : sum + ElementOr0(recurrent[gate], unit);
        },
        packed.bias + d * PanelCols<T>(config));
  }
}

// Scratch memory for any layer of the network.
template <typename P>
struct GateWeightsScratch {
  using Right = MutableRightMatrix<P>;

  P* input = nullptr;       // [D, G] right operands [U, F]
  P* recurrent = nullptr;   // [D, G] right operands [U, O]
  P* projection = nullptr;  // [D] right operands [O, U]

  // Null pointers, for weights that are not packed.
  GateWeightsScratch() = default;
  GateWeightsScratch(const RnnConfig& config, Arena& arena) {
    const CheckedInt directions = config.num_directions;
    const CheckedInt units = config.num_units;
    const std::int64_t gates = config.num_gates();
    const std::int64_t output_size = config.output_size();
    input = arena.Take<P>(directions * gates *
                          Right::Size(units, config.largest_fan_in()));
    recurrent =
        arena.Take<P>(directions * gates * Right::Size(units, output_size));
    projection =
        arena.Take<P>(directions * (config.num_proj > 0 ? 1 : 0) *
                      Right::Size(CheckedInt(output_size), config.num_units));
  }
};

// The matrices without transposition, gate by gate, for d_a W, d_b R and d_h P.
template <typename P, typename Cell>
class GateWeights {
 public:
  using Right = MutableRightMatrix<P>;

  // weights: of the whole network.
  GateWeights(const RnnConfig& config, const LayerShape& shape,
              const Weights<const P>& weights,
              const GateWeightsScratch<P>& scratch)
      : scratch_(scratch), shape_(shape), params_(config, shape, weights) {}

  // Call before reading the matrices below. has_input: whether Input is read.
  void Pack(bool has_input, Executor& executor) const {
    if (params_.is_transposed()) {
      PackWith<PackTransposedWork<P, Right>>(has_input, executor);
    } else {
      PackWith<PackWork<MatrixView<const P>, Right>>(has_input, executor);
    }
  }

  // [U, F]
  Right Input(std::int64_t direction, std::int64_t gate) const {
    return Nth(direction * Cell::kGates + gate, scratch_.input, shape_.units,
               shape_.fan_in);
  }
  // [U, O]
  Right Recurrent(std::int64_t direction, std::int64_t gate) const {
    return Nth(direction * Cell::kGates + gate, scratch_.recurrent,
               shape_.units, shape_.output_size);
  }
  // [O, U], of the second half of a step
  Right Second(std::int64_t direction) const {
    if constexpr (kHasFinish<Cell>) {
      return Recurrent(direction, Cell::kGates - 1);
    } else {
      return Nth(direction, scratch_.projection, shape_.output_size,
                 shape_.units);
    }
  }

 private:
  template <typename Work>
  void PackWith(bool has_input, Executor& executor) const {
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      WorkList<Work> weights;
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        weights.Add({params_.Recurrent(d, gate), Recurrent(d, gate)});
        if (!has_input || shape_.skips_input) continue;
        weights.Add({params_.Input(d, gate), Input(d, gate)});
      }
      if (shape_.is_projected) {
        weights.Add({params_.Projection(d), Second(d)});
      }
      RunTogether(executor, weights);
    }
  }

  // One of the consecutive matrices [rows, cols] in an array.
  static Right Nth(std::int64_t index, P* array, std::int64_t rows,
                   std::int64_t cols) {
    return {array + index * SizeOf<Right>(rows, cols), rows, cols};
  }

  const GateWeightsScratch<P> scratch_;
  const LayerShape shape_;
  const LayerParams<const P> params_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_PACKED_WEIGHTS_H_
