// CudnnRNN, its versions and their gradients, for any device.

#ifndef TF_RNN_OPS_CC_OPS_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_OPS_CUDNN_RNN_H_

#include <cstdint>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cudnn_rnn_attributes.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/ops/dropout_generator.h"
#include "cc/rnn/network.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The configuration of a pass; lives as long as the call. The plan of each
// engine derives from it, with a constructor from CallFrame*.
struct NetworkPlan {
  // The number of elements of the reserve_space of a pass in training mode,
  // negative if it overflows.
  std::int64_t reserve_space_size = 0;
  // Identifies the reserve_space.
  rnn::ReserveSpaceKey key{};
};

// The engine of a device is the class Engines::Network<E>. It has the lifetime
// of the op, and like the op several threads may use it at once. Its members:
//
//   using Plan = ...;  // a NetworkPlan
//   // Of the forward op.
//   Status Init(const Attributes&);
//   // is_training: of the forward pass, or of the one before a backward pass.
//   Status MakePlan(const CudnnRnnInputs&, bool is_training, Plan*);
//   // The shape and the contents of the output host_reserved. The stream is
//   // that of the dropout masks.
//   Shape HostReservedShape(int version, bool is_training) const;
//   void FillHostReserved(const Plan&, const rnn::RandomStream&,
//                         const Array& host_reserved) const;
//   // Copies the header of reserve_space; zeros if there is none. May replace
//   // the array by a copy.
//   Status ReadHeader(CallFrame*, int version, Array* reserve_space,
//                     rnn::ReserveSpaceHeader*) const;
//   // Whether Backward needs input_backprop even if nothing reads it. It does
//   // not compute params_backprop if that is null.
//   bool needs_input_backprop() const;
//   // Run the passes. The engine provides the workspace.
//   Status Forward(CallFrame*, const CudnnRnnInputs&, Plan*,
//                  rnn::NetworkForward<E>*) const;
//   Status Backward(CallFrame*, const CudnnRnnInputs&, Plan*,
//                   rnn::NetworkBackward<E>*) const;
//   Status SetZero(const Plan&, const Array&) const;

// CudnnRNN, CudnnRNNV2 and CudnnRNNV3.
// is_stateless: whether the seed of dropout is an input, and no attribute.
template <typename Engines, typename E, int version, bool is_stateless = false>
class CudnnRnnForwardOp {
  using Engine = typename Engines::template Network<E>;

 public:
  Status Init(const Attributes& attributes) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes_.Read(attributes));
    TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("is_training", &is_training_));
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Init(attributes));
    // Without dropout nothing is random, so deterministic TensorFlow must not
    // require a seed.
    return has_dropout() && !is_stateless ? dropout_.Init(attributes)
                                          : Status();
  }

  Status Run(CallFrame* frame) {
    CudnnRnnInputs inputs(frame, attributes_);
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(
        *frame, [&] { return inputs.ReadForwardInputs(version >= 3); }));
    const std::int64_t* seed = nullptr;
    if (is_stateless) {
      TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame, "seed", "[2]", {2}, &seed));
    }
    const bool trains = KeepsData(*frame, inputs);
    typename Engine::Plan plan(frame);
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.MakePlan(inputs, trains, &plan));

    Outputs outputs;
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutputs(
        frame, inputs, trains ? plan.reserve_space_size : 0, &outputs));
    if (!frame->has_values()) return Status();

    rnn::NetworkForward<E> pass{};
    inputs.Fill(&pass);
    if (trains) {
      pass.kept =
          rnn::Kept<E>::ReserveSpace(outputs.reserve_space.template As<E>());
    }
    if (trains && pass.dropout > 0) {
      pass.stream = is_stateless ? StreamOf(seed[0], seed[1])
                                 : dropout_.Reserve(rnn::NumDropoutSamples(
                                       pass.config, pass.size, pass.dropout));
    }
    if (version >= 2) {
      engine_.FillHostReserved(plan, pass.stream, outputs.host_reserved);
    }
    if (!inputs.config().has_cell_state()) {
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.SetZero(plan, outputs.output_c));
    }
    pass.output = outputs.output.template As<E>();
    pass.output_h = outputs.output_h.template As<E>();
    pass.output_c = outputs.output_c.template As<E>();
    return engine_.Forward(frame, inputs, &plan, &pass);
  }

 private:
  struct Outputs {
    Array output, output_h, output_c, reserve_space, host_reserved;
  };

  // Whether the op applies dropout if it has more than one layer.
  bool has_dropout() const { return is_training_ && attributes_.dropout() > 0; }

  // Whether to apply dropout or to keep data for the gradient. Serving graphs
  // made for GPUs may have is_training = true, but nothing reads their
  // reserve_space.
  bool KeepsData(const CallFrame& frame, const CudnnRnnInputs& inputs) const {
    const bool drops = has_dropout() && inputs.config().num_layers > 1;
    return drops || (is_training_ && frame.IsWanted("reserve_space"));
  }

  // output_c is a scalar 0 if there is no cell state.
  Status MakeOutputs(CallFrame* frame, const CudnnRnnInputs& inputs,
                     std::int64_t reserve_space_size, Outputs* outputs) const {
    if (inputs.is_complete() && reserve_space_size < 0) {
      return inputs.TooLarge();
    }
    const Shape output_c =
        inputs.config().has_cell_state() ? inputs.input_c.shape : Shape();
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutput("output", inputs.output_shape(), &outputs->output));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        "output_h", inputs.input_h.shape, &outputs->output_h));
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutput("output_c", output_c, &outputs->output_c));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        "reserve_space", {reserve_space_size}, &outputs->reserve_space));
    if (version < 2) return Status();
    return frame->MakeOutput("host_reserved",
                             engine_.HostReservedShape(version, is_training_),
                             &outputs->host_reserved);
  }

  CudnnRnnAttributes attributes_;
  bool is_training_ = true;
  DropoutGenerator dropout_;
  Engine engine_;
};

