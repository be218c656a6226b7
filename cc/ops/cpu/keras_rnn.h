// KerasRNN and its gradient, for the CPU.

#ifndef TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_
#define TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/packed_weights.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/ops/keras_rnn_inputs.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// W: the type of the weights and of their gradients: E, or float beside 16-bit
// sequences.
template <typename E, typename W = E>
class KerasRnnForwardOp {
 public:
  Status Init(const Attributes& attributes) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes_.Read(attributes));
    TF_RNN_OPS_RETURN_IF_ERROR(constant_weights_.Init(attributes));
    return attributes.Get("is_training", &is_training_);
  }

  Status Run(CallFrame* frame) {
    KerasRnnInputs inputs(frame, attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] { return inputs.Read(); }));
    // Keeps no data if nothing reads reserve_space, for example if a training
    // graph is used for inference.
    const bool trains = is_training_ && frame->IsWanted("reserve_space");
    std::int64_t reserve_space_size = 0;
    if (trains) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          FindReserveSpaceSize<E>(inputs, &reserve_space_size));
    }

    Array outputs, final_h, final_c, reserve_space;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutput("outputs", inputs.outputs_shape(), &outputs));
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutput("final_h", inputs.state_shape(), &final_h));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput("final_c",
                                                 attributes_.has_cell_state()
                                                     ? inputs.state_shape()
                                                     : inputs.initial_c.shape,
                                                 &final_c));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        "reserve_space", {reserve_space_size}, &reserve_space));
    if (!frame->has_values()) return Status();
    if (!attributes_.has_cell_state()) SetZero(final_c);

    rnn::NetworkForward<E> pass{};
    inputs.Fill<W>(&pass);
    if (trains) pass.kept = rnn::Kept<E>::ReserveSpace(reserve_space.As<E>());
    if (attributes_.return_sequences) pass.output = outputs.As<E>();
    pass.output_h = final_h.As<E>();
    pass.output_c = final_c.As<E>();
    TF_RNN_OPS_RETURN_IF_ERROR(
        constant_weights_.RunForward(frame, inputs, &pass));
    const auto masked = inputs.masked_outputs<E>();
    if (attributes_.return_sequences) {
      masked.Repeat(outputs.As<E>());
    } else {
      masked.TakeLast(final_h.As<E>(), outputs.As<E>());
    }
    return Status();
  }

 private:
  KerasRnnAttributes attributes_;
  bool is_training_ = true;
  ConstantWeights<E> constant_weights_{{"kernel", "recurrent_kernel", "bias"}};
};

// The gradients with respect to the outputs of a layer.
template <typename E>
class KerasRnnGradients {
 public:
  Status Read(KerasRnnInputs* inputs) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadOutputs("outputs_backprop", &outputs));
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadHiddenState("final_h_backprop", &final_h));
    return inputs->ReadCellState("final_c_backprop", &final_c);
  }

  // Fills a backward pass with the gradients with respect to the outputs of the
  // engine.
  Status Fill(CallFrame* frame, const KerasRnnInputs& inputs,
              bool return_sequences, rnn::NetworkGradients<E>* pass) const {
    pass->output_c_backprop = final_c.As<E>();
    const auto masked = inputs.masked_outputs<E>();
    void* memory;
    if (!return_sequences) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          frame->MakeScratch(final_h.num_bytes, &memory));
      masked.AddLast(outputs.As<E>(), final_h.As<E>(), static_cast<E*>(memory));
      pass->output_h_backprop = static_cast<E*>(memory);
      return Status();
    }
    pass->output_h_backprop = final_h.As<E>();
    pass->output_backprop = outputs.As<E>();
    if (!masked.repeats()) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeScratch(outputs.num_bytes, &memory));
    masked.AddUp(outputs.As<E>(), static_cast<E*>(memory));
    pass->output_backprop = static_cast<E*>(memory);
    return Status();
  }

  Array outputs, final_h, final_c;
};

// Reads what the forward pass kept, and rejects that of another one.
// header: a copy of the header that `kept` refers to.
template <typename E>
Status ReadKept(CallFrame* frame, const KerasRnnInputs& inputs,
                rnn::ReserveSpaceHeader* header, rnn::Kept<const E>* kept) {
  Array reserve_space;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame, "reserve_space",
                                       "[reserve_space_size]", {kAnySize},
                                       &reserve_space));
  if (!frame->has_values()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(
      ReadReserveSpaceHeader(frame, &reserve_space, header));
  *kept = rnn::Kept<const E>::ReserveSpace(reserve_space.As<const E>(), header);
  return CheckReserveSpace<E>(
      inputs.MakeReserveSpaceKey(), *header, reserve_space,
      rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size()));
}

