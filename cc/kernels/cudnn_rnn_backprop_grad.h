// The kernel of CudnnRNNBackpropGrad, for any device.
//
// An engine runs the pass on one device. It is made with the attributes of a
// kernel, and lives and is shared as the kernel is. Its members:
//
//   // Whether all elements are known to be zeros.
//   absl::Status FindZeros(OpKernelContext*, const Tensor&, bool* are_zeros);
//   // Copies the header of a reserve_space; zeros where that is too short for
//   // one. May put another tensor of the same contents in its place.
//   absl::Status ReadHeader(OpKernelContext*, Tensor* reserve_space,
//                           rnn::ReserveSpaceHeader*);
//   // Runs the pass, whose reserve_space any device may have left. The engine
//   // provides the workspace.
//   absl::Status BackwardGrad(OpKernelContext*, const CudnnRnnInputs&,
//                             rnn::CudnnRnnBackwardGrad<E>*);
//   absl::Status SetZero(OpKernelContext*, Tensor*);

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_BACKPROP_GRAD_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_BACKPROP_GRAD_H_

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

template <template <typename> class Engine, typename T>
class CudnnRNNBackpropGradOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNBackpropGradOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("skip", &skip_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx,
                   inputs.ReadForwardInputs(/*has_sequence_lengths=*/true));
    rnn::CudnnRnnBackwardGrad<E> pass{};
    inputs.Fill<T>(&pass);
    OP_REQUIRES_OK(ctx, inputs.ReadGradients<T>(&pass));
    OP_REQUIRES_OK(ctx, ReadDirection(ctx, inputs, &pass));
    bool is_anything_wanted = false;
    OP_REQUIRES_OK(ctx,
                   AllocateResults(ctx, inputs, &pass, &is_anything_wanted));
    if (!is_anything_wanted) return;
    tensorflow::Tensor reserve_space;
    rnn::ReserveSpaceHeader header;
    OP_REQUIRES_OK(
        ctx, ReadForwardPass(ctx, inputs, &reserve_space, &header, &pass));
    if (!IsAnythingMade(pass)) return;
    OP_REQUIRES_OK(ctx, engine_.BackwardGrad(ctx, inputs, &pass));
  }

 private:
  using E = EngineType<T>;

  // Reads the gradients with respect to what it returned. TensorFlow says with
  // zeros that nothing depends on a result.
  absl::Status ReadDirection(tensorflow::OpKernelContext* ctx,
                             const CudnnRnnInputs& inputs,
                             rnn::CudnnRnnBackwardGrad<E>* pass) {
    const tensorflow::Tensor *input, *input_h, *input_c, *params;
    TF_RETURN_IF_ERROR(inputs.ReadNetworkInput("input_backprop_grad", &input));
    TF_RETURN_IF_ERROR(
        inputs.ReadHiddenState("input_h_backprop_grad", &input_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("input_c_backprop_grad", &input_c));
    TF_RETURN_IF_ERROR(inputs.ReadParams("params_backprop_grad", &params));
    pass->dot_input_h = EngineData<T>(*input_h);
    pass->dot_input_c = EngineData<T>(*input_c);
    TF_RETURN_IF_ERROR(NullIfZeros(ctx, *input, &pass->dot_input));
    return NullIfZeros(ctx, *params, &pass->dot_params);
  }

  absl::Status NullIfZeros(tensorflow::OpKernelContext* ctx,
                           const tensorflow::Tensor& tensor, const E** data) {
    bool are_zeros = false;
    TF_RETURN_IF_ERROR(engine_.FindZeros(ctx, tensor, &are_zeros));
    *data = are_zeros ? nullptr : EngineData<T>(tensor);
    return absl::OkStatus();
  }

  // Reads what the forward pass returned.
  absl::Status ReadForwardPass(tensorflow::OpKernelContext* ctx,
                               const CudnnRnnInputs& inputs,
                               tensorflow::Tensor* reserve_space,
                               rnn::ReserveSpaceHeader* header,
                               rnn::CudnnRnnBackwardGrad<E>* pass) {
    const tensorflow::Tensor* output;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output", &output));
    TF_RETURN_IF_ERROR(inputs.ReadReserveSpaceOfAnyDevice<E>(
        [&](tensorflow::Tensor* tensor) {
          return engine_.ReadHeader(ctx, tensor, header);
        },
        *header, reserve_space));
    pass->output = EngineData<T>(*output);
    pass->reserve_space = EngineData<T>(*reserve_space);
    pass->reserve_space_header = header;
    return absl::OkStatus();
  }

  // Allocates the results that are wanted. Those for cell states that the
  // network has not are zero.
  // is_anything_wanted: whether the pass is to make one, though it be empty.
  absl::Status AllocateResults(tensorflow::OpKernelContext* ctx,
                               const CudnnRnnInputs& inputs,
                               rnn::CudnnRnnBackwardGrad<E>* pass,
                               bool* is_anything_wanted) {
    const tensorflow::Tensor* d_output_c;
    TF_RETURN_IF_ERROR(ReadInput(ctx, "output_c_backprop", &d_output_c));
    const struct {
      const char* name;
      tensorflow::TensorShape shape;
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
      tensorflow::Tensor* result;
      TF_RETURN_IF_ERROR(is_wanted ? ctx->allocate_output(i, shape, &result)
                                   : MakeOutput(ctx, i, {0}, &result));
      const bool is_of_cell_state =
          data == &pass->input_c_grad || data == &pass->output_c_backprop_grad;
      if (is_of_cell_state && !has_cell_state) {
        TF_RETURN_IF_ERROR(engine_.SetZero(ctx, result));
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
  Engine<T> engine_{attributes_};
};

// Registers the kernels that run on an engine.
template <template <typename> class Engine>
struct CudnnRnnBackpropGradKernelsOn {
  template <typename T>
  using Kernel = CudnnRNNBackpropGradOp<Engine, T>;

  static void Add(const DeviceKernels& kernels) {
    kernels.AddForEachFloat<Kernel>("CudnnRNNBackpropGrad",
                                    {"sequence_lengths"});
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_BACKPROP_GRAD_H_
