// The ops on the params buffer of CudnnRNN, for any device.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/cudnn_rnn_params_inputs.h"
#include "cc/ops/status.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops {

// CudnnRNNParamsSize. S: std::int32_t or std::int64_t, the type of the output.
template <typename S>
class CudnnRnnParamsSizeCall {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    rnn::RnnConfig config;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadConfig(frame, attributes_, &config));
    const std::int64_t size = rnn::CudnnRnnParamsSize(config);
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

// A Copier copies within the memory of one device:
//
//   Status Init(CallFrame*);
//   Status Copy(const void* source, std::size_t num_bytes, void* target);

// CudnnRNNCanonicalToParams and CudnnRNNCanonicalToParamsV2.
template <typename Copier, typename E>
class CudnnRnnCanonicalToParamsCall {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    rnn::RnnConfig config;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadConfig(frame, attributes_, &config));
    std::vector<Array> weights, biases;
    TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInputs("weights", &weights));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInputs("biases", &biases));
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckCounts(config, weights.size(), biases.size()));

    // Check all shapes before allocating params: wrong sizes could request too
    // much memory.
    const rnn::CudnnRnnParamsLayout layout(config);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(CheckWeight(i, layout.Weight(i), weights[i]));
    }
    for (std::size_t i = 0; i < biases.size(); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(CheckBias(i, layout.Bias(i), biases[i]));
    }

    E* params = nullptr;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "params", {layout.size()}, &params));
    if (!frame->has_values()) return Status();
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
  static Status CheckWeight(int index, const rnn::ParamsRegion& region,
                            const Array& weight) {
    if (weight.shape.Fits({region.rows, region.cols}) ||
        weight.shape.Fits({region.size()})) {
      return Status();
    }
    return InvalidArgument("weights[", index, "] must have the shape [",
                           region.rows, ",", region.cols, "] or, flattened, [",
                           region.size(), "], but has ",
                           weight.shape.ToString());
  }

  static Status CheckBias(int index, const rnn::ParamsRegion& region,
                          const Array& bias) {
    return CheckShape("biases[" + std::to_string(index) + "]", "[num_units]",
                      {region.size()}, bias);
  }

  static Status Copy(const rnn::ParamsRegion& region, const Array& source,
                     Copier& copier, E* params) {
    return copier.Copy(source.data, region.size() * sizeof(E),
                       params + region.offset);
  }

  CudnnRnnAttributes attributes_;
};

// CudnnRNNParamsToCanonical and CudnnRNNParamsToCanonicalV2.
template <typename Copier, typename E>
class CudnnRnnParamsToCanonicalCall {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    rnn::RnnConfig config;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadConfig(frame, attributes_, &config));
    const int num_weights = frame->NumOutputs("weights");
    const int num_biases = frame->NumOutputs("biases");
    TF_RNN_OPS_RETURN_IF_ERROR(CheckCounts(config, num_weights, num_biases));
    const rnn::CudnnRnnParamsLayout layout(config);
    const E* params;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame, "params", "[params_size]", {layout.size()}, &params));

    std::vector<Shape> weight_shapes, bias_shapes;
    for (int i = 0; i < num_weights; ++i) {
      const rnn::ParamsRegion region = layout.Weight(i);
      weight_shapes.push_back({region.rows, region.cols});
    }
    for (int i = 0; i < num_biases; ++i) {
      bias_shapes.push_back({layout.Bias(i).size()});
    }
    std::vector<Array> weights, biases;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutputs("weights", weight_shapes, &weights));
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutputs("biases", bias_shapes, &biases));
    if (!frame->has_values()) return Status();

    Copier copier;
    TF_RNN_OPS_RETURN_IF_ERROR(copier.Init(frame));
    for (int i = 0; i < num_weights; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Weight(i), params, copier, weights[i]));
    }
    for (int i = 0; i < num_biases; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          Copy(layout.Bias(i), params, copier, biases[i]));
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
