// The kernels of CudnnRNN, its versions and their backprops, for any device.
//
// An engine runs a network on one device. It is made with the attributes of a
// kernel, and lives and is shared as the kernel is. Its members:
//
//   // What is decided about a pass before it is run; lives as long as Compute
//   // runs. Has a constructor from OpKernelContext*, and a member
//   // reserve_space_size: the number of elements of the reserve space that a
//   // pass that trains leaves, negative if they are too many to count.
//   class Plan;
//   // is_training: of the forward pass, or of the one before a backward pass.
//   absl::Status MakePlan(OpKernelContext*, const CudnnRnnInputs&,
//                         bool is_training, Plan*);
//   // Allocates and fills the output host_reserved.
//   // stream: of the dropout masks.
//   absl::Status MakeHostReserved(OpKernelContext*, const Plan&, int version,
//                                 bool is_training,
//                                 const rnn::RandomStream& stream) const;
//   // Whether Backward needs room for input_backprop if nothing reads it, too.
//   // It makes no params_backprop if that is null.
//   static constexpr bool kNeedsInputBackprop;
//   // Runs the passes. The engine provides the workspace.
//   absl::Status Forward(OpKernelContext*, const CudnnRnnInputs&, Plan*,
//                        rnn::CudnnRnnForward<E>*);
//   absl::Status Backward(OpKernelContext*, const CudnnRnnInputs&, Plan*,
//                         rnn::CudnnRnnBackward<E>*);
//   // What is wrong with a reserve_space, in words; empty if nothing is. May
//   // put another tensor of the same contents in its place. Copies its header.
//   absl::Status FindReserveSpaceMismatch(
//       OpKernelContext*, const CudnnRnnInputs&, Plan*, int version,
//       Tensor* reserve_space, rnn::ReserveSpaceHeader*,
//       std::string* mismatch);
//   absl::Status SetZero(const Plan&, Tensor*) const;

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/cudnn_rnn_inputs.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/dropout_generator.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

// CudnnRNN, CudnnRNNV2 and CudnnRNNV3.
template <template <typename> class Engine, typename T, int version>
class CudnnRNNForwardOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNForwardOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_training", &is_training_));
    // Without dropout there is nothing random, and TensorFlow, where it is to
    // be deterministic, must not ask for a seed.
    if (Drops()) OP_REQUIRES_OK(ctx, dropout_.Init(ctx));
    int end;
    OP_REQUIRES_OK(ctx,
                   OutputRange("reserve_space", &reserve_space_index_, &end));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs(version >= 3));
    const bool trains = Trains(ctx, inputs);
    typename Engine<T>::Plan plan(ctx);
    OP_REQUIRES_OK(ctx, engine_.MakePlan(ctx, inputs, trains, &plan));

    tensorflow::Tensor *output, *output_h, *output_c, *reserve_space;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output("output", inputs.output_shape(), &output));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            "output_h", inputs.input_h->shape(), &output_h));
    OP_REQUIRES_OK(ctx, AllocateCellState(ctx, inputs, plan, &output_c));
    OP_REQUIRES_OK(ctx, AllocateReserveSpace(
                            ctx, inputs, trains ? plan.reserve_space_size : 0,
                            &reserve_space));

    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.is_training = trains;
    if (trains && pass.dropout > 0) {
      pass.stream = dropout_.Reserve(
          rnn::NumDropoutSamples(pass.config, pass.size, pass.dropout));
    }
    if constexpr (version >= 2) {
      OP_REQUIRES_OK(ctx, engine_.MakeHostReserved(ctx, plan, version,
                                                   is_training_, pass.stream));
    }
    pass.output = EngineData<T>(output);
    pass.output_h = EngineData<T>(output_h);
    pass.output_c = EngineData<T>(output_c);
    pass.reserve_space = EngineData<T>(reserve_space);
    OP_REQUIRES_OK(ctx, engine_.Forward(ctx, inputs, &plan, &pass));
  }

 private:
  using E = EngineType<T>;

  // Whether the op drops inputs of layers above the first, if there are any.
  bool Drops() const { return is_training_ && attributes_.dropout() > 0; }

  // Whether there is something to drop or to keep for a gradient. Graphs that
  // are made for GPUs say is_training where they serve, and in them nothing
  // reads reserve_space.
  bool Trains(tensorflow::OpKernelContext* ctx,
              const CudnnRnnInputs& inputs) const {
    const bool drops = Drops() && inputs.config().num_layers > 1;
    return drops ||
           (is_training_ && ctx->output_required(reserve_space_index_));
  }

  // output_c is a scalar 0 where there is no cell state.
  absl::Status AllocateCellState(tensorflow::OpKernelContext* ctx,
                                 const CudnnRnnInputs& inputs,
                                 const typename Engine<T>::Plan& plan,
                                 tensorflow::Tensor** output_c) const {
    if (inputs.config().has_cell_state()) {
      return ctx->allocate_output("output_c", inputs.input_c->shape(),
                                  output_c);
    }
    TF_RETURN_IF_ERROR(MakeOutput(ctx, "output_c", {}, output_c));
    return engine_.SetZero(plan, *output_c);
  }

  static absl::Status AllocateReserveSpace(tensorflow::OpKernelContext* ctx,
                                           const CudnnRnnInputs& inputs,
                                           std::int64_t size,
                                           tensorflow::Tensor** reserve_space) {
    if (size < 0) return inputs.TooLarge();
    return MakeOutput(ctx, "reserve_space", {size}, reserve_space);
  }

  CudnnRnnAttributes attributes_;
  bool is_training_ = true;
  int reserve_space_index_;
  DropoutGenerator dropout_;
  Engine<T> engine_{attributes_};
};

