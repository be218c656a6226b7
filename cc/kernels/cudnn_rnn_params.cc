#include "cc/rnn/cudnn_rnn_params.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cpu_kernels.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/engine.h"
#include "cc/kernels/kernels.h"
#include "cc/kernels/read_input.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::OpOutputList;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

absl::Status ReadSize(OpKernelContext* ctx, const char* name,
                      std::int32_t minimum, std::int64_t* size) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(ReadInput(ctx, name, "a scalar", {}, &tensor));
  *size = *EngineData<std::int32_t>(*tensor);
  if (*size >= minimum) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be at least ", minimum, ", but is ", *size));
}

// Reads num_layers, num_units and input_size.
absl::Status ReadConfig(OpKernelContext* ctx,
                        const CudnnRnnAttributes& attributes,
                        rnn::RnnConfig* config) {
  std::int64_t num_layers, num_units, input_size;
  TF_RETURN_IF_ERROR(ReadSize(ctx, "num_layers", 1, &num_layers));
  TF_RETURN_IF_ERROR(ReadSize(ctx, "num_units", 0, &num_units));
  TF_RETURN_IF_ERROR(ReadSize(ctx, "input_size", 0, &input_size));
  return attributes.MakeConfig(num_layers, num_units, input_size, config);
}

// Refuses another number of weights or biases than the network has.
absl::Status CheckCounts(const rnn::RnnConfig& config, std::int64_t num_weights,
                         std::int64_t num_biases) {
  const rnn::CudnnRnnParamsLayout layout(config);
  const std::string pseudo_layers =
      absl::StrCat(config.num_layers, " * ", config.num_directions);
  if (num_biases != layout.num_biases()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "biases must be num_layers * num_directions * 2 * num_gates = ",
        pseudo_layers, " * 2 * ", config.num_gates(), " vectors, but are ",
        num_biases));
  }
  if (num_weights != layout.num_weights()) {
    const bool projects = config.num_proj > 0;
    return absl::InvalidArgumentError(absl::StrCat(
        "weights must be num_layers * num_directions * ",
        projects ? "(2 * num_gates + 1) = " : "2 * num_gates = ", pseudo_layers,
        projects ? " * (2 * " : " * 2 * ", config.num_gates(),
        projects ? " + 1)" : "", " matrices, but are ", num_weights));
  }
  return absl::OkStatus();
}

// S: std::int32_t or std::int64_t, the type of the output.
template <typename S>
class CudnnRNNParamsSizeOp : public OpKernel {
 public:
  explicit CudnnRNNParamsSizeOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    const std::int64_t size = rnn::CudnnRnnParamsSize(config);
    OP_REQUIRES(
        ctx, size <= std::numeric_limits<S>::max(),
        absl::InvalidArgumentError(absl::StrCat(
            "S must be int64 for a params_size of ", size, ", but is int32")));
    Tensor* params_size;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("params_size", TensorShape({1}),
                                             &params_size));
    *EngineData<S>(params_size) = static_cast<S>(size);
  }

 private:
  CudnnRnnAttributes attributes_;
};

// CudnnRNNCanonicalToParams and CudnnRNNCanonicalToParamsV2.
template <typename T>
class CudnnRNNCanonicalToParamsOp : public OpKernel {
 public:
  explicit CudnnRNNCanonicalToParamsOp(OpKernelConstruction* ctx)
      : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    OpInputList weights, biases;
    OP_REQUIRES_OK(ctx, ctx->input_list("weights", &weights));
    OP_REQUIRES_OK(ctx, ctx->input_list("biases", &biases));
    OP_REQUIRES_OK(ctx, CheckCounts(config, weights.size(), biases.size()));

