// KerasRNN and its gradient, for the CPU.

#ifndef TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_
#define TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/engine.h"
#include "cc/ops/cudnn_rnn_inputs.h"
#include "cc/ops/keras_rnn_inputs.h"
#include "cc/ops/status.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/float16_conversion.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops {

// Computes the outputs of masked steps, as Keras defines them, from the outputs
// of the kept steps; and the reverse for gradients.
template <typename E>
class KerasOutputs {
 public:
  KerasOutputs(const KerasRnnAttributes& attributes,
               const KerasRnnInputs& inputs)
      : attributes_(attributes),
        steps_(inputs.steps()),
        size_(inputs.size()),
        units_(inputs.config().num_units) {}

  // Copies to the place of each masked step the output of the place before it,
  // unless outputs of masked steps stay the zeros that the engine wrote.
  // outputs: [batch, time, units]
  void Repeat(E* outputs) const {
    if (!repeats()) return;
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      E* const first = outputs + sample * size_.time * units_;
      ForEachLeftOut(sample, [&](std::int64_t place) {
        if (place > 0) {
          std::copy_n(first + (place - 1) * units_, units_,
                      first + place * units_);
        }
      });
    }
  }

  // The reverse of Repeat for gradients: adds the gradient at the place of each
  // masked step to the place before it.
  // d_outputs: [batch, time, units]
  // sum: d_outputs itself if nothing is added, else scratch memory.
  Status AddUp(CallFrame* frame, const Array& d_outputs, const E** sum) const {
    *sum = d_outputs.As<E>();
    if (!repeats()) return Status();
    void* memory;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeScratch(d_outputs.num_bytes, &memory));
    E* const rows = static_cast<E*>(memory);
    std::copy_n(d_outputs.As<E>(), d_outputs.num_elements, rows);
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeScratch(units_ * sizeof(Compute), &memory));
    Compute* const carried = static_cast<Compute*>(memory);
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      AddUpSample(sample, rows + sample * size_.time * units_, carried);
    }
    *sum = rows;
    return Status();
  }

  // Makes the output of the last step. Both arrays are [batch, units].
  void TakeLast(const E* final_h, E* last) const {
    if (units_ == 0) return;  // batch may be huge
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      E* const to = last + sample * units_;
      if (IsLastOfFinal(sample)) {
        std::copy_n(final_h + sample * units_, units_, to);
      } else {
        std::fill_n(to, units_, E{});
      }
    }
  }

  // The reverse of TakeLast for gradients: adds d_last to d_final_h. All arrays
  // are [batch, units].
  Status AddToFinal(CallFrame* frame, const E* d_last, const Array& d_final_h,
                    const E** sum) const {
    void* memory;
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeScratch(d_final_h.num_bytes, &memory));
    *sum = static_cast<E*>(memory);
    if (units_ == 0) return Status();
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      const std::int64_t row = sample * units_;
      E* const to = static_cast<E*>(memory) + row;
      std::copy_n(d_final_h.As<E>() + row, units_, to);
      if (!IsLastOfFinal(sample)) continue;
      for (std::int64_t unit = 0; unit < units_; ++unit) {
        rnn::Round(
            rnn::ToCompute(to[unit]) + rnn::ToCompute(d_last[row + unit]),
            &to[unit]);
      }
    }
    return Status();
  }

 private:
  using Compute = rnn::ComputeType<E>;

  // rows: [time, units]
  // carried: [units], scratch memory for the sum of the masked steps after a
  //   place.
  void AddUpSample(std::int64_t sample, E* rows, Compute* carried) const {
    const std::int32_t* const places = steps_.places(sample);
    // The index in places of the last masked step up to a place.
    std::int64_t last = size_.time - 1;
    std::fill_n(carried, units_, Compute(0));
    for (std::int64_t place = size_.time - 1; place >= 0; --place) {
      const bool is_left_out =
          last >= steps_.length(sample) && places[last] == place;
      if (is_left_out) --last;
      E* const row = rows + place * units_;
      for (std::int64_t unit = 0; unit < units_; ++unit) {
        const Compute total = carried[unit] + rnn::ToCompute(row[unit]);
        if (!is_left_out) rnn::Round(total, &row[unit]);
        carried[unit] = is_left_out ? total : Compute(0);
      }
    }
  }

  bool repeats() const {
    return steps_.leave_out() && !attributes_.zero_output_for_mask;
  }

  // Whether the output of the last step is the final state: the step is kept,
  // or its place repeats the output of a kept step.
  bool IsLastOfFinal(std::int64_t sample) const {
    const std::int64_t length = steps_.length(sample);
    if (length == 0) return false;
    return length == size_.time || repeats() ||
           steps_.places(sample)[length - 1] == size_.time - 1;
  }

  template <typename Body>
  void ForEachLeftOut(std::int64_t sample, const Body& body) const {
    for (std::int64_t i = steps_.length(sample); i < size_.time; ++i) {
      body(steps_.places(sample)[i]);
    }
  }

  const KerasRnnAttributes& attributes_;
  const MaskedSteps& steps_;
  const rnn::RnnSize size_;
  const std::int64_t units_;
};

