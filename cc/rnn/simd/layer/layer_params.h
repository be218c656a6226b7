// A layer's matrices and biases, where they lie in a params buffer.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/matmul/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in layer_shape.h. E: the type of the params, or const that.
template <typename E>
class LayerParams {
 public:
  // params: of the whole network; null if nothing is read or written.
  LayerParams(const RnnConfig& config, const LayerShape& shape, E* params)
      : layout_(config), shape_(shape), params_(params) {}

  // [G * U, F], W
  MatrixView<E> Input(std::int64_t direction) const {
    return View(layout_.InputMatrix(shape_.PseudoLayer(direction)));
  }
  // [G * U, O], R
  MatrixView<E> Recurrent(std::int64_t direction) const {
    return View(layout_.RecurrentMatrix(shape_.PseudoLayer(direction)));
  }
  // [U, ...]: the rows of one gate of these.
  MatrixView<E> OfGate(const MatrixView<E>& matrix, std::int64_t gate) const {
    return matrix.Rows(gate * shape_.units, shape_.units);
  }
  // [O, U], P
  MatrixView<E> Projection(std::int64_t direction) const {
    return View(layout_.Projection(shape_.PseudoLayer(direction)));
  }
  // [G * U], bW
  E* InputBias(std::int64_t direction) const {
    return View(layout_.InputBias(shape_.PseudoLayer(direction))).data;
  }
  // [G * U], bR
  E* RecurrentBias(std::int64_t direction) const {
    return View(layout_.RecurrentBias(shape_.PseudoLayer(direction))).data;
  }

 private:
  MatrixView<E> View(const ParamsRegion& region) const {
    assert(params_ != nullptr);
    return {params_ + region.offset, region.rows, region.cols};
  }

  CudnnRnnParamsLayout layout_;
  LayerShape shape_;
  E* params_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_PARAMS_H_