// W: see above.
template <typename E, typename W = E>
class KerasRnnBackwardOp {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    KerasRnnInputs inputs(frame, attributes_);
    KerasRnnGradients<E> gradients;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.Read());
      return gradients.Read(&inputs);
    }));
    rnn::NetworkBackward<E> pass{};
    rnn::ReserveSpaceHeader header;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadKept(frame, inputs, &header, &pass.kept));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeGradients(frame, inputs, &pass));
    if (!frame->has_values()) return Status();
    inputs.Fill<W>(&pass);
    TF_RNN_OPS_RETURN_IF_ERROR(
        gradients.Fill(frame, inputs, attributes_.return_sequences, &pass));
    const auto kernels = KernelsFor<E>(inputs);
    return RunPass(frame, inputs, kernels.backward_workspace, kernels.backward,
                   &pass);
  }

 private:
  // Makes the gradients with respect to the inputs, except those of sequences
  // and of weights that nothing reads.
  Status MakeGradients(CallFrame* frame, const KerasRnnInputs& inputs,
                       rnn::NetworkBackward<E>* pass) const {
    const bool wants_weights = frame->IsWanted("kernel_backprop") ||
                               frame->IsWanted("recurrent_kernel_backprop") ||
                               frame->IsWanted("bias_backprop");
    Array sequences, initial_h, initial_c, kernel, recurrent_kernel, bias;
    const struct {
      const char* name;
      const Array& like;
      bool is_wanted;
      Array* gradient;
    } gradients[] = {
        {"sequences_backprop", inputs.sequences,
         frame->IsWanted("sequences_backprop"), &sequences},
        {"initial_h_backprop", inputs.initial_h, true, &initial_h},
        {"initial_c_backprop", inputs.initial_c, true, &initial_c},
        {"kernel_backprop", inputs.kernel, wants_weights, &kernel},
        {"recurrent_kernel_backprop", inputs.recurrent_kernel, wants_weights,
         &recurrent_kernel},
        {"bias_backprop", inputs.bias, wants_weights, &bias},
    };
    for (const auto& [name, like, is_wanted, gradient] : gradients) {
      if (!is_wanted) continue;
      TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(name, like.shape, gradient));
    }
    if (!frame->has_values()) return Status();
    pass->input_backprop = ElementsOrNull<E>(sequences);
    pass->input_h_backprop = ElementsOrNull<E>(initial_h);
    if (attributes_.has_cell_state()) {
      pass->input_c_backprop = ElementsOrNull<E>(initial_c);
    } else {
      SetZero(initial_c);
    }
    pass->weights_backprop =
        inputs.WeightsOf<E, W>(kernel, recurrent_kernel, bias);
    return Status();
  }

  KerasRnnAttributes attributes_;
};

