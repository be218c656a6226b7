// The kernels of KerasRNN and its gradients.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/make_output.h"
#include "cc/kernels/read_input.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/network_attributes.h"
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

struct KerasRnnAttributes {
  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(rnn::ReadCellAttributes(
        [ctx](const char* name, auto* value) {
          return ctx->GetAttr(name, value);
        },
        &cell));
    const std::string error = cell.Error();
    if (!error.empty()) return absl::InvalidArgumentError(error);
    TF_RETURN_IF_ERROR(ctx->GetAttr("go_backwards", &go_backwards));
    TF_RETURN_IF_ERROR(ctx->GetAttr("return_sequences", &return_sequences));
    return ctx->GetAttr("zero_output_for_mask", &zero_output_for_mask);
  }

  bool has_cell_state() const {
    return rnn::TraitsOf(cell.mode).has_cell_state;
  }
  std::int64_t num_gates() const { return rnn::TraitsOf(cell.mode).gates; }

  rnn::CellAttributes cell;
  bool go_backwards;
  bool return_sequences;
  bool zero_output_for_mask;
};

// The steps that a mask leaves. What a step of a sequence puts out is at the
// step's place, counted in the order in which the steps are taken.
class MaskedSteps {
 public:
  // Reads the input mask, [batch, time] or of no elements for all steps.
  absl::Status Read(OpKernelContext* ctx, const rnn::RnnSize& size,
                    bool go_backwards) {
    size_ = size;
    go_backwards_ = go_backwards;
    const Tensor* mask;
    TF_RETURN_IF_ERROR(ReadInput(ctx, "mask", &mask));
    if (mask->NumElements() == 0) return absl::OkStatus();
    TF_RETURN_IF_ERROR(
        CheckShape("mask", "[batch, time]", {size.batch, size.time}, *mask));
    if (size.time > std::numeric_limits<std::int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequences must have at most 2^31 - 1 steps where there "
                       "is a mask, but have ",
                       size.time));
    }
    TF_RETURN_IF_ERROR(
        MakeTemp(ctx, tensorflow::DT_INT32, {size.batch, size.time}, &places_));
    TF_RETURN_IF_ERROR(
        MakeTemp(ctx, tensorflow::DT_INT32, {size.batch}, &lengths_));
    for (std::int64_t sample = 0; sample < size.batch; ++sample) {
      Order(
          static_cast<const unsigned char*>(mask->data()) + sample * size.time,
          sample);
    }
    return absl::OkStatus();
  }

  // [batch], or null where every sequence has all steps.
  const std::int32_t* lengths() const {
    return leaves_out_ ? EngineData<std::int32_t>(lengths_) : nullptr;
  }
  rnn::StepOrder order() const {
    return {has_gaps_ ? EngineData<std::int32_t>(places_) : nullptr,
            go_backwards_};
  }

  // Whether any step is left out.
  bool leave_out() const { return leaves_out_; }
  std::int64_t length(std::int64_t sample) const {
    return leaves_out_ ? EngineData<std::int32_t>(lengths_)[sample]
                       : size_.time;
  }
  // The places of a sample's steps: those that are taken, in order, and then
  // those that are left out.
  const std::int32_t* places(std::int64_t sample) const {
    return EngineData<std::int32_t>(places_) + sample * size_.time;
  }

 private:
  // Orders the steps of a sample. mask: [time], bytes, as memory that a caller
  // lends TensorFlow may have others than those of bool.
  void Order(const unsigned char* mask, std::int64_t sample) {
    const auto time = static_cast<std::int32_t>(size_.time);
    std::int32_t* const places =
        EngineData<std::int32_t>(&places_) + sample * size_.time;
    std::int32_t length = 0;
    std::vector<std::int32_t> left_out;
    // Read once: the caller may write to memory that it lends TensorFlow.
    for (std::int32_t place = 0; place < time; ++place) {
      if (mask[go_backwards_ ? time - 1 - place : place] != 0) {
        places[length++] = place;
      } else {
        left_out.push_back(place);
      }
    }
    std::copy(left_out.begin(), left_out.end(), places + length);
    EngineData<std::int32_t>(&lengths_)[sample] = length;
    leaves_out_ = leaves_out_ || length < time;
    has_gaps_ = has_gaps_ || (length > 0 && places[length - 1] != length - 1);
  }

  rnn::RnnSize size_{};
  bool go_backwards_ = false;
  bool leaves_out_ = false;
  bool has_gaps_ = false;  // other than after the last step that is taken
  Tensor places_;          // [batch, time]
  Tensor lengths_;         // [batch]
};

