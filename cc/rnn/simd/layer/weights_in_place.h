// The weights of a layer where they lie, for products of a few rows.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_WEIGHTS_IN_PLACE_H_

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/matmul/block_matrix.h"
#include "cc/rnn/simd/matmul/dot_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer.
// P: the type of the params and of products' operands.
template <typename P, typename Cell>
class WeightsInPlace {
 public:
  using T = ComputeType<P>;

  // params: of the whole network.
  WeightsInPlace(const RnnConfig& config, const LayerShape& shape,
                 const P* params)
      : shape_(shape), params_(config, shape, params) {}

  // For a panel's units, out = W x in the first blocks, R h_prev in those from
  // kFirstRecurrent on, and the sum where both are.
  // x: [rows, F]; state: [rows, O]; out: [rows, kBlocks * kTileCols]
  void Multiply(std::int64_t direction, std::int64_t panel,
                const MatrixView<const P>& x, const LeftMatrix<P>& state,
                const MatrixView<T>& out) const {
    const std::int64_t unit = panel * kTileCols<T>;
    const std::int64_t units = Min(kTileCols<T>, shape_.units - unit);
    for (std::int64_t block = 0; block < Cell::kBlocks; ++block) {
      DotProduct<P> sum;
      if (block < Cell::kGates) {
        sum.Add(x,
                params_.OfGate(params_.Input(direction), InputGate<Cell>(block))
                    .Rows(unit, units));
      }
      if (block >= Cell::kFirstRecurrent) {
        const std::int64_t gate = block - Cell::kFirstRecurrent;
        sum.Add(state, params_.OfGate(params_.Recurrent(direction), gate)
                           .Rows(unit, units));
      }
      sum.Multiply(0, x.rows, 0, units, out.Cols(block * kTileCols<T>, units));
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
