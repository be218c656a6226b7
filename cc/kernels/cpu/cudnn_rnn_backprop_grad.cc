// The kernel of CudnnRNNBackpropGrad.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/cudnn_rnn_inputs.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

template <typename E>
bool IsZero(E x) {
  if constexpr (sizeof(E) == 2) {
    return (x.bits & 0x7fff) == 0;
  } else {
    return x == 0;
  }
}

// Whether all elements are zero. What is not soon shows it.
template <typename T>
bool AreZeros(const Tensor& tensor) {
  constexpr std::int64_t kAtOnce = 1024;  // without a branch for each
  const EngineType<T>* const elements = EngineData<T>(tensor);
  const std::int64_t size = tensor.NumElements();
  for (std::int64_t i = 0; i < size; i += kAtOnce) {
    bool are_zeros = true;
    for (std::int64_t j = i; j < std::min(i + kAtOnce, size); ++j) {
      are_zeros &= IsZero(elements[j]);
    }
    if (!are_zeros) return false;
  }
  return true;
}

template <typename T>
class CudnnRNNBackpropGradOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNBackpropGradOp(OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("skip", &skip_));
  }

  void Compute(OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx,
                   inputs.ReadForwardInputs(/*has_sequence_lengths=*/true));
    rnn::CudnnRnnBackwardGrad<E> pass{};
    inputs.Fill<T>(&pass);
    OP_REQUIRES_OK(ctx, ReadBackwardPass(inputs, &pass));
    OP_REQUIRES_OK(ctx, ReadDirection(inputs, &pass));
    bool is_anything_wanted = false;
    OP_REQUIRES_OK(ctx,
                   AllocateResults(ctx, inputs, &pass, &is_anything_wanted));
    if (!is_anything_wanted) return;
    Tensor reserve_space, output;
    rnn::ReserveSpaceHeader header;
    OP_REQUIRES_OK(
        ctx, ReadForwardPass(ctx, inputs, &reserve_space, &header, &output));
    if (!IsAnythingMade(pass)) return;
    pass.reserve_space = EngineData<T>(reserve_space);
    pass.reserve_space_header = &header;
    pass.output = EngineData<T>(output);

    const auto kernels = NetworkKernels<E>(inputs);
    OP_REQUIRES_OK(ctx, RunPass(ctx, inputs, kernels.backward_grad_workspace,
                                kernels.backward_grad, &pass));
  }

 private:
  using E = EngineType<T>;

  // Reads the gradients that the backward pass was given.
  static absl::Status ReadBackwardPass(const CudnnRnnInputs& inputs,
                                       rnn::CudnnRnnBackwardGrad<E>* pass) {
    const Tensor *output, *output_h, *output_c;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output_backprop", &output));
    TF_RETURN_IF_ERROR(inputs.ReadHiddenState("output_h_backprop", &output_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("output_c_backprop", &output_c));
    pass->output_backprop = EngineData<T>(*output);
    pass->output_h_backprop = EngineData<T>(*output_h);
    pass->output_c_backprop = EngineData<T>(*output_c);
    return absl::OkStatus();
  }

  // Reads the gradients with respect to what it returned. TensorFlow says with
  // zeros that nothing depends on a result.
  static absl::Status ReadDirection(const CudnnRnnInputs& inputs,
                                    rnn::CudnnRnnBackwardGrad<E>* pass) {
    const Tensor *input, *input_h, *input_c, *params;
    TF_RETURN_IF_ERROR(inputs.ReadNetworkInput("input_backprop_grad", &input));
    TF_RETURN_IF_ERROR(
        inputs.ReadHiddenState("input_h_backprop_grad", &input_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("input_c_backprop_grad", &input_c));
    TF_RETURN_IF_ERROR(inputs.ReadParams("params_backprop_grad", &params));
    if (!AreZeros<T>(*input)) pass->dot_input = EngineData<T>(*input);
    pass->dot_input_h = EngineData<T>(*input_h);
    pass->dot_input_c = EngineData<T>(*input_c);
    if (!AreZeros<T>(*params)) pass->dot_params = EngineData<T>(*params);
    return absl::OkStatus();
  }

  // Finds what the forward pass left. One that ran on a GPU runs again.
  absl::Status ReadForwardPass(OpKernelContext* ctx,
                               const CudnnRnnInputs& inputs,
                               Tensor* reserve_space,
                               rnn::ReserveSpaceHeader* header,
                               Tensor* output) const {
    const Tensor* given_output;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output", &given_output));
    *output = *given_output;
    bool is_of_gpu = false;
    TF_RETURN_IF_ERROR(inputs.ReadReserveSpace(
        [&](Tensor* tensor, std::string* mismatch) {
          TF_RETURN_IF_ERROR(AlignReserveSpace(ctx, tensor));
          *header = CopyHeader(*tensor);
          *mismatch =
              FindMismatch(inputs, *header, tensor->NumElements(), &is_of_gpu);
          return absl::OkStatus();
        },
        reserve_space));
    if (!is_of_gpu) return absl::OkStatus();
    TF_RETURN_IF_ERROR(RunForward(ctx, inputs, reserve_space, output));
    *header = CopyHeader(*reserve_space);
    return absl::OkStatus();
  }

  // size: the number of reserve_space's elements.
  std::string FindMismatch(const CudnnRnnInputs& inputs,
                           const rnn::ReserveSpaceHeader& header,
                           std::int64_t size, bool* is_of_gpu) const {
    const auto origin = rnn::FindReserveSpaceOrigin(header);
    *is_of_gpu = origin.device == rnn::Device::kGpu;
    rnn::ReserveSpaceKey key = inputs.MakeReserveSpaceKey();
    key.device = origin.device;
    key.variant = origin.variant;
    if (*is_of_gpu && attributes_.dropout() > 0 &&
        inputs.config().num_layers > 1) {
      return "it was left by a GPU, whose dropout the CPU cannot repeat";
    }
    // A GPU's size is its own affair.
    return rnn::ReserveSpaceMismatch<E>(
        key, header.data(), size,
        *is_of_gpu ? size
                   : rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size()));
  }

  // Runs the forward pass, without dropout.
  absl::Status RunForward(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                          Tensor* reserve_space, Tensor* output) const {
    const auto dtype = tensorflow::DataTypeToEnum<T>::value;
    const std::int64_t size =
        rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
    if (size < 0) return inputs.TooLarge();
    Tensor output_h, output_c;
    TF_RETURN_IF_ERROR(MakeTemp(ctx, dtype, {size}, reserve_space));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.output_shape(), output));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.input_h->shape(), &output_h));
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(dtype, inputs.input_c->shape(), &output_c));
    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.is_training = true;
    pass.dropout = 0;
    pass.output = EngineData<T>(output);
    pass.output_h = EngineData<T>(&output_h);
    pass.output_c = EngineData<T>(&output_c);
    pass.reserve_space = EngineData<T>(reserve_space);
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(ctx, inputs, kernels.forward_workspace, kernels.forward,
                   &pass);
  }

  // Allocates the results that are wanted. Those for cell states that the
  // network has not are zero.
  // is_anything_wanted: whether the pass is to make one, though it be empty.
  absl::Status AllocateResults(OpKernelContext* ctx,
                               const CudnnRnnInputs& inputs,
                               rnn::CudnnRnnBackwardGrad<E>* pass,
                               bool* is_anything_wanted) const {
    const Tensor* d_output_c;
    TF_RETURN_IF_ERROR(ReadInput(ctx, "output_c_backprop", &d_output_c));
    const struct {
      const char* name;
      TensorShape shape;
      E** data;
    } results[] = {
        {"input_grad", inputs.input->shape(), &pass->input_grad},
        {"input_h_grad", inputs.input_h->shape(), &pass->input_h_grad},
        {"input_c_grad", inputs.input_c->shape(), &pass->input_c_grad},
        {"params_grad", inputs.params->shape(), &pass->params_grad},
        {"output_backprop_grad", inputs.output_shape(),
         &pass->output_backprop_grad},
        {"output_h_backprop_grad", inputs.input_h->shape(),
         &pass->output_h_backprop_grad},
        {"output_c_backprop_grad", d_output_c->shape(),
         &pass->output_c_backprop_grad},
    };
    const bool has_cell_state = inputs.config().has_cell_state();
    *is_anything_wanted = false;
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      const auto& [name, shape, data] = results[i];
      const bool is_wanted =
          std::find(skip_.begin(), skip_.end(), name) == skip_.end() &&
          ctx->output_required(i);
      Tensor* result;
      TF_RETURN_IF_ERROR(is_wanted ? ctx->allocate_output(i, shape, &result)
                                   : MakeOutput(ctx, i, {0}, &result));
      const bool is_of_cell_state =
          data == &pass->input_c_grad || data == &pass->output_c_backprop_grad;
      if (is_of_cell_state && !has_cell_state) {
        SetZero(result);
      } else if (is_wanted) {
        *data = EngineData<T>(result);
        *is_anything_wanted = true;
      }
    }
    return absl::OkStatus();
  }

  // Whether there is a result with elements.
  static bool IsAnythingMade(const rnn::CudnnRnnBackwardGrad<E>& pass) {
    const E* const results[] = {pass.input_grad,
                                pass.input_h_grad,
                                pass.input_c_grad,
                                pass.params_grad,
                                pass.output_backprop_grad,
                                pass.output_h_backprop_grad,
                                pass.output_c_backprop_grad};
    return std::any_of(std::begin(results), std::end(results),
                       [](const E* result) { return result != nullptr; });
  }

  CudnnRnnAttributes attributes_;
  std::vector<std::string> skip_;
};

}  // namespace

void AddCudnnRnnBackpropGradKernels(const DeviceKernels& kernels) {
  kernels.AddForEachFloat<CudnnRNNBackpropGradOp>("CudnnRNNBackpropGrad");
}

}  // namespace tf_rnn_ops
