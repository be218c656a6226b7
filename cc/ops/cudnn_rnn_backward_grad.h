// CudnnRNNBackpropGrad, for any device.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_BACKWARD_GRAD_H_

#include <string>
#include <vector>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The engine of a device is the class Engines::NetworkBackwardGrad<E>. It has
// the lifetime of the op, and like the op several threads may use it at once.
// Its members:
//
//   // Finds whether all elements are zeros.
//   Status FindZeros(CallFrame*, const Array&, bool* are_zeros) const;
//   // Copies the header of a reserve_space; zeros if that is too short. May
//   // replace the array by a copy.
//   Status ReadHeader(CallFrame*, Array* reserve_space,
//                     rnn::ReserveSpaceHeader*) const;
//   // Runs the pass. Its reserve_space may come from any device. The engine
//   // provides the workspace.
//   Status BackwardGrad(CallFrame*, const CudnnRnnInputs&,
//                       rnn::NetworkBackwardGrad<E>*) const;
//   Status SetZero(CallFrame*, const Array&) const;
template <typename Engines, typename E>
class CudnnRnnBackwardGradOp {
 public:
  Status Init(const Attributes& attributes) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes_.Read(attributes));
    return attributes.Get("skip", &skip_);
  }

  Status Run(CallFrame* frame) {
    CudnnRnnInputs inputs(frame, attributes_);
    rnn::NetworkBackwardGrad<E> pass{};
    Tangents tangents;
    Array output, reserve_space;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs.ReadForwardInputs(/*has_sequence_lengths=*/true));
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadGradients(&pass));
      TF_RNN_OPS_RETURN_IF_ERROR(tangents.Read(&inputs));
      return inputs.ReadOutput("output", &output);
    }));
    inputs.Fill(&pass);
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadReserveSpace(&reserve_space));
    bool is_anything_wanted = false;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeResults(frame, inputs, &pass, &is_anything_wanted));
    if (!frame->has_values() || !is_anything_wanted) return Status();

    rnn::ReserveSpaceHeader header;
    TF_RNN_OPS_RETURN_IF_ERROR(
        engine_.ReadHeader(frame, &reserve_space, &header));
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs.CheckReserveSpaceOfAnyDevice<E>(header, reserve_space));
    if (!IsAnythingMade(pass)) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(FillTangents(frame, tangents, &pass));
    pass.output = output.As<E>();
    pass.kept =
        rnn::Kept<const E>::ReserveSpace(reserve_space.As<const E>(), &header);
    return engine_.BackwardGrad(frame, inputs, &pass);
  }

 private:
  // The gradients with respect to the outputs of the backward pass.
  struct Tangents {
    Status Read(CudnnRnnInputs* inputs) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs->ReadNetworkInput("input_backprop_grad", &input));
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs->ReadHiddenState("input_h_backprop_grad", &input_h));
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs->ReadCellState("input_c_backprop_grad", &input_c));
      return inputs->ReadParams("params_backprop_grad", &params);
    }

    Array input, input_h, input_c, params;
  };

  // TensorFlow passes zeros if nothing depends on an output.
  Status FillTangents(CallFrame* frame, const Tangents& tangents,
                      rnn::NetworkBackwardGrad<E>* pass) {
    pass->dot_input_h = tangents.input_h.template As<E>();
    pass->dot_input_c = tangents.input_c.template As<E>();
    TF_RNN_OPS_RETURN_IF_ERROR(
        NullIfZeros(frame, tangents.input, &pass->dot_input));
    return NullIfZeros(frame, tangents.params, &pass->dot_weights.params);
  }

  Status NullIfZeros(CallFrame* frame, const Array& array, const E** data) {
    bool are_zeros = false;
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.FindZeros(frame, array, &are_zeros));
    *data = are_zeros ? nullptr : array.As<E>();
    return Status();
  }

  // Makes the results. Results that are not wanted are empty. Gradients of cell
  // states that the network does not have are zero.
  // is_anything_wanted: set if the pass must compute a result, even one without
  //   elements.
  Status MakeResults(CallFrame* frame, const CudnnRnnInputs& inputs,
                     rnn::NetworkBackwardGrad<E>* pass,
                     bool* is_anything_wanted) {
    const bool has_cell_state = inputs.config().has_cell_state();
    Array d_output_c;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->FindInput("output_c_backprop", &d_output_c));
    const struct {
      const char* name;
      const Shape& shape;
      E** data;
    } results[] = {
        {"input_grad", inputs.input.shape, &pass->input_grad},
        {"input_h_grad", inputs.input_h.shape, &pass->input_h_grad},
        {"input_c_grad", inputs.input_c.shape, &pass->input_c_grad},
        {"params_grad", inputs.params.shape, &pass->weights_grad.params},
        {"output_backprop_grad", inputs.output_shape(),
         &pass->output_backprop_grad},
        {"output_h_backprop_grad", inputs.input_h.shape,
         &pass->output_h_backprop_grad},
        {"output_c_backprop_grad",
         has_cell_state ? inputs.input_c.shape : d_output_c.shape,
         &pass->output_c_backprop_grad},
    };
    for (const auto& [name, shape, data] : results) {
      const bool is_wanted = IsWanted(*frame, skip_, name);
      Array result;
      TF_RNN_OPS_RETURN_IF_ERROR(
          frame->MakeOutput(name, is_wanted ? shape : Shape{0}, &result));
      const bool is_of_cell_state =
          data == &pass->input_c_grad || data == &pass->output_c_backprop_grad;
      if (is_of_cell_state && !has_cell_state) {
        if (frame->has_values()) {
          TF_RNN_OPS_RETURN_IF_ERROR(engine_.SetZero(frame, result));
        }
      } else if (is_wanted) {
        *data = result.As<E>();
        *is_anything_wanted = true;
      }
    }
    return Status();
  }

  // Whether any result has elements.
  static bool IsAnythingMade(const rnn::NetworkBackwardGrad<E>& pass) {
    return pass.input_grad || pass.input_h_grad || pass.input_c_grad ||
           pass.weights_grad.params || pass.output_backprop_grad ||
           pass.output_h_backprop_grad || pass.output_c_backprop_grad;
  }

  CudnnRnnAttributes attributes_;
  std::vector<std::string> skip_;
  typename Engines::template NetworkBackwardGrad<E> engine_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_BACKWARD_GRAD_H_