// The inputs of a layer, forward or backward, checked against one another.
class KerasRnnInputs {
 public:
  KerasRnnInputs(OpKernelContext* ctx, const KerasRnnAttributes& attributes)
      : ctx_(ctx), attributes_(attributes) {}

  // Reads all inputs of KerasRNN.
  absl::Status Read() {
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "sequences", "[batch, time, features]",
                                 {kAnySize, kAnySize, kAnySize}, &sequences));
    size_ = {AxisSize(*sequences, 1), AxisSize(*sequences, 0)};
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "initial_h", "[batch, units]",
                                 {size_.batch, kAnySize}, &initial_h));
    units_ = AxisSize(*initial_h, 1);
    TF_RETURN_IF_ERROR(ReadCellState("initial_c", &initial_c));
    if (units_ > std::numeric_limits<std::int64_t>::max() / 8)
      return TooLarge();
    TF_RETURN_IF_ERROR(ReadWeights());
    config_ = {attributes_.cell.mode,
               /*skip_input=*/false,
               /*num_directions=*/1,
               /*num_layers=*/1,
               AxisSize(*sequences, 2),
               units_,
               /*num_proj=*/0,
               /*has_keras_weights=*/true,
               attributes_.cell.activations};
    const std::array<std::int64_t, 3> sequence = {size_.batch, size_.time,
                                                  units_};
    const std::array<std::int64_t, 2> last = {size_.batch, units_};
    const absl::Status status =
        attributes_.return_sequences
            ? TensorShape::BuildTensorShape(sequence, &outputs_shape_)
            : TensorShape::BuildTensorShape(last, &outputs_shape_);
    if (!status.ok() || !rnn::LayerOutputSize(config_, size_).valid() ||
        !rnn::LayerKeptSize(config_, size_).valid()) {
      return TooLarge();
    }
    return steps_.Read(ctx_, size_, attributes_.go_backwards);
  }

  absl::Status ReadHiddenState(const char* name, const Tensor** tensor) const {
    return ReadInput(ctx_, name, "[batch, units]", {size_.batch, units_},
                     tensor);
  }
  // Any shape will do if there is no cell state.
  absl::Status ReadCellState(const char* name, const Tensor** tensor) const {
    if (!attributes_.has_cell_state()) return ReadInput(ctx_, name, tensor);
    return ReadHiddenState(name, tensor);
  }

  absl::Status ReadOutputs(const char* name, const Tensor** tensor) const {
    if (!attributes_.return_sequences) return ReadHiddenState(name, tensor);
    return ReadInput(ctx_, name, "[batch, time, units]",
                     {size_.batch, size_.time, units_}, tensor);
  }

  // Gives the engine what was read.
  template <typename T, typename Pass>
  void Fill(Pass* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = false;
    pass->sequence_lengths = steps_.lengths();
    pass->step_order = steps_.order();
    pass->input = EngineData<T>(*sequences);
    pass->input_h = EngineData<T>(*initial_h);
    pass->input_c = EngineData<T>(*initial_c);
    pass->keras_weights = {
        EngineData<T>(*kernel), EngineData<T>(*recurrent_kernel),
        bias->NumElements() == 0 ? nullptr : EngineData<T>(*bias)};
  }

  rnn::ReserveSpaceKey MakeReserveSpaceKey() const {
    rnn::ReserveSpaceKey key{config_, size_, /*time_major=*/false,
                             steps_.lengths(), /*dropout=*/0};
    key.step_order = steps_.order();
    return key;
  }

  // The error where sizes are larger than what can be counted.
  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequences and initial_h must take no more memory than can be counted, "
        "but sequences is ",
        sequences->shape().DebugString(), " and initial_h is ",
        initial_h->shape().DebugString()));
  }

  const rnn::RnnConfig& config() const { return config_; }
  const rnn::RnnSize& size() const { return size_; }
  const MaskedSteps& steps() const { return steps_; }
  const TensorShape& outputs_shape() const { return outputs_shape_; }

  const Tensor* sequences = nullptr;
  const Tensor* initial_h = nullptr;
  const Tensor* initial_c = nullptr;
  const Tensor* kernel = nullptr;
  const Tensor* recurrent_kernel = nullptr;
  const Tensor* bias = nullptr;

 private:
  absl::Status ReadWeights() {
    const std::int64_t gate_units = attributes_.num_gates() * units_;
    const std::string columns =
        absl::StrCat(attributes_.num_gates(), " * units]");
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "kernel", "[features, " + columns,
                                 {AxisSize(*sequences, 2), gate_units},
                                 &kernel));
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "recurrent_kernel", "[units, " + columns,
                                 {units_, gate_units}, &recurrent_kernel));
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "bias", &bias));
    if (bias->NumElements() == 0) return absl::OkStatus();
    if (attributes_.cell.mode == rnn::RnnMode::kGru) {
      return CheckShape("bias", "[2, " + columns, {2, gate_units}, *bias);
    }
    return CheckShape("bias", "[" + columns, {gate_units}, *bias);
  }

  OpKernelContext* const ctx_;
  const KerasRnnAttributes& attributes_;
  rnn::RnnSize size_{};
  std::int64_t units_ = 0;
  rnn::RnnConfig config_{};
  TensorShape outputs_shape_;
  MaskedSteps steps_;
};

