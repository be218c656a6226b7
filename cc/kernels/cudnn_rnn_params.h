// The kernels of the ops on CudnnRNN's params, for any device.

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_PARAMS_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/cudnn_rnn_params_inputs.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/make_output.h"
#include "cc/kernels/read_input.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// S: std::int32_t or std::int64_t, the type of the output.
template <typename S>
class CudnnRNNParamsSizeOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNParamsSizeOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    const std::int64_t size = rnn::CudnnRnnParamsSize(config);
    OP_REQUIRES(
        ctx, size <= std::numeric_limits<S>::max(),
        absl::InvalidArgumentError(absl::StrCat(
            "S must be int64 for a params_size of ", size, ", but is int32")));
    tensorflow::Tensor* params_size;
    OP_REQUIRES_OK(ctx, MakeOutput(ctx, "params_size", {1}, &params_size));
    *EngineData<S>(params_size) = static_cast<S>(size);
  }

 private:
  CudnnRnnAttributes attributes_;
};

// A Copier copies within the memory of one device:
//
//   absl::Status Init(OpKernelContext*);
//   absl::Status Copy(const void* source, std::size_t num_bytes, void* target);

// CudnnRNNCanonicalToParams and CudnnRNNCanonicalToParamsV2.
template <typename Copier, typename T>
class CudnnRNNCanonicalToParamsOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNCanonicalToParamsOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    std::vector<const tensorflow::Tensor*> weights, biases;
    OP_REQUIRES_OK(ctx, ReadInputs(ctx, "weights", &weights));
    OP_REQUIRES_OK(ctx, ReadInputs(ctx, "biases", &biases));
    OP_REQUIRES_OK(ctx, CheckCounts(config, weights.size(), biases.size()));

    // All of them before room is made for params: wrong sizes may ask for more
    // than there is.
    const rnn::CudnnRnnParamsLayout layout(config);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      OP_REQUIRES_OK(ctx, CheckWeight(i, layout.Weight(i), *weights[i]));
    }
    for (std::size_t i = 0; i < biases.size(); ++i) {
      OP_REQUIRES_OK(ctx, CheckBias(i, layout.Bias(i), *biases[i]));
    }

    tensorflow::Tensor* params;
    OP_REQUIRES_OK(ctx, MakeOutput(ctx, "params", {layout.size()}, &params));
    Copier copier;
    OP_REQUIRES_OK(ctx, copier.Init(ctx));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      OP_REQUIRES_OK(ctx, Copy(layout.Weight(i), *weights[i], copier, params));
    }
    for (std::size_t i = 0; i < biases.size(); ++i) {
      OP_REQUIRES_OK(ctx, Copy(layout.Bias(i), *biases[i], copier, params));
    }
  }

 private:
  static absl::Status CheckWeight(int index, const rnn::ParamsRegion& region,
                                  const tensorflow::Tensor& weight) {
    if (HasShape(weight, {region.rows, region.cols}) ||
        HasShape(weight, {region.size()})) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("weights[", index, "] must be [", region.rows, ",",
                     region.cols, "] or flattened [", region.size(),
                     "], but is ", weight.shape().DebugString()));
  }

  static absl::Status CheckBias(int index, const rnn::ParamsRegion& region,
                                const tensorflow::Tensor& bias) {
    return CheckShape(absl::StrCat("biases[", index, "]"), "[num_units]",
                      {region.size()}, bias);
  }

  static absl::Status Copy(const rnn::ParamsRegion& region,
                           const tensorflow::Tensor& source, Copier& copier,
                           tensorflow::Tensor* params) {
    return copier.Copy(EngineData<T>(source), region.size() * sizeof(T),
                       EngineData<T>(params) + region.offset);
  }

  CudnnRnnAttributes attributes_;
};

// CudnnRNNParamsToCanonical and CudnnRNNParamsToCanonicalV2.
template <typename Copier, typename T>
class CudnnRNNParamsToCanonicalOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNParamsToCanonicalOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    int first_weight, first_bias, end;
    OP_REQUIRES_OK(ctx, OutputRange("weights", &first_weight, &first_bias));
    OP_REQUIRES_OK(ctx, OutputRange("biases", &first_bias, &end));
    OP_REQUIRES_OK(
        ctx, CheckCounts(config, first_bias - first_weight, end - first_bias));
    const rnn::CudnnRnnParamsLayout layout(config);
    const tensorflow::Tensor* params;
    OP_REQUIRES_OK(ctx, ReadInput(ctx, "params", "[params_size]",
                                  {layout.size()}, &params));

    std::vector<tensorflow::Tensor*> outputs(end);
    for (int i = first_weight; i < first_bias; ++i) {
      const rnn::ParamsRegion region = layout.Weight(i - first_weight);
      OP_REQUIRES_OK(
          ctx, MakeOutput(ctx, i, {region.rows, region.cols}, &outputs[i]));
    }
    for (int i = first_bias; i < end; ++i) {
      const rnn::ParamsRegion region = layout.Bias(i - first_bias);
      OP_REQUIRES_OK(ctx, MakeOutput(ctx, i, {region.size()}, &outputs[i]));
    }

    Copier copier;
    OP_REQUIRES_OK(ctx, copier.Init(ctx));
    for (int i = first_weight; i < first_bias; ++i) {
      OP_REQUIRES_OK(ctx, Copy(layout.Weight(i - first_weight), *params, copier,
                               outputs[i]));
    }
    for (int i = first_bias; i < end; ++i) {
      OP_REQUIRES_OK(
          ctx, Copy(layout.Bias(i - first_bias), *params, copier, outputs[i]));
    }
  }

 private:
  static absl::Status Copy(const rnn::ParamsRegion& region,
                           const tensorflow::Tensor& params, Copier& copier,
                           tensorflow::Tensor* output) {
    return copier.Copy(EngineData<T>(params) + region.offset,
                       region.size() * sizeof(T), EngineData<T>(output));
  }

  CudnnRnnAttributes attributes_;
};

// Registers the kernels that copy with a Copier.
template <typename Copier>
struct CudnnRnnParamsKernelsOn {
  template <typename T>
  using CanonicalToParams = CudnnRNNCanonicalToParamsOp<Copier, T>;
  template <typename T>
  using ParamsToCanonical = CudnnRNNParamsToCanonicalOp<Copier, T>;

  static void Add(const DeviceKernels& kernels) {
    const std::initializer_list<const char*> sizes = {"num_layers", "num_units",
                                                      "input_size"};
    // The size does not depend on T, which is that of the params.
    kernels.Add<CudnnRNNParamsSizeOp, std::int32_t, std::int64_t>(
        "CudnnRNNParamsSize", "S",
        {"num_layers", "num_units", "input_size", "params_size"});
    kernels.AddForEachFloat<CanonicalToParams>("CudnnRNNCanonicalToParams",
                                               sizes);
    kernels.AddForEachFloat<CanonicalToParams>("CudnnRNNCanonicalToParamsV2",
                                               sizes);
    kernels.AddForEachFloat<ParamsToCanonical>("CudnnRNNParamsToCanonical",
                                               sizes);
    kernels.AddForEachFloat<ParamsToCanonical>("CudnnRNNParamsToCanonicalV2",
                                               sizes);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_PARAMS_H_
