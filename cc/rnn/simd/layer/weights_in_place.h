// Products of few rows with the weights of a layer, read in place.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/matmul/dot_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Scratch memory of products with Keras's weights, for up to `batch` rows.
template <typename P>
struct KerasProductScratch {
  P* packed;              // [PackedChunkSize]
  ComputeType<P>* block;  // [rows, MostPanels * kTileCols]

  // Number of panels multiplied at once.
  static std::int64_t MostPanels(std::int64_t batch) {
    return GroupSize<ComputeType<P>>(batch, /*blocks=*/1);
  }
  static CheckedInt PackedSize(const RnnSize& size) {
    return PackedChunkSize<P>(size.batch);
  }
  static CheckedInt BlockSize(const RnnSize& size) {
    return CheckedInt(size.batch) * MostPanels(size.batch) *
           kTileCols<ComputeType<P>>;
  }
  // The part of one worker.
  KerasProductScratch OfWorker(const RnnSize& size, int worker) const {
    return {packed + worker * PackedSize(size).value(),
            block + worker * BlockSize(size).value()};
  }
};

// Sizes: see cc/rnn/network.h; F = fan_in of the layer.
// P: the type of params and product operands.
template <typename P, typename Cell>
class WeightsInPlace {
 public:
  using T = ComputeType<P>;

  // weights: of the whole network.
  WeightsInPlace(const RnnConfig& config, const LayerShape& shape,
                 const Weights<const P>& weights)
      : shape_(shape), params_(config, shape, weights) {}

  // For the units of a panel and cuDNN's weights, computes W x in the first
  // blocks, R h_prev in the blocks from kFirstRecurrent on, and their sum in
  // blocks with both.
  // x: [rows, F]; state: [rows, O]; out: [rows, kBlocks * kTileCols]
  void MultiplyCudnn(std::int64_t direction, std::int64_t panel,
                     const MatrixView<const P>& x, const LeftMatrix<P>& state,
                     const MatrixView<T>& out) const {
    const std::int64_t unit = panel * kTileCols<T>;
    const std::int64_t units = Min(kTileCols<T>, shape_.units - unit);
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      Factors<DotProduct<P>>(direction, block, unit, units, x, state)
          .Multiply(0, x.rows, 0, units, out.Cols(block * kTileCols<T>, units));
    }
  }

  // The same for several panels and Keras's weights, if operands are not
  // rounded. Reads long pieces of the weights' rows at once. If a step has a
  // second half, only for the blocks with R h_prev.
  // out: [rows, num_panels * kBlocksAtOnce * kTileCols]
  void MultiplyKeras(std::int64_t direction, std::int64_t panel,
                     std::int64_t num_panels, const LeftMatrix<P>& x,
                     const LeftMatrix<P>& state,
                     const KerasProductScratch<P>& scratch,
                     const MatrixView<T>& out) const {
    if constexpr (!kRoundsOperands<P>) {
      const std::int64_t unit = panel * kTileCols<T>;
      const std::int64_t cols = num_panels * kTileCols<T>;
      const std::int64_t units = Min(cols, shape_.units - unit);
      const MatrixView<T> block_out(scratch.block, out.rows, cols);
      for (std::int64_t block = 0; block < kBlocksAtOnce; ++block) {
        Factors<WeightProduct<P, /*kTransposed=*/false>>(direction, block, unit,
                                                         units, x, state)
            .Multiply(0, x.rows, 0, units, scratch.packed, block_out);
        for (std::int64_t row = 0; row < out.rows; ++row) {
          for (std::int64_t p = 0; p < num_panels; ++p) {
            std::copy_n(
                block_out.At(row, p * kTileCols<T>), kTileCols<T>,
                out.At(row, (p * kBlocksAtOnce + block) * kTileCols<T>));
          }
        }
      }
    }
  }

  // out = x W + m R of the last gate, for some units and Keras's weights, in
  // the second half of a step. m: [rows, U]
  void MultiplySecondKeras(std::int64_t direction, std::int64_t unit,
                           const LeftMatrix<P>& x, const LeftMatrix<P>& m,
                           const KerasProductScratch<P>& scratch,
                           const MatrixView<T>& out) const {
    if constexpr (!kRoundsOperands<P>) {
      const std::int64_t units = Min(out.cols, shape_.units - unit);
      Factors<WeightProduct<P, /*kTransposed=*/false>>(
          direction, Cell::kGates - 1, unit, units, x, m)
          .Multiply(0, x.rows, 0, units, scratch.packed, out);
    }
  }

  // The blocks that MultiplyKeras computes.
  static constexpr std::int64_t kBlocksAtOnce =
      kHasFinish<Cell> ? Cell::kRecurrentGates : Cell::kBlocks;

  // out = P m, for `cols` columns starting at `col`.
  // m: [rows, U]
  void Project(std::int64_t direction, const LeftMatrix<P>& m, std::int64_t col,
               std::int64_t cols, const MatrixView<T>& out) const {
    DotProduct<P> product;
    product.Add(m, params_.Projection(direction));
    product.Multiply(0, m.rows, col, cols, out);
  }

 private:
  // The factors of a block's sum, for some units.
  template <typename Product, typename X>
  Product Factors(std::int64_t direction, std::int64_t block, std::int64_t unit,
                  std::int64_t units, const X& x,
                  const LeftMatrix<P>& state) const {
    Product product;
    if (block < Cell::kGates) {
      const auto matrix = params_.Input(direction, InputGate<Cell>(block));
      product.Add(x, params_.OfUnits(matrix, unit, units).stored);
    }
    if (block >= Cell::kFirstRecurrent) {
      const auto matrix =
          params_.Recurrent(direction, block - Cell::kFirstRecurrent);
      product.Add(state, params_.OfUnits(matrix, unit, units).stored);
    }
    return product;
  }

  const LayerShape shape_;
  const LayerParams<const P> params_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_
