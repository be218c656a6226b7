// LSTMBlockCell, BlockLSTM and their gradients, for the CPU.

#ifndef TF_RNN_OPS_CC_OPS_CPU_BLOCK_LSTM_H_
#define TF_RNN_OPS_CC_OPS_CPU_BLOCK_LSTM_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/run_pass.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/lstm_block_cell.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops {

// Of BlockLSTM.
enum class LstmVersion {
  kV1,
  kV2,  // with another order of the gates
  kV3,  // only a gradient op, which takes the gradients of all outputs; the
        // order is an attribute
};

// The outputs that LstmActivations holds, in its order.
constexpr const char* kLstmActivations[] = {"i", "f", "ci", "o", "co", "cs"};
constexpr const char* kLstmActivationGradients[] = {
    "i_grad", "f_grad", "ci_grad", "o_grad", "co_grad", "cs_grad"};
// In the order of rnn::Peephole.
constexpr const char* kPeepholes[] = {"wci", "wcf", "wco"};
constexpr const char* kPeepholeGradients[] = {"wci_grad", "wcf_grad",
                                              "wco_grad"};

struct BlockLstmAttributes {
  rnn::BlockLstm cell{/*is_used=*/true};
  bool has_new_cell_second = false;  // see rnn::Weights
  bool has_peepholes = false;
};

// The inputs of an op, forward or backward. Finds them by name and checks that
// they fit one another.
template <typename E>
class BlockLstmInputs {
 public:
  BlockLstmInputs(CallFrame* frame, bool is_step,
                  const BlockLstmAttributes& attributes)
      : frame_(frame), is_step_(is_step), attributes_(attributes) {
    config_.mode = rnn::RnnMode::kLstm;
    config_.num_directions = 1;
    config_.num_layers = 1;
    config_.block_lstm = attributes.cell;
  }
  // Dimensions refer to sizes.
  BlockLstmInputs(const BlockLstmInputs&) = delete;

