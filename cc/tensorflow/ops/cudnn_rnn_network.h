// Shared by the definitions of the CudnnRNN ops: their attributes, and the
// sizes derived from these and from the sizes of a network.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_OPS_CUDNN_RNN_NETWORK_H_
#define TF_RNN_OPS_CC_TENSORFLOW_OPS_CUDNN_RNN_NETWORK_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/rnn_config.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_rnn_ops {

// The network that the attributes of an op and the shapes of its inputs
// describe. Sizes that these do not determine are unknown.
class CudnnRnnNetwork {
 public:
  using DimensionHandle = tensorflow::shape_inference::DimensionHandle;
  using InferenceContext = tensorflow::shape_inference::InferenceContext;

  explicit CudnnRnnNetwork(InferenceContext* c);

  // Reads those of the attributes above that the op has. Rejects invalid ones.
  absl::Status ReadAttributes();

  std::int64_t num_gates() const {
    return rnn::TraitsOf(attributes_.mode).gates;
  }
  std::int64_t num_directions() const { return attributes_.num_directions; }
  bool has_cell_state() const {
    return rnn::TraitsOf(attributes_.mode).has_cell_state;
  }

  DimensionHandle num_layers() const { return num_layers_; }
  DimensionHandle num_units() const { return num_units_; }
  DimensionHandle input_size() const { return input_size_; }
  void set_num_layers(DimensionHandle size) { num_layers_ = size; }
  void set_num_units(DimensionHandle size) { num_units_ = size; }
  void set_input_size(DimensionHandle size) { input_size_ = size; }

  // The size of the hidden state and its name: num_proj, or num_units if that
  // attribute is 0.
  DimensionHandle output_size() const;
  const char* output_size_name() const;
  void set_output_size(DimensionHandle size);

  // Completes the sizes and rejects those that do not fit the attributes. Call
  // it after all sizes are set.
  absl::Status Finish();

  // Whether each pseudo-layer has a projection matrix. nullopt if that depends
  // on an unknown num_units.
  std::optional<bool> has_projection() const;
  // The number of columns of the input matrices of layer 0.
  DimensionHandle FirstInputColumns() const;
  // The size of a layer's output over all directions. It is the number of
  // columns of the input matrices of the next layer.
  absl::Status OutputWidth(DimensionHandle* width) const;
  // The number of elements of params.
  absl::Status ParamsSize(DimensionHandle* size) const;

 private:
  absl::Status TooLarge() const;

  InferenceContext* const c_;
  rnn::NetworkAttributes attributes_;
  DimensionHandle num_layers_;
  DimensionHandle num_units_;
  DimensionHandle input_size_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_OPS_CUDNN_RNN_NETWORK_H_
