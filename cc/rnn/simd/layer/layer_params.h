// Views of a layer's matrices and biases in the weights of the network.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The weights of some units of a gate: a matrix [depth, units].
// P: the type of the weights.
template <typename P>
struct UnitWeights {
  MatrixView<const P> stored;
  bool is_transposed;  // whether `stored` is [units, depth]

  std::int64_t units() const {
    return is_transposed ? stored.rows : stored.cols;
  }
  P At(std::int64_t k, std::int64_t unit) const {
    return is_transposed ? *stored.At(unit, k) : *stored.At(k, unit);
  }
};

// Sizes: see layer_shape.h. E: the type of the weights, possibly const.
template <typename E>
class LayerParams {
 public:
  using Biases = std::array<E*, MaxBlocks()>;  // by gate

  // weights: of the whole network; none if not read or written. Not copied.
  LayerParams(const RnnConfig& config, const LayerShape& shape,
              const Weights<E>& weights)
      : layout_(config),
        mode_(config.mode),
        num_gates_(config.num_gates()),
        shape_(shape),
        weights_(weights) {}

  // The first column of a gate in Keras's weights.
  std::int64_t KerasCol(std::int64_t gate) const {
    gate = KerasPlace(mode_, gate);
    if (weights_.has_new_cell_second && (gate == 1 || gate == 2)) {
      gate = 3 - gate;
    }
    return gate * shape_.units;
  }
  // Whether Input and Recurrent return transposes.
  bool is_transposed() const { return weights_.is_keras(); }

  // W of a gate, [U, F].
  MatrixView<E> Input(std::int64_t direction, std::int64_t gate) const {
    if (is_transposed()) {
      return KerasGate(weights_.kernel, shape_.fan_in, gate);
    }
    return CudnnGate(layout_.InputMatrix(shape_.PseudoLayer(direction)), gate);
  }
  // R of a gate, [U, O].
  MatrixView<E> Recurrent(std::int64_t direction, std::int64_t gate) const {
    if (is_transposed()) {
      return KerasGate(weights_.recurrent_kernel, shape_.units, gate);
    }
    return CudnnGate(layout_.RecurrentMatrix(shape_.PseudoLayer(direction)),
                     gate);
  }
  // The part of a matrix from Input or Recurrent for some units.
  UnitWeights<std::remove_const_t<E>> OfUnits(const MatrixView<E>& matrix,
                                              std::int64_t unit,
                                              std::int64_t units) const {
    if (!is_transposed()) return {matrix.Rows(unit, units), true};
    return {BlockIfAny(matrix, 0, unit, matrix.rows, units), false};
  }
  // P, [O, U].
  MatrixView<E> Projection(std::int64_t direction) const {
    return View(layout_.Projection(shape_.PseudoLayer(direction)));
  }
  // bW of each gate, [U], or null for zeros.
  Biases InputBiases(std::int64_t direction) const {
    return OfGates(
        [&](std::int64_t gate) { return InputBias(direction, gate); });
  }
  // bR of each gate, [U], or null for zeros.
  Biases RecurrentBiases(std::int64_t direction) const {
    return OfGates(
        [&](std::int64_t gate) { return RecurrentBias(direction, gate); });
  }

 private:
  template <typename BiasOf>
  Biases OfGates(const BiasOf& bias_of) const {
    Biases biases{};
    for (std::int64_t gate = 0; gate < num_gates_; ++gate) {
      biases[gate] = bias_of(gate);
    }
    return biases;
  }
  E* InputBias(std::int64_t direction, std::int64_t gate) const {
    if (is_transposed()) return KerasBias(/*row=*/0, gate);
    return CudnnGate(layout_.InputBias(shape_.PseudoLayer(direction)), gate)
        .data;
  }
  E* RecurrentBias(std::int64_t direction, std::int64_t gate) const {
    if (is_transposed()) {
      return KerasBiasRows(mode_) > 1 ? KerasBias(/*row=*/1, gate) : nullptr;
    }
    return CudnnGate(layout_.RecurrentBias(shape_.PseudoLayer(direction)), gate)
        .data;
  }

  MatrixView<E> View(const ParamsRegion& region) const {
    assert(weights_.params != nullptr);
    return {weights_.params + region.offset, region.rows, region.cols};
  }
  // The rows of one gate.
  MatrixView<E> CudnnGate(const ParamsRegion& region, std::int64_t gate) const {
    return View(region).Rows(gate * shape_.units, shape_.units);
  }

  // The columns of one gate, of an array [rows, G * U].
  MatrixView<E> KerasGate(E* array, std::int64_t rows,
                          std::int64_t gate) const {
    if (array == nullptr) return {nullptr, rows, shape_.units};  // no rows
    return MatrixView<E>(array, rows, num_gates_ * shape_.units)
        .Cols(KerasCol(gate), shape_.units);
  }
  E* KerasBias(std::int64_t row, std::int64_t gate) const {
    if (weights_.bias == nullptr) return nullptr;
    return weights_.bias + row * num_gates_ * shape_.units + KerasCol(gate);
  }

  CudnnRnnParamsLayout layout_;
  RnnMode mode_;
  std::int64_t num_gates_;
  LayerShape shape_;
  const Weights<E> weights_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_
