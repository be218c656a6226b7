// The sizes of a network of the CudnnRNN ops.

#ifndef TF_RNN_OPS_CC_OPS_NETWORK_SIZES_H_
#define TF_RNN_OPS_CC_OPS_NETWORK_SIZES_H_

#include <cstdint>
#include <optional>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The sizes that an op's attributes and inputs determine. Read num_layers,
// num_units and input_size, then call Complete.
class NetworkSizes {
 public:
  explicit NetworkSizes(const CudnnRnnAttributes& attributes)
      : attributes_(attributes), num_proj_("num_proj", attributes.num_proj()) {}
  // Sizes refer to one another.
  NetworkSizes(const NetworkSizes&) = delete;

  // Reads the sizes from the inputs of the same names.
  Status Read(CallFrame* frame);

  // Rejects sizes that do not fit the attributes or one another, and networks
  // whose number of params overflows.
  Status Complete();

  Size num_layers{"num_layers"};
  Size num_units{"num_units"};
  Size input_size{"input_size"};
  Size params_size{"params_size"};
  // The size of the hidden state.
  Size& output_size() {
    return attributes_.num_proj() > 0 ? num_proj_ : num_units;
  }
  // The size of a layer's output over all directions. It is the number of
  // columns of the input matrices of the next layer.
  Dimension OutputWidth() {
    return {attributes_.num_directions(), output_size(), "num_directions"};
  }

  bool is_complete() const {
    return num_layers.is_known() && num_units.is_known() &&
           input_size.is_known();
  }
  // Unknown sizes are negative.
  rnn::RnnConfig config() const;

  // Rejects a number of weights or biases that does not fit the network.
  Status CheckCounts(std::int64_t num_weights, std::int64_t num_biases) const;
  // The shape of a weight. CheckCounts must have accepted the counts.
  Shape WeightShape(std::int64_t index, std::int64_t num_weights,
                    std::int64_t num_biases);
  Shape BiasShape() { return ShapeOf({num_units}); }

 private:
  // Whether each pseudo-layer has a projection matrix. nullopt if that depends
  // on an unknown num_units.
  std::optional<bool> has_projection() const;
  // The number of columns of the input matrices of layer 0.
  std::int64_t FirstInputColumns() const;

  const CudnnRnnAttributes& attributes_;
  Size num_proj_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_NETWORK_SIZES_H_
