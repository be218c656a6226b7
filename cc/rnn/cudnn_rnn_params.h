// The layout of cuDNN's params buffer: the offset of each matrix and bias.
//
// First come all matrices, pseudo-layer by pseudo-layer: the input matrix W,
// the recurrent matrix R and, with a projection, the projection P. Then come
// all biases, pseudo-layer by pseudo-layer: the input bias, then the recurrent
// bias. There is no padding. Matrices are row-major and applied as y = x * W^T.
// The gates of a matrix are consecutive, each [num_units, fan_in], and so are
// those of a bias, each [num_units].

#ifndef TF_RNN_OPS_CC_RNN_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_RNN_CUDNN_RNN_PARAMS_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// Number of elements of the params buffer, or -1 if it overflows std::int64_t.
std::int64_t CudnnRnnParamsSize(const RnnConfig& config);

// A matrix [rows, cols] in the params buffer. A bias has one column.
struct ParamsRegion {
  std::int64_t offset;  // of the first element
  std::int64_t rows;
  std::int64_t cols;

  std::int64_t size() const { return rows * cols; }
};

// Requires CudnnRnnParamsSize(config) >= 0.
class CudnnRnnParamsLayout {
 public:
  explicit CudnnRnnParamsLayout(const RnnConfig& config);

  std::int64_t size() const;

  // All gates of a pseudo-layer together.
  ParamsRegion InputMatrix(std::int64_t pseudo_layer) const;
  ParamsRegion RecurrentMatrix(std::int64_t pseudo_layer) const;
  ParamsRegion InputBias(std::int64_t pseudo_layer) const;
  ParamsRegion RecurrentBias(std::int64_t pseudo_layer) const;
  // [num_proj, num_units], of size 0 without a projection.
  ParamsRegion Projection(std::int64_t pseudo_layer) const;

  // The canonical form. For each pseudo-layer: the input matrices of the gates,
  // their recurrent matrices, and the projection if there is one. An input
  // matrix that skip_input omits is [num_units, 0].
  std::int64_t num_weights() const;
  ParamsRegion Weight(std::int64_t index) const;
  // For each pseudo-layer: the input biases of the gates, then the recurrent
  // ones, each [num_units].
  std::int64_t num_biases() const;
  ParamsRegion Bias(std::int64_t index) const;

 private:
  std::int64_t InputColumns(std::int64_t pseudo_layer) const;
  // The elements of a pseudo-layer's matrices W, R and P.
  std::int64_t MatricesSize(std::int64_t pseudo_layer) const;
  std::int64_t MatricesOffset(std::int64_t pseudo_layer) const;
  std::int64_t BiasesOffset(std::int64_t pseudo_layer) const;

  const RnnConfig config_;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_CUDNN_RNN_PARAMS_H_