// The gradient of the backward pass. The outputs of a layer are a linear
// function of those of the engine, and so are their tangents.
// W: see above.
template <typename E, typename W = E>
class KerasRnnBackwardGradOp {
 public:
  Status Init(const Attributes& attributes) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes_.Read(attributes));
    return attributes.Get("skip", &skip_);
  }

  Status Run(CallFrame* frame) {
    KerasRnnInputs inputs(frame, attributes_);
    KerasRnnGradients<E> gradients;
    rnn::NetworkBackwardGrad<E> pass{};
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.Read());
      TF_RNN_OPS_RETURN_IF_ERROR(gradients.Read(&inputs));
      return ReadTangents(frame, &inputs, &pass);
    }));
    rnn::ReserveSpaceHeader header;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadKept(frame, inputs, &header, &pass.kept));
    Array outputs_grad;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeResults(frame, inputs, gradients, &outputs_grad, &pass));
    if (!frame->has_values()) return Status();

    inputs.Fill<W>(&pass);
    TF_RNN_OPS_RETURN_IF_ERROR(
        gradients.Fill(frame, inputs, attributes_.return_sequences, &pass));
    const auto kernels = KernelsFor<E>(inputs);
    TF_RNN_OPS_RETURN_IF_ERROR(RunPass(frame, inputs,
                                       kernels.backward_grad_workspace,
                                       kernels.backward_grad, &pass));
    if (outputs_grad.num_elements == 0) return Status();
    const auto masked = inputs.masked_outputs<E>();
    if (attributes_.return_sequences) {
      masked.Repeat(outputs_grad.As<E>());
    } else {
      masked.TakeLast(pass.output_h_backprop_grad, outputs_grad.As<E>());
    }
    return Status();
  }

 private:
  // Reads the gradients with respect to the results of the backward pass.
  // TensorFlow passes zeros if nothing depends on a result.
  Status ReadTangents(CallFrame* frame, KerasRnnInputs* inputs,
                      rnn::NetworkBackwardGrad<E>* pass) const {
    Array initial_h, initial_c, sequences, kernel, recurrent_kernel, bias;
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadInitialH("initial_h_backprop_grad", &initial_h));
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadInitialC("initial_c_backprop_grad", &initial_c));
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadSequences("sequences_backprop_grad", &sequences));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadWeights("_backprop_grad", &kernel,
                                                   &recurrent_kernel, &bias));
    TF_RNN_OPS_RETURN_IF_ERROR(
        CheckShape("bias_backprop_grad", "of bias", inputs->bias.shape, bias));
    TF_RNN_OPS_RETURN_IF_ERROR(CheckShape("initial_h_backprop_grad",
                                          "of initial_h",
                                          inputs->initial_h.shape, initial_h));
    if (attributes_.has_cell_state()) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          CheckShape("initial_c_backprop_grad", "of initial_c",
                     inputs->initial_c.shape, initial_c));
    }
    if (!frame->has_values()) return Status();
    pass->dot_input_h = ElementsOrNull<const E>(initial_h);
    pass->dot_input_c = ElementsOrNull<const E>(initial_c);
    if (!AreZeros<E>(sequences)) pass->dot_input = sequences.As<E>();
    if (!AreZeros<W>(kernel) || !AreZeros<W>(recurrent_kernel) ||
        !AreZeros<W>(bias)) {
      pass->dot_weights =
          inputs->WeightsOf<const E, W>(kernel, recurrent_kernel, bias);
    }
    return Status();
  }

  // Makes the results. Results that are not wanted are empty. Gradients of cell
  // states that the layer does not have are zero.
  // outputs_grad: the gradient with respect to outputs_backprop.
  Status MakeResults(CallFrame* frame, const KerasRnnInputs& inputs,
                     const KerasRnnGradients<E>& gradients, Array* outputs_grad,
                     rnn::NetworkBackwardGrad<E>* pass) const {
    const auto is_wanted = [&](const char* name) {
      return IsWanted(*frame, skip_, name);
    };
    // The engine computes the gradients of all weights or none.
    const bool needs_weights = is_wanted("kernel_grad") ||
                               is_wanted("recurrent_kernel_grad") ||
                               is_wanted("bias_grad");
    const bool takes_last =
        !attributes_.return_sequences && is_wanted("outputs_backprop_grad");
    Array kernel, recurrent_kernel, bias;
    Array sequences, initial_h, initial_c, final_h, final_c;
    const struct {
      const char* name;
      const Array& like;
      // Whether the pass must compute it even if it is not wanted.
      bool is_needed;
      Array* result;
    } results[] = {
        {"sequences_grad", inputs.sequences, false, &sequences},
        {"initial_h_grad", inputs.initial_h, false, &initial_h},
        {"initial_c_grad", inputs.initial_c, false, &initial_c},
        {"kernel_grad", inputs.kernel, needs_weights, &kernel},
        {"recurrent_kernel_grad", inputs.recurrent_kernel, needs_weights,
         &recurrent_kernel},
        {"bias_grad", inputs.bias, needs_weights, &bias},
        {"outputs_backprop_grad", gradients.outputs, false, outputs_grad},
        {"final_h_backprop_grad", gradients.final_h, takes_last, &final_h},
        {"final_c_backprop_grad", gradients.final_c, false, &final_c},
    };
    for (const auto& [name, like, is_needed, result] : results) {
      const bool is_output = is_wanted(name);
      TF_RNN_OPS_RETURN_IF_ERROR(
          frame->MakeOutput(name, is_output ? like.shape : Shape{0}, result));
      if (frame->has_values() && is_needed && !is_output) {
        TF_RNN_OPS_RETURN_IF_ERROR(
            frame->MakeScratch(like.num_bytes, &result->data));
        result->num_elements = like.num_elements;
      }
    }
    if (!frame->has_values()) return Status();
    pass->input_grad = ElementsOrNull<E>(sequences);
    pass->input_h_grad = ElementsOrNull<E>(initial_h);
    pass->weights_grad = inputs.WeightsOf<E, W>(kernel, recurrent_kernel, bias);
    if (attributes_.return_sequences) {
      pass->output_backprop_grad = ElementsOrNull<E>(*outputs_grad);
    }
    pass->output_h_backprop_grad = ElementsOrNull<E>(final_h);
    if (attributes_.has_cell_state()) {
      pass->input_c_grad = ElementsOrNull<E>(initial_c);
      pass->output_c_backprop_grad = ElementsOrNull<E>(final_c);
    } else {
      SetZero(initial_c);
      SetZero(final_c);
    }
    return Status();
  }

  KerasRnnAttributes attributes_;
  std::vector<std::string> skip_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_