  // Reads all inputs of a forward op.
  Status ReadForwardInputs() {
    TF_RNN_OPS_RETURN_IF_ERROR(ReadSteps("x", input_size_, &x));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "cs_prev", {batch_, cell_size_}, &cs_prev));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "h_prev", {batch_, cell_size_}, &h_prev));
    if (fan_in_.value() == Dimension::kTooLarge ||
        gates_.value() == Dimension::kTooLarge) {
      return TooLarge();
    }
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "w", {fan_in_, gates_}, &w));
    for (int i = 0; i < rnn::kNumPeepholes; ++i) {
      Array peephole;
      TF_RNN_OPS_RETURN_IF_ERROR(
          ReadInput(frame_, kPeepholes[i], {cell_size_}, &peephole));
      if (attributes_.has_peepholes) {
        peepholes.arrays[i] = peephole.As<const E>();
      }
    }
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "b", {gates_}, &b));
    return is_step_ ? Status() : ReadSeqLenMax();
  }

  // Reads an input with the shape of the outputs.
  Status ReadLikeOutput(const char* name, const E** data) {
    Array array;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadSteps(name, cell_size_, &array));
    *data = array.As<E>();
    return Status();
  }

  // Reads inputs with the shape of the outputs.
  Status ReadLikeOutputs(
      const char* const (&names)[rnn::LstmActivations<E>::kCount],
      rnn::LstmActivations<const E>* activations) {
    for (int i = 0; i < activations->kCount; ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          ReadLikeOutput(names[i], &activations->arrays[i]));
    }
    return Status();
  }

  // Rejects sizes that overflow, and completes the configuration.
  Status Finish() {
    config_.input_size = input_size_.value();
    config_.num_units = cell_size_.value();
    size_ = {is_step_ ? 1 : time_.value(), batch_.value()};
    if (size_.time < 0 || size_.batch < 0 || config_.input_size < 0 ||
        config_.num_units < 0) {
      return Status();
    }
    if (output_shape().NumElements() < 0 ||
        !rnn::LayerKeptSize(config_, size_).valid()) {
      return TooLarge();
    }
    return config_.num_units == 0 ? Status()
                                  : CheckNumSteps("x", size_.time, x);
  }

  // Fills a pass of the engine over a sequence with the inputs.
  void FillSequence(rnn::NetworkPass<E>* pass) const {
    pass->config = config_;
    pass->size = {num_steps_, size_.batch};
    pass->time_major = true;
    pass->input = x.As<E>();
    pass->input_h = h_prev.As<E>();
    pass->input_c = cs_prev.As<E>();
    pass->weights = WeightsOf(w.As<const E>(), b.As<const E>(), peepholes);
  }
  // Fills a step with the inputs that both directions read.
  template <template <typename> class Step>
  void FillStep(Step<E>* step) const {
    step->size = {size_.batch, config_.input_size, config_.num_units};
    step->options = config_.block_lstm;
    step->c_prev = cs_prev.As<E>();
    step->peepholes = peepholes;
  }
  void FillForwardStep(rnn::LstmBlockCellForward<E>* step) const {
    FillStep(step);
    step->x = x.As<E>();
    step->h_prev = h_prev.As<E>();
    step->w = w.As<E>();
    step->b = b.As<E>();
  }
  // Arrays with the shapes of the weights.
  template <typename W>
  rnn::Weights<W> WeightsOf(W* matrix, W* biases,
                            const rnn::Peepholes<W>& of_peepholes) const {
    return rnn::Weights<W>::BlockLstm(matrix, biases, of_peepholes,
                                      attributes_.has_new_cell_second,
                                      config_.input_size, config_.num_units);
  }

  // The error for sizes that overflow.
  Status TooLarge() const {
    return InvalidArgument(
        "x and h_prev must be smaller: the memory size of the op overflows "
        "int64 for x of shape ",
        x.shape.ToString(), " and h_prev of shape ", h_prev.shape.ToString());
  }

  const rnn::RnnConfig& config() const { return config_; }
  bool has_peepholes() const { return attributes_.has_peepholes; }
  // The number of elements of an array [time, batch, width] that belong to the
  // steps to run.
  std::int64_t NumElements(std::int64_t width) const {
    return num_steps_ * size_.batch * width;
  }
  Shape output_shape() {
    return is_step_ ? ShapeOf({batch_, cell_size_})
                    : ShapeOf({time_, batch_, cell_size_});
  }
  Shape gates_shape() { return ShapeOf({batch_, gates_}); }
  Shape peephole_shape() { return ShapeOf({cell_size_}); }

  Array x, cs_prev, h_prev, w, b;
  rnn::Peepholes<const E> peepholes{};  // null unless used

 private:
  // Reads an input [batch, width], or of a sequence [time, batch, width].
  Status ReadSteps(const char* name, Size& width, Array* array) {
    return is_step_ ? ReadInput(frame_, name, {batch_, width}, array)
                    : ReadInput(frame_, name, {time_, batch_, width}, array);
  }

  Status ReadSeqLenMax() {
    Array seq_len_max;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "seq_len_max", "[]", Shape{}, &seq_len_max));
    if (!frame_->has_values()) return Status();
    num_steps_ = *seq_len_max.As<const std::int64_t>();
    if (num_steps_ >= 0 && num_steps_ <= time_.value()) return Status();
    return InvalidArgument("seq_len_max must be from 0 to time = ",
                           time_.value(), ", but is ", num_steps_);
  }

  CallFrame* const frame_;
  const bool is_step_;
  const BlockLstmAttributes& attributes_;
  Size time_{"time"}, batch_{"batch"}, input_size_{"input_size"},
      cell_size_{"cell_size"};
  Dimension fan_in_{input_size_, cell_size_};
  Dimension gates_{4, cell_size_};
  std::int64_t num_steps_ = 1;
  rnn::RnnSize size_{};
  rnn::RnnConfig config_{};
};

// Makes an output and fills it with zeros from element `first` on; does nothing
// if nothing reads it.
template <typename E>
Status MakeOutputIfWanted(CallFrame* frame, const char* name,
                          const Shape& shape, std::int64_t first, E** data) {
  if (!frame->IsWanted(name)) return Status();
  Array array;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(name, shape, &array));
  if (!frame->has_values()) return Status();
  *data = array.As<E>();
  std::fill(*data + first, *data + array.num_elements, E{});
  return Status();
}

