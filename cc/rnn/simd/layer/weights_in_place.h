// The weights of a layer where they lie, for products of a few rows.

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
#include "cc/rnn/simd/matmul/block_matrix.h"
#include "cc/rnn/simd/matmul/dot_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// What products with Keras's weights need for their rows, at most as many as
// are in the batch.
template <typename P>
struct KerasProductScratch {
  P* packed;              // [PackedChunkSize]
  ComputeType<P>* block;  // [rows, MostPanels * kTileCols]

  // How many panels are multiplied at once.
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
  // A worker's part of what all have.
  KerasProductScratch OfWorker(const RnnSize& size, int worker) const {
    return {packed + worker * PackedSize(size).value(),
            block + worker * BlockSize(size).value()};
  }
};

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer.
// P: the type of the params and of products' operands.
template <typename P, typename Cell>
class WeightsInPlace {
 public:
  using T = ComputeType<P>;

  // weights: of the whole network.
  WeightsInPlace(const RnnConfig& config, const LayerShape& shape,
                 const Weights<const P>& weights)
      : shape_(shape), params_(config, shape, weights) {}

  // For a panel's units, out = W x in the first blocks, R h_prev in those from
  // kFirstRecurrent on, and the sum where both are: with cuDNN's weights.
  // x: [rows, F]; state: [rows, O]; out: [rows, kBlocks * kTileCols]
  void MultiplyCudnn(std::int64_t direction, std::int64_t panel,
                     const MatrixView<const P>& x, const LeftMatrix<P>& state,
                     const MatrixView<T>& out) const {
    const std::int64_t unit = panel * kTileCols<T>;
    const std::int64_t units = Min(kTileCols<T>, shape_.units - unit);
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      DotProduct<P> sum;
      if (block < Cell::kGates) {
        sum.Add(
            x,
            params_.Input(direction, InputGate<Cell>(block)).Rows(unit, units));
      }
      if (block >= Cell::kFirstRecurrent) {
        sum.Add(state,
                params_.Recurrent(direction, block - Cell::kFirstRecurrent)
                    .Rows(unit, units));
      }
      sum.Multiply(0, x.rows, 0, units, out.Cols(block * kTileCols<T>, units));
    }
  }

  // The same for several panels, with Keras's weights, of a type that products
  // take as it is. Long pieces of their rows are read at once.
  // out: [rows, num_panels * kBlocks * kTileCols]
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
      for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
        const bool has_input = block < Cell::kGates && x.cols > 0;
        const bool has_state = block >= Cell::kFirstRecurrent;
        WeightProduct<P, /*kTransposed=*/false> sum;
        if (has_input) {
          sum.Add(x, params_.Input(direction, InputGate<Cell>(block))
                         .Cols(unit, units));
        }
        if (has_state) {
          sum.Add(state,
                  params_.Recurrent(direction, block - Cell::kFirstRecurrent)
                      .Cols(unit, units));
        }
        if (has_input || has_state) {
          sum.Multiply(0, x.rows, 0, units, scratch.packed, block_out);
        } else {
          std::fill_n(block_out.data, block_out.rows * cols, T(0));
        }
        for (std::int64_t row = 0; row < out.rows; ++row) {
          for (std::int64_t p = 0; p < num_panels; ++p) {
            std::copy_n(
                block_out.At(row, p * kTileCols<T>), kTileCols<T>,
                out.At(row, (p * Cell::kBlocks + block) * kTileCols<T>));
          }
        }
      }
    }
  }

  // out = P m, for `cols` columns from `col` on.
  // m: [rows, U]
  void Project(std::int64_t direction, const LeftMatrix<P>& m, std::int64_t col,
               std::int64_t cols, const MatrixView<T>& out) const {
    DotProduct<P> product;
    product.Add(m, params_.Projection(direction));
    product.Multiply(0, m.rows, col, cols, out);
  }

 private:
  const LayerShape shape_;
  const LayerParams<const P> params_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_