// What Keras makes of the outputs of the steps that were taken, and of the
// gradients with respect to that.
template <typename T>
class KerasOutputs {
 public:
  KerasOutputs(const KerasRnnAttributes& attributes,
               const KerasRnnInputs& inputs)
      : attributes_(attributes),
        steps_(inputs.steps()),
        size_(inputs.size()),
        units_(inputs.config().num_units) {}

  // Puts at each place that was left out what is before it, unless that is to
  // be the zeros that the engine left.
  // outputs: [batch, time, units]
  void Repeat(Tensor* outputs) const {
    if (!repeats()) return;
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      T* const first = Sample(outputs, sample);
      ForEachLeftOut(sample, [&](std::int64_t place) {
        if (place > 0) {
          std::copy_n(first + (place - 1) * units_, units_,
                      first + place * units_);
        }
      });
    }
  }

  // The reverse for gradients: adds those at places that were left out to those
  // before them.
  // d_outputs: [batch, time, units]; a sum takes its place in `sum`.
  absl::Status AddUp(OpKernelContext* ctx, const Tensor& d_outputs,
                     Tensor* sum) const {
    *sum = d_outputs;
    if (!repeats()) return absl::OkStatus();
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(d_outputs.dtype(), d_outputs.shape(), sum));
    std::copy_n(static_cast<const char*>(d_outputs.data()),
                d_outputs.TotalBytes(), static_cast<char*>(sum->data()));
    std::vector<Wide> carried(units_);
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      T* const first = Sample(sum, sample);
      const std::vector<bool> is_left_out = LeftOut(sample);
      std::fill(carried.begin(), carried.end(), Wide(0));
      for (std::int64_t place = size_.time - 1; place >= 0; --place) {
        T* const row = first + place * units_;
        for (std::int64_t unit = 0; unit < units_; ++unit) {
          const Wide total = carried[unit] + static_cast<Wide>(row[unit]);
          if (!is_left_out[place]) row[unit] = static_cast<T>(total);
          carried[unit] = is_left_out[place] ? total : Wide(0);
        }
      }
    }
    return absl::OkStatus();
  }

  // Makes the output of the last step of all. Both are [batch, units].
  void TakeLast(const Tensor& final_h, Tensor* last) const {
    if (units_ == 0) return;  // of any number of samples
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      const T* const from = Row(final_h, sample);
      T* const to = Row(*last, sample);
      if (IsLastOfFinal(sample)) {
        std::copy_n(from, units_, to);
      } else {
        std::fill_n(to, units_, T(0));
      }
    }
  }

  // The reverse for gradients: adds them. All are [batch, units].
  absl::Status AddToFinal(OpKernelContext* ctx, const Tensor& d_last,
                          const Tensor& d_final_h, Tensor* sum) const {
    TF_RETURN_IF_ERROR(
        ctx->allocate_temp(d_final_h.dtype(), d_final_h.shape(), sum));
    if (units_ == 0) return absl::OkStatus();
    for (std::int64_t sample = 0; sample < size_.batch; ++sample) {
      const T* const of_final = Row(d_final_h, sample);
      const T* const of_last = Row(d_last, sample);
      T* const to = Row(*sum, sample);
      for (std::int64_t unit = 0; unit < units_; ++unit) {
        to[unit] = IsLastOfFinal(sample)
                       ? static_cast<T>(static_cast<Wide>(of_final[unit]) +
                                        static_cast<Wide>(of_last[unit]))
                       : of_final[unit];
      }
    }
    return absl::OkStatus();
  }

 private:
  using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

  bool repeats() const {
    return steps_.leave_out() && !attributes_.zero_output_for_mask;
  }

  // Whether the last step's output is the final state: the step was taken, or
  // its place repeats the output of one that was.
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
  std::vector<bool> LeftOut(std::int64_t sample) const {
    std::vector<bool> is_left_out(size_.time);
    ForEachLeftOut(sample,
                   [&](std::int64_t place) { is_left_out[place] = true; });
    return is_left_out;
  }

  T* Sample(Tensor* tensor, std::int64_t sample) const {
    return static_cast<T*>(tensor->data()) + sample * size_.time * units_;
  }
  T* Row(const Tensor& tensor, std::int64_t sample) const {
    return static_cast<T*>(tensor.data()) + sample * units_;
  }

  const KerasRnnAttributes& attributes_;
  const MaskedSteps& steps_;
  const rnn::RnnSize size_;
  const std::int64_t units_;
};