template <typename E>
class KerasRnnForwardCall {
 public:
  Status Init(const Attributes& attributes) {
    TF_RNN_OPS_RETURN_IF_ERROR(attributes_.Read(attributes));
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
        frame->MakeOutput("final_h", inputs.initial_h.shape, &final_h));
    TF_RNN_OPS_RETURN_IF_ERROR(
        frame->MakeOutput("final_c", inputs.initial_c.shape, &final_c));
    TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(
        "reserve_space", {reserve_space_size}, &reserve_space));
    if (!frame->has_values()) return Status();
    if (!attributes_.has_cell_state()) SetZero(final_c);

    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill(&pass);
    pass.is_training = trains;
    if (attributes_.return_sequences) pass.output = outputs.As<E>();
    pass.output_h = final_h.As<E>();
    pass.output_c = final_c.As<E>();
    pass.reserve_space = reserve_space.As<E>();
    const auto kernels = NetworkKernels<E>(inputs);
    TF_RNN_OPS_RETURN_IF_ERROR(RunPass(frame, inputs, kernels.forward_workspace,
                                       kernels.forward, &pass));
    const KerasOutputs<E> keras(attributes_, inputs);
    if (attributes_.return_sequences) {
      keras.Repeat(outputs.As<E>());
    } else {
      keras.TakeLast(final_h.As<E>(), outputs.As<E>());
    }
    return Status();
  }

 private:
  KerasRnnAttributes attributes_;
  bool is_training_ = true;
};

template <typename E>
class KerasRnnBackwardCall {
 public:
  Status Init(const Attributes& attributes) {
    return attributes_.Read(attributes);
  }

  Status Run(CallFrame* frame) {
    KerasRnnInputs inputs(frame, attributes_);
    Incoming incoming;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadAll(*frame, [&] {
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.Read());
      return incoming.Read(&inputs);
    }));
    Array reserve_space;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame, "reserve_space",
                                         "[reserve_space_size]", {kAnySize},
                                         &reserve_space));
    rnn::ReserveSpaceHeader header;
    if (frame->has_values()) {
      std::string mismatch;
      TF_RNN_OPS_RETURN_IF_ERROR(FindReserveSpaceMismatch<E>(
          frame, inputs, &reserve_space, &header, &mismatch));
      TF_RNN_OPS_RETURN_IF_ERROR(CheckReserveSpace(mismatch));
    }

    rnn::CudnnRnnBackward<E> pass{};
    TF_RNN_OPS_RETURN_IF_ERROR(MakeGradients(frame, inputs, &pass));
    if (!frame->has_values()) return Status();
    inputs.Fill(&pass);
    TF_RNN_OPS_RETURN_IF_ERROR(FillIncoming(frame, inputs, incoming, &pass));
    pass.reserve_space = reserve_space.As<E>();
    pass.reserve_space_header = &header;
    const auto kernels = NetworkKernels<E>(inputs);
    return RunPass(frame, inputs, kernels.backward_workspace, kernels.backward,
                   &pass);
  }

 private:
  // The gradients with respect to the outputs.
  struct Incoming {
    Status Read(KerasRnnInputs* inputs) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs->ReadOutputs("outputs_backprop", &outputs));
      TF_RNN_OPS_RETURN_IF_ERROR(
          inputs->ReadHiddenState("final_h_backprop", &final_h));
      return inputs->ReadCellState("final_c_backprop", &final_c);
    }

    Array outputs, final_h, final_c;
  };

  // Fills the pass with the gradients with respect to the outputs of the kept
  // steps.
  Status FillIncoming(CallFrame* frame, const KerasRnnInputs& inputs,
                      const Incoming& incoming,
                      rnn::CudnnRnnBackward<E>* pass) const {
    const KerasOutputs<E> keras(attributes_, inputs);
    pass->output_c_backprop = incoming.final_c.template As<E>();
    if (attributes_.return_sequences) {
      pass->output_h_backprop = incoming.final_h.template As<E>();
      return keras.AddUp(frame, incoming.outputs, &pass->output_backprop);
    }
    return keras.AddToFinal(frame, incoming.outputs.template As<E>(),
                            incoming.final_h, &pass->output_h_backprop);
  }

  // Makes the gradients with respect to the inputs, except those of sequences
  // and of weights that nothing reads.
  Status MakeGradients(CallFrame* frame, const KerasRnnInputs& inputs,
                       rnn::CudnnRnnBackward<E>* pass) const {
    const bool wants_weights = frame->IsWanted("kernel_backprop") ||
                               frame->IsWanted("recurrent_kernel_backprop") ||
                               frame->IsWanted("bias_backprop");
    rnn::KerasWeights<E>& weights = pass->keras_weights_backprop;
    const struct {
      const char* name;
      const Array& like;
      bool is_wanted;
      E** data;
    } gradients[] = {
        {"sequences_backprop", inputs.sequences,
         frame->IsWanted("sequences_backprop"), &pass->input_backprop},
        {"initial_h_backprop", inputs.initial_h, true, &pass->input_h_backprop},
        {"initial_c_backprop", inputs.initial_c, true, &pass->input_c_backprop},
        {"kernel_backprop", inputs.kernel, wants_weights, &weights.kernel},
        {"recurrent_kernel_backprop", inputs.recurrent_kernel, wants_weights,
         &weights.recurrent_kernel},
        {"bias_backprop", inputs.bias, wants_weights, &weights.bias},
    };
    for (const auto& [name, like, is_wanted, data] : gradients) {
      if (!is_wanted) continue;
      Array gradient;
      TF_RNN_OPS_RETURN_IF_ERROR(
          frame->MakeOutput(name, like.shape, &gradient));
      if (gradient.num_elements > 0) *data = gradient.As<E>();
      const bool is_ignored =
          data == &pass->input_c_backprop && !attributes_.has_cell_state();
      if (is_ignored && frame->has_values()) SetZero(gradient);
    }
    return Status();
  }

  KerasRnnAttributes attributes_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_KERAS_RNN_H_