// CudnnRNNBackprop, CudnnRNNBackpropV2 and CudnnRNNBackpropV3.
template <typename Engines, typename E, int version>
class CudnnRnnBackwardOp {
  using Engine = typename Engines::template Network<E>;

 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    CudnnRnnInputs inputs(frame, attributes_);
    rnn::NetworkBackward<E> pass{};
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadForwardInputs(version >= 3));
      TF_RNN_OPS_RETURN_IF_ERROR(ReadOutputs(&inputs, &pass));
      return inputs.ReadGradients(&pass);
    }));
    inputs.Fill(&pass);
    Array reserve_space;
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadReserveSpace(&reserve_space));
    typename Engine::Plan plan(frame);
    TF_RNN_OPS_RETURN_IF_ERROR(
        engine_.MakePlan(inputs, /*is_training=*/true, &plan));
    rnn::ReserveSpaceHeader header;
    if (frame->has_values()) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          engine_.ReadHeader(frame, version, &reserve_space, &header));
      TF_RNN_OPS_RETURN_IF_ERROR(CheckReserveSpace<E>(
          plan.key, header, reserve_space, plan.reserve_space_size));
    }
    pass.kept =
        rnn::Kept<const E>::ReserveSpace(reserve_space.As<const E>(), &header);

    Array input_c_backprop;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeGradients(frame, inputs, &pass, &input_c_backprop));
    if (!frame->has_values()) return Status();
    if (!inputs.config().has_cell_state()) {
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.SetZero(plan, input_c_backprop));
    }
    return engine_.Backward(frame, inputs, &plan, &pass);
  }

 private:
  // Reads the outputs of the forward op. The engine needs no final states.
  static Status ReadOutputs(CudnnRnnInputs* inputs,
                            rnn::NetworkBackward<E>* pass) {
    Array output, output_h, output_c;
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadOutput("output", &output));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadHiddenState("output_h", &output_h));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadCellState("output_c", &output_c));
    pass->output = output.As<E>();
    return Status();
  }

  // Makes the gradients with respect to the inputs, except those that nothing
  // reads.
  // input_c_backprop: must be zeros if input_c is ignored.
  Status MakeGradients(CallFrame* frame, const CudnnRnnInputs& inputs,
                       rnn::NetworkBackward<E>* pass,
                       Array* input_c_backprop) const {
    if (engine_.needs_input_backprop() || frame->IsWanted("input_backprop")) {
      TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(
          frame, "input_backprop", inputs.input.shape, &pass->input_backprop));
    }
    if (frame->IsWanted("params_backprop")) {
      TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "params_backprop",
                                            inputs.params.shape,
                                            &pass->weights_backprop.params));
    }
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "input_h_backprop",
                                          inputs.input_h.shape,
                                          &pass->input_h_backprop));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        "input_c_backprop", inputs.input_c.shape, input_c_backprop));
    pass->input_c_backprop = input_c_backprop->As<E>();
    return Status();
  }

  CudnnRnnAttributes attributes_;
  Engine engine_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CUDNN_RNN_H_