template <typename T>
class KerasRNNOp : public tensorflow::OpKernel {
 public:
  explicit KerasRNNOp(OpKernelConstruction* ctx) : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_training", &is_training_));
    int end;
    OP_REQUIRES_OK(ctx,
                   OutputRange("reserve_space", &reserve_space_index_, &end));
  }

  void Compute(OpKernelContext* ctx) override {
    KerasRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.Read());
    // Where nothing reads reserve_space, as where a graph that trains serves,
    // nothing is kept.
    const bool trains =
        is_training_ && ctx->output_required(reserve_space_index_);
    const std::int64_t reserve_space_size =
        trains ? rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size()) : 0;
    OP_REQUIRES(ctx, reserve_space_size >= 0, inputs.TooLarge());

    Tensor *outputs, *final_h, *final_c, *reserve_space;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output("outputs", inputs.outputs_shape(), &outputs));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            "final_h", inputs.initial_h->shape(), &final_h));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            "final_c", inputs.initial_c->shape(), &final_c));
    OP_REQUIRES_OK(ctx, MakeOutput(ctx, "reserve_space", {reserve_space_size},
                                   &reserve_space));
    if (!attributes_.has_cell_state()) SetZero(final_c);

    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.is_training = trains;
    if (attributes_.return_sequences) pass.output = EngineData<T>(outputs);
    pass.output_h = EngineData<T>(final_h);
    pass.output_c = EngineData<T>(final_c);
    pass.reserve_space = EngineData<T>(reserve_space);
    const auto kernels = NetworkKernels<E>(inputs);
    OP_REQUIRES_OK(ctx, RunPass(ctx, inputs, kernels.forward_workspace,
                                kernels.forward, &pass));
    const KerasOutputs<T> keras(attributes_, inputs);
    if (attributes_.return_sequences) {
      keras.Repeat(outputs);
    } else {
      keras.TakeLast(*final_h, outputs);
    }
  }

 private:
  using E = EngineType<T>;

  KerasRnnAttributes attributes_;
  bool is_training_ = true;
  int reserve_space_index_;
};

// The gradients with respect to the outputs, as the engine takes them.
template <typename T>
struct IncomingGradients {
  using E = EngineType<T>;