// Makes the outputs of a forward op that something reads, with zeros in the
// steps that do not run.
template <typename E>
Status MakeForwardOutputs(CallFrame* frame, BlockLstmInputs<E>* inputs,
                          rnn::LstmActivations<E>* activations, E** h) {
  const Shape shape = inputs->output_shape();
  const std::int64_t end = inputs->NumElements(inputs->config().num_units);
  for (int i = 0; i < activations->kCount; ++i) {
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutputIfWanted(
        frame, kLstmActivations[i], shape, end, &activations->arrays[i]));
  }
  return MakeOutputIfWanted(frame, "h", shape, end, h);
}

// Makes the gradients of the peepholes. They are zeros, and null in
// `gradients`, if the op does not use these.
template <typename E>
Status MakePeepholeGradients(CallFrame* frame, BlockLstmInputs<E>* inputs,
                             rnn::Peepholes<E>* gradients) {
  for (int i = 0; i < rnn::kNumPeepholes; ++i) {
    Array gradient;
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        kPeepholeGradients[i], inputs->peephole_shape(), &gradient));
    if (!frame->has_values()) continue;
    if (inputs->has_peepholes()) {
      gradients->arrays[i] = gradient.As<E>();
    } else {
      SetZero(gradient);
    }
  }
  return Status();
}

// Reads the attributes of a forward op.
// has_forget_bias: whether the op has this attribute.
inline Status ReadAttributes(const Attributes& attributes, bool has_forget_bias,
                             BlockLstmAttributes* options) {
  rnn::BlockLstm& cell = options->cell;
  if (has_forget_bias) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        attributes.Get("forget_bias", &cell.forget_bias));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(attributes.Get("cell_clip", &cell.cell_clip));
  // NaN is no bound, either, nor is a subnormal number, which is 0 in threads
  // that flush it.
  if (!(cell.cell_clip >= std::numeric_limits<float>::min())) {
    cell.cell_clip = 0;
  }
  return attributes.Get("use_peephole", &options->has_peepholes);
}

template <typename E>
class LstmBlockCellForwardOp {
 public:
  Status Init(const Attributes& attributes) {
    return ReadAttributes(attributes, /*has_forget_bias=*/true, &options_);
  }

  Status Run(CallFrame* frame) {
    BlockLstmInputs<E> inputs(frame, /*is_step=*/true, options_);
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return inputs.ReadForwardInputs(); }));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.Finish());
    rnn::LstmBlockCellForward<E> step{};
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeForwardOutputs(frame, &inputs, &step.activations, &step.h));
    if (!frame->has_values()) return Status();
    inputs.FillForwardStep(&step);
    return RunPass(frame, inputs, kernels_.forward_workspace, kernels_.forward,
                   &step);
  }

 private:
  const rnn::LstmBlockCellKernels<E> kernels_ =
      rnn::GetLstmBlockCellKernels<E>(rnn::ActiveInstructionSet());
  BlockLstmAttributes options_;
};

template <typename E>
class LstmBlockCellBackwardOp {
 public:
  Status Init(const Attributes& attributes) {
    return attributes.Get("use_peephole", &options_.has_peepholes);
  }

  Status Run(CallFrame* frame) {
    BlockLstmInputs<E> inputs(frame, /*is_step=*/true, options_);
    rnn::LstmBlockCellBackward<E> step{};
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return Read(&inputs, &step); }));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.Finish());
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(
        frame, "cs_prev_grad", inputs.cs_prev.shape, &step.d_c_prev));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "dicfo", inputs.gates_shape(), &step.d_gates));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakePeepholeGradients(frame, &inputs, &step.d_peepholes));
    if (!frame->has_values()) return Status();
    inputs.FillStep(&step);
    return RunPass(frame, inputs, kernels_.backward_workspace,
                   kernels_.backward, &step);
  }

 private:
  static Status Read(BlockLstmInputs<E>* inputs,
                     rnn::LstmBlockCellBackward<E>* step) {
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadForwardInputs());
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadLikeOutputs(kLstmActivations, &step->activations));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadLikeOutput("cs_grad", &step->d_c));
    return inputs->ReadLikeOutput("h_grad", &step->d_h);
  }

  const rnn::LstmBlockCellKernels<E> kernels_ =
      rnn::GetLstmBlockCellKernels<E>(rnn::ActiveInstructionSet());
  BlockLstmAttributes options_;
};