    const rnn::CudnnRnnParamsLayout layout(config);
    Tensor* params;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            "params", TensorShape({layout.size()}), &params));
    for (int i = 0; i < weights.size(); ++i) {
      OP_REQUIRES_OK(ctx, CopyWeight(i, layout.Weight(i), weights[i], params));
    }
    for (int i = 0; i < biases.size(); ++i) {
      OP_REQUIRES_OK(ctx, CopyBias(i, layout.Bias(i), biases[i], params));
    }
  }

 private:
  static absl::Status CopyWeight(int index, const rnn::ParamsRegion& region,
                                 const Tensor& weight, Tensor* params) {
    if (!HasShape(weight, {region.rows, region.cols}) &&
        !HasShape(weight, {region.size()})) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights[", index, "] must be [", region.rows, ",",
                       region.cols, "] or flattened [", region.size(),
                       "], but is ", weight.shape().DebugString()));
    }
    Copy(region, weight, params);
    return absl::OkStatus();
  }

  static absl::Status CopyBias(int index, const rnn::ParamsRegion& region,
                               const Tensor& bias, Tensor* params) {
    TF_RETURN_IF_ERROR(CheckShape(absl::StrCat("biases[", index, "]"),
                                  "[num_units]", {region.size()}, bias));
    Copy(region, bias, params);
    return absl::OkStatus();
  }

  static void Copy(const rnn::ParamsRegion& region, const Tensor& source,
                   Tensor* params) {
    std::copy_n(EngineData<T>(source), region.size(),
                EngineData<T>(params) + region.offset);
  }

  CudnnRnnAttributes attributes_;
};

// CudnnRNNParamsToCanonical and CudnnRNNParamsToCanonicalV2.
template <typename T>
class CudnnRNNParamsToCanonicalOp : public OpKernel {
 public:
  explicit CudnnRNNParamsToCanonicalOp(OpKernelConstruction* ctx)
      : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    rnn::RnnConfig config;
    OP_REQUIRES_OK(ctx, ReadConfig(ctx, attributes_, &config));
    OpOutputList weights, biases;
    OP_REQUIRES_OK(ctx, ctx->output_list("weights", &weights));
    OP_REQUIRES_OK(ctx, ctx->output_list("biases", &biases));
    OP_REQUIRES_OK(ctx, CheckCounts(config, weights.size(), biases.size()));
    const rnn::CudnnRnnParamsLayout layout(config);
    const Tensor* params;
    OP_REQUIRES_OK(ctx, ReadInput(ctx, "params", "[params_size]",
                                  {layout.size()}, &params));

    for (int i = 0; i < weights.size(); ++i) {
      const rnn::ParamsRegion region = layout.Weight(i);
      OP_REQUIRES_OK(ctx, CopyRegion(region, {region.rows, region.cols},
                                     *params, i, &weights));
    }
    for (int i = 0; i < biases.size(); ++i) {
      const rnn::ParamsRegion region = layout.Bias(i);
      OP_REQUIRES_OK(ctx,
                     CopyRegion(region, {region.size()}, *params, i, &biases));
    }
  }

 private:
  // Makes the output of that index, of that shape, from the region of params.
  static absl::Status CopyRegion(const rnn::ParamsRegion& region,
                                 const TensorShape& shape, const Tensor& params,
                                 int index, OpOutputList* outputs) {
    Tensor* output;
    TF_RETURN_IF_ERROR(outputs->allocate(index, shape, &output));
    std::copy_n(EngineData<T>(params) + region.offset, region.size(),
                EngineData<T>(output));
    return absl::OkStatus();
  }

  CudnnRnnAttributes attributes_;
};

}  // namespace

void AddCudnnRnnParamsKernels(const CpuKernels& kernels) {
  // The size does not depend on T, which is that of the params.
  kernels.Add<CudnnRNNParamsSizeOp, std::int32_t, std::int64_t>(
      "CudnnRNNParamsSize", "S");
  kernels.AddForEachFloat<CudnnRNNCanonicalToParamsOp>(
      "CudnnRNNCanonicalToParams");
  kernels.AddForEachFloat<CudnnRNNCanonicalToParamsOp>(
      "CudnnRNNCanonicalToParamsV2");
  kernels.AddForEachFloat<CudnnRNNParamsToCanonicalOp>(
      "CudnnRNNParamsToCanonical");
  kernels.AddForEachFloat<CudnnRNNParamsToCanonicalOp>(
      "CudnnRNNParamsToCanonicalV2");
}

}  // namespace tf_rnn_ops