  absl::Status Read(OpKernelContext* ctx, const KerasRnnAttributes& attributes,
                    const KerasRnnInputs& inputs) {
    const Tensor *d_outputs, *d_final_h, *d_final_c;
    TF_RETURN_IF_ERROR(inputs.ReadOutputs("outputs_backprop", &d_outputs));
    TF_RETURN_IF_ERROR(inputs.ReadHiddenState("final_h_backprop", &d_final_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("final_c_backprop", &d_final_c));
    final_c = EngineData<T>(*d_final_c);
    const KerasOutputs<T> keras(attributes, inputs);
    if (attributes.return_sequences) {
      TF_RETURN_IF_ERROR(keras.AddUp(ctx, *d_outputs, &sum_));
      outputs = EngineData<T>(sum_);
      final_h = EngineData<T>(*d_final_h);
    } else {
      TF_RETURN_IF_ERROR(keras.AddToFinal(ctx, *d_outputs, *d_final_h, &sum_));
      outputs = nullptr;
      final_h = EngineData<T>(sum_);
    }
    return absl::OkStatus();
  }

  const E* outputs;  // [batch, time, units], or null for zeros
  const E* final_h;
  const E* final_c;

 private:
  Tensor sum_;
};

// Reads reserve_space, aligned, and refuses one that another pass left.
template <typename E>
absl::Status ReadReserveSpace(OpKernelContext* ctx,
                              const KerasRnnInputs& inputs,
                              Tensor* reserve_space,
                              rnn::ReserveSpaceHeader* header) {
  const Tensor* tensor;
  TF_RETURN_IF_ERROR(ReadInput(ctx, "reserve_space", "[reserve_space_size]",
                               {kAnySize}, &tensor));
  *reserve_space = *tensor;
  TF_RETURN_IF_ERROR(AlignReserveSpace(ctx, reserve_space));
  return CheckReserveSpace(
      FindReserveSpaceMismatch<E>(inputs, *reserve_space, header));
}

template <typename T>
class KerasRNNBackpropOp : public tensorflow::OpKernel {
 public:
  explicit KerasRNNBackpropOp(OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    KerasRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.Read());
    IncomingGradients<T> incoming;
    OP_REQUIRES_OK(ctx, incoming.Read(ctx, attributes_, inputs));
    Tensor reserve_space;
    rnn::ReserveSpaceHeader header;
    OP_REQUIRES_OK(ctx,
                   ReadReserveSpace<E>(ctx, inputs, &reserve_space, &header));

    rnn::CudnnRnnBackward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.output_backprop = incoming.outputs;
    pass.output_h_backprop = incoming.final_h;
    pass.output_c_backprop = incoming.final_c;
    pass.reserve_space = EngineData<T>(reserve_space);
    pass.reserve_space_header = &header;
    OP_REQUIRES_OK(ctx, AllocateGradients(ctx, inputs, &pass));
    const auto kernels = NetworkKernels<E>(inputs);
    OP_REQUIRES_OK(ctx, RunPass(ctx, inputs, kernels.backward_workspace,
                                kernels.backward, &pass));
  }

 private:
  using E = EngineType<T>;

  // Those of sequences and of weights that a graph does not go on with are not
  // made.
  absl::Status AllocateGradients(OpKernelContext* ctx,
                                 const KerasRnnInputs& inputs,
                                 rnn::CudnnRnnBackward<E>* pass) const {
    enum { kSequences, kInitialH, kInitialC, kKernel, kRecurrent, kBias };
    const Tensor* const like[] = {inputs.sequences,        inputs.initial_h,
                                  inputs.initial_c,        inputs.kernel,
                                  inputs.recurrent_kernel, inputs.bias};
    const bool wants_weights = ctx->output_required(kKernel) ||
                               ctx->output_required(kRecurrent) ||
                               ctx->output_required(kBias);
    E* data[6] = {};
    for (int i = 0; i < 6; ++i) {
      const bool is_wanted =
          i == kInitialH || i == kInitialC ||
          (i >= kKernel ? wants_weights : ctx->output_required(i));
      if (!is_wanted) continue;
      Tensor* gradient;
      TF_RETURN_IF_ERROR(ctx->allocate_output(i, like[i]->shape(), &gradient));
      if (gradient->NumElements() > 0) data[i] = EngineData<T>(gradient);
      if (i == kInitialC && !attributes_.has_cell_state()) SetZero(gradient);
    }
    pass->input_backprop = data[kSequences];
    pass->input_h_backprop = data[kInitialH];
    pass->input_c_backprop = data[kInitialC];
    pass->keras_weights_backprop = {data[kKernel], data[kRecurrent],
                                    data[kBias]};
    return absl::OkStatus();
  }

  KerasRnnAttributes attributes_;
};

}  // namespace

void AddKerasRnnKernels(const DeviceKernels& kernels) {
  kernels.AddForEachFloat<KerasRNNOp>("KerasRNN");
  kernels.AddForEachFloat<KerasRNNBackpropOp>("KerasRNNBackprop");
}

}  // namespace tf_rnn_ops