template <typename E, LstmVersion version>
class BlockLstmForwardOp {
 public:
  Status Init(const Attributes& attributes) {
    options_.has_new_cell_second = version == LstmVersion::kV1;
    return ReadAttributes(attributes, version == LstmVersion::kV1, &options_);
  }

  Status Run(CallFrame* frame) {
    BlockLstmInputs<E> inputs(frame, /*is_step=*/false, options_);
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return inputs.ReadForwardInputs(); }));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.Finish());
    rnn::NetworkForward<E> pass{};
    rnn::LstmActivations<E> activations{};
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeForwardOutputs(frame, &inputs, &activations, &pass.output));
    if (!frame->has_values()) return Status();
    inputs.FillSequence(&pass);
    pass.kept = rnn::Kept<E>::Activations(activations);
    const auto kernels = KernelsFor<E>(inputs);
    return RunPass(frame, inputs, kernels.forward_workspace, kernels.forward,
                   &pass);
  }

 private:
  BlockLstmAttributes options_;
};

template <typename E, LstmVersion version>
class BlockLstmBackwardOp {
 public:
  Status Init(const Attributes& attributes) {
    options_.has_new_cell_second = version == LstmVersion::kV1;
    if (kHasAllGradients) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          attributes.Get("new_cell_second", &options_.has_new_cell_second));
    }
    return attributes.Get("use_peephole", &options_.has_peepholes);
  }

  Status Run(CallFrame* frame) {
    BlockLstmInputs<E> inputs(frame, /*is_step=*/false, options_);
    rnn::NetworkBackward<E> pass{};
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return Read(&inputs, &pass); }));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.Finish());
    TF_RNN_OPS_RETURN_IF_ERROR(MakeGradients(frame, &inputs, &pass));
    if (!frame->has_values()) return Status();
    inputs.FillSequence(&pass);
    const auto kernels = KernelsFor<E>(inputs);
    return RunPass(frame, inputs, kernels.backward_workspace, kernels.backward,
                   &pass);
  }

 private:
  static constexpr bool kHasAllGradients = version == LstmVersion::kV3;

  static Status Read(BlockLstmInputs<E>* inputs,
                     rnn::NetworkBackward<E>* pass) {
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadForwardInputs());
    rnn::LstmActivations<const E> activations;
    TF_RNN_OPS_RETURN_IF_ERROR(
        inputs->ReadLikeOutputs(kLstmActivations, &activations));
    pass->kept = rnn::Kept<const E>::Activations(activations);
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadLikeOutput("h", &pass->output));
    auto& gradients = pass->activations_backprop;
    TF_RNN_OPS_RETURN_IF_ERROR(
        kHasAllGradients
            ? inputs->ReadLikeOutputs(kLstmActivationGradients, &gradients)
            : inputs->ReadLikeOutput("cs_grad",
                                     &gradients.arrays[gradients.kCount - 1]));
    return inputs->ReadLikeOutput("h_grad", &pass->output_backprop);
  }

  // Makes the results. Those with respect to the states and peepholes are
  // always computed.
  Status MakeGradients(CallFrame* frame, BlockLstmInputs<E>* inputs,
                       rnn::NetworkBackward<E>* pass) const {
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(
        frame, "cs_prev_grad", inputs->cs_prev.shape, &pass->input_c_backprop));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(
        frame, "h_prev_grad", inputs->h_prev.shape, &pass->input_h_backprop));
    rnn::Weights<E>& weights = pass->weights_backprop;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakePeepholeGradients(frame, inputs, &weights.peepholes));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutputIfWanted(frame, "x_grad", inputs->x.shape,
                           inputs->NumElements(inputs->config().input_size),
                           &pass->input_backprop));
    if (!frame->IsWanted("w_grad") && !frame->IsWanted("b_grad")) {
      return Status();
    }
    E *w_grad, *b_grad;
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "w_grad", inputs->w.shape, &w_grad));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "b_grad", inputs->b.shape, &b_grad));
    if (frame->has_values()) {
      weights = inputs->WeightsOf(w_grad, b_grad, weights.peepholes);
    }
    return Status();
  }

  BlockLstmAttributes options_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_BLOCK_LSTM_H_
