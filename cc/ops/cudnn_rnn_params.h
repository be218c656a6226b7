// The ops on the params buffer of CudnnRNN, for any device.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/network_sizes.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/join.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// CudnnRNNParamsSize. S: std::int32_t or std::int64_t, the type of the output.
template <typename S>
class CudnnRnnParamsSizeOp {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    NetworkSizes sizes(attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(sizes.Read(frame));
    const std::int64_t size = sizes.params_size.value();
    if (size > std::numeric_limits<S>::max()) {
      return InvalidArgument("S must be int64 for a params_size of ", size,
                             ", but is int32");
    }
    S* params_size = nullptr;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "params_size", {1}, &params_size));
    if (frame->has_values()) *params_size = static_cast<S>(size);
    return Status();
  }

 private:
  CudnnRnnAttributes attributes_;
};

// The engine of a device, for the ops below and adapters, is the class
// Engines::Copier. It copies within the memory of the device. Its members:
//
//   Status Init(CallFrame*);
//   Status Copy(const void* source, std::size_t num_bytes, void* target);

// CudnnRNNCanonicalToParams and CudnnRNNCanonicalToParamsV2.
template <typename Engines, typename E>
class CudnnRnnCanonicalToParamsOp {
  using Copier = typename Engines::Copier;

 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    NetworkSizes sizes(attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(sizes.Read(frame));
    std::vector<Array> weights, biases;
    TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInputs("weights", &weights));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInputs("biases", &biases));
    TF_RNN_OPS_RETURN_IF_ERROR(
        sizes.CheckCounts(weights.size(), biases.size()));

    // Check all shapes before allocating params: wrong sizes could request too
    // much memory.
    for (std::size_t i = 0; i < weights.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(CheckWeight(
          i, sizes.WeightShape(i, weights.size(), biases.size()), weights[i]));
    }
    for (std::size_t i = 0; i < biases.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(CheckShape(rnn::Join("biases[", i, "]"),
                                            "[num_units]", sizes.BiasShape(),
                                            biases[i]));
    }

    E* params = nullptr;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "params", {sizes.params_size.value()}, &params));
    if (!frame->has_values()) return Status();
    const rnn::CudnnRnnParamsLayout layout(sizes.config());
    Copier copier;
    TF_RNN_OPS_RETURN_IF_ERROR(copier.Init(frame));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Weight(i), weights[i], copier, params));
    }
    for (std::size_t i = 0; i < biases.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Bias(i), biases[i], copier, params));
    }
    return Status();
  }

 private:
  static Status CheckWeight(int index, const Shape& matrix,
                            const Array& weight) {
    const bool is_known = matrix.is_known() || matrix[0] == 0 || matrix[1] == 0;
    const Shape flat = {is_known ? matrix.NumElements() : kAnySize};
    if (weight.shape.Fits(matrix) || weight.shape.Fits(flat)) return Status();
    return InvalidArgument("weights[", index, "] must have the shape ",
                           matrix.ToString(), " or, flattened, ",
                           flat.ToString(), ", but has ",
                           weight.shape.ToString());
  }

  static Status Copy(const rnn::ParamsRegion& region, const Array& source,
                     Copier& copier, E* params) {
    return copier.Copy(source.data, region.size() * sizeof(E),
                       params + region.offset);
  }

  CudnnRnnAttributes attributes_;
};

// CudnnRNNParamsToCanonical and CudnnRNNParamsToCanonicalV2.
template <typename Engines, typename E>
class CudnnRnnParamsToCanonicalOp {
  using Copier = typename Engines::Copier;

 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    NetworkSizes sizes(attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(sizes.Read(frame));
    const int num_weights = frame->NumOutputs("weights");
    const int num_biases = frame->NumOutputs("biases");
    TF_RNN_OPS_RETURN_IF_ERROR(sizes.CheckCounts(num_weights, num_biases));
    Array params;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame, "params", {sizes.params_size}, &params));

    std::vector<Shape> weight_shapes;
    for (int i = 0; i < num_weights; ++i) {
      weight_shapes.push_back(sizes.WeightShape(i, num_weights, num_biases));
    }
    const std::vector<Shape> bias_shapes(num_biases, sizes.BiasShape());
    std::vector<Array> weights, biases;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutputs("weights", weight_shapes, &weights));
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutputs("biases", bias_shapes, &biases));
    if (!frame->has_values()) return Status();

    const rnn::CudnnRnnParamsLayout layout(sizes.config());
    Copier copier;
    TF_RNN_OPS_RETURN_IF_ERROR(copier.Init(frame));
    for (int i = 0; i < num_weights; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Weight(i), params.As<E>(), copier, weights[i]));
    }
    for (int i = 0; i < num_biases; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Bias(i), params.As<E>(), copier, biases[i]));
    }
    return Status();
  }

 private:
  static Status Copy(const rnn::ParamsRegion& region, const E* params,
                     Copier& copier, const Array& output) {
    return copier.Copy(params + region.offset, region.size() * sizeof(E),
                       output.data);
  }

  CudnnRnnAttributes attributes_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_H_