// CudnnRNNBackprop, CudnnRNNBackpropV2 and CudnnRNNBackpropV3.
template <template <typename> class Engine, typename T, int version>
class CudnnRNNBackwardOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNBackwardOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    int end;
    OP_REQUIRES_OK(ctx, OutputRange("input_backprop", &input_index_, &end));
    OP_REQUIRES_OK(ctx, OutputRange("params_backprop", &params_index_, &end));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs(version >= 3));
    rnn::CudnnRnnBackward<E> pass{};
    inputs.Fill<T>(&pass);
    OP_REQUIRES_OK(ctx, ReadOutputs(inputs, &pass));
    OP_REQUIRES_OK(ctx, inputs.ReadGradients<T>(&pass));
    typename Engine<T>::Plan plan(ctx);
    OP_REQUIRES_OK(ctx,
                   engine_.MakePlan(ctx, inputs, /*is_training=*/true, &plan));
    tensorflow::Tensor reserve_space;
    rnn::ReserveSpaceHeader header;
    std::string mismatch;
    OP_REQUIRES_OK(ctx, inputs.ReadReserveSpace(&reserve_space));
    OP_REQUIRES_OK(ctx, engine_.FindReserveSpaceMismatch(
                            ctx, inputs, &plan, version, &reserve_space,
                            &header, &mismatch));
    OP_REQUIRES_OK(ctx, CheckReserveSpace(mismatch));
    pass.reserve_space = EngineData<T>(reserve_space);
    pass.reserve_space_header = &header;

    OP_REQUIRES_OK(ctx, AllocateGradients(ctx, inputs, plan, &pass));
    OP_REQUIRES_OK(ctx, engine_.Backward(ctx, inputs, &plan, &pass));
  }

 private:
  using E = EngineType<T>;

  // Reads the outputs of the forward op. The engine needs no final states.
  static absl::Status ReadOutputs(const CudnnRnnInputs& inputs,
                                  rnn::CudnnRnnBackward<E>* pass) {
    const tensorflow::Tensor *output, *output_h, *output_c;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output", &output));
    TF_RETURN_IF_ERROR(inputs.ReadHiddenState("output_h", &output_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("output_c", &output_c));
    pass->output = EngineData<T>(*output);
    return absl::OkStatus();
  }

  // Allocates the gradients with respect to the inputs, of their shapes. That
  // of an input_c that is ignored is zero. Those that a graph does not go on
  // with are not made.
  absl::Status AllocateGradients(tensorflow::OpKernelContext* ctx,
                                 const CudnnRnnInputs& inputs,
                                 const typename Engine<T>::Plan& plan,
                                 rnn::CudnnRnnBackward<E>* pass) const {
    if (Engine<T>::kNeedsInputBackprop || ctx->output_required(input_index_)) {
      tensorflow::Tensor* input;
      TF_RETURN_IF_ERROR(
          ctx->allocate_output(input_index_, inputs.input->shape(), &input));
      pass->input_backprop = EngineData<T>(input);
    }
    if (ctx->output_required(params_index_)) {
      tensorflow::Tensor* params;
      TF_RETURN_IF_ERROR(
          ctx->allocate_output(params_index_, inputs.params->shape(), &params));
      pass->params_backprop = EngineData<T>(params);
    }
    tensorflow::Tensor *input_h, *input_c;
    TF_RETURN_IF_ERROR(ctx->allocate_output("input_h_backprop",
                                            inputs.input_h->shape(), &input_h));
    TF_RETURN_IF_ERROR(ctx->allocate_output("input_c_backprop",
                                            inputs.input_c->shape(), &input_c));
    if (!inputs.config().has_cell_state()) {
      TF_RETURN_IF_ERROR(engine_.SetZero(plan, input_c));
    }
    pass->input_h_backprop = EngineData<T>(input_h);
    pass->input_c_backprop = EngineData<T>(input_c);
    return absl::OkStatus();
  }

  CudnnRnnAttributes attributes_;
  int input_index_;
  int params_index_;
  Engine<T> engine_{attributes_};
};

// Registers the kernels that run on an engine.
template <template <typename> class Engine>
struct CudnnRnnKernelsOn {
  template <typename T>
  using ForwardV1 = CudnnRNNForwardOp<Engine, T, 1>;
  template <typename T>
  using ForwardV2 = CudnnRNNForwardOp<Engine, T, 2>;
  template <typename T>
  using ForwardV3 = CudnnRNNForwardOp<Engine, T, 3>;
  template <typename T>
  using BackwardV1 = CudnnRNNBackwardOp<Engine, T, 1>;
  template <typename T>
  using BackwardV2 = CudnnRNNBackwardOp<Engine, T, 2>;
  template <typename T>
  using BackwardV3 = CudnnRNNBackwardOp<Engine, T, 3>;

  static void Add(const DeviceKernels& kernels) {
    const std::initializer_list<const char*> v2 = {"host_reserved"};
    const std::initializer_list<const char*> v3 = {"host_reserved",
                                                   "sequence_lengths"};
    kernels.AddForEachFloat<ForwardV1>("CudnnRNN");
    kernels.AddForEachFloat<ForwardV2>("CudnnRNNV2", v2);
    kernels.AddForEachFloat<ForwardV3>("CudnnRNNV3", v3);
    kernels.AddForEachFloat<BackwardV1>("CudnnRNNBackprop");
    kernels.AddForEachFloat<BackwardV2>("CudnnRNNBackpropV2", v2);
    kernels.AddForEachFloat<BackwardV3>("CudnnRNNBackpropV3", v3);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_H_
