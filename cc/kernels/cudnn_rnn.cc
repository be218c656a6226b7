#include "cc/rnn/cudnn_rnn.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cpu_kernels.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/engine.h"
#include "cc/kernels/kernels.h"
#include "cc/kernels/read_input.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/random/philox_random.h"
#include "tensorflow/core/util/guarded_philox_random.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

// The inputs of a network, forward or backward, found by their names and
// checked against one another.
class NetworkInputs {
 public:
  NetworkInputs(OpKernelContext* ctx, const CudnnRnnAttributes& attributes)
      : ctx_(ctx), attributes_(attributes) {}

  // Reads input, input_h, input_c, params and, if the op has them,
  // sequence_lengths.
  absl::Status ReadForwardInputs(bool has_sequence_lengths) {
    TF_RETURN_IF_ERROR(ReadSizes());
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "params", "[params_size]",
                                 {rnn::CudnnRnnParamsSize(config_)}, &params));
    const auto shape = SequenceShape(size_.time, output_width());
    if (!TensorShape::BuildTensorShape(shape, &output_shape_).ok()) {
      return TooLarge();
    }
    return has_sequence_lengths ? ReadSequenceLengths() : absl::OkStatus();
  }

  // Reads an input of the output's shape.
  absl::Status ReadOutput(const char* name, const Tensor** tensor) const {
    return ReadSequence(name, "time", size_.time,
                        absl::StrCat("num_directions * ", output_size_name()),
                        output_width(), tensor);
  }

  // Reads an input of the hidden state's shape.
  absl::Status ReadHiddenState(const char* name, const Tensor** tensor) const {
    return ReadState(name, config_.num_pseudo_layers(), output_size_name(),
                     config_.output_size(), tensor);
  }

  // Reads an input of the cell state's shape. Any shape will do if the network
  // has no cell state.
  absl::Status ReadCellState(const char* name, const Tensor** tensor) const {
    if (!config_.has_cell_state()) return ctx_->input(name, tensor);
    return ReadState(name, config_.num_pseudo_layers(), "num_units",
                     config_.num_units, tensor);
  }

  // Gives the engine what was read.
  template <typename T, typename Pass>
  void Fill(Pass* pass) const {
    pass->config = config_;
    pass->size = size_;
    pass->time_major = attributes_.time_major();
    pass->sequence_lengths = sequence_lengths();
    pass->dropout = attributes_.dropout();
    pass->input = EngineData<T>(*input);
    pass->input_h = EngineData<T>(*input_h);
    pass->input_c = EngineData<T>(*input_c);
    pass->params = EngineData<T>(*params);
  }

  // The error where sizes are larger than what can be counted.
  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(absl::StrCat(
        "input and input_h must take no more memory than can be counted, but "
        "input is ",
        input->shape().DebugString(), " and input_h is ",
        input_h->shape().DebugString()));
  }

  const rnn::RnnConfig& config() const { return config_; }
  const rnn::RnnSize& size() const { return size_; }
  const TensorShape& output_shape() const { return output_shape_; }
  // [batch], or null where every sequence has all steps.
  const std::int32_t* sequence_lengths() const {
    return sequence_lengths_.empty() ? nullptr : sequence_lengths_.data();
  }

  const Tensor* input = nullptr;
  const Tensor* input_h = nullptr;
  const Tensor* input_c = nullptr;
  const Tensor* params = nullptr;

 private:
  // The sizes of the network and the sequence, from input, input_h and input_c.
  absl::Status ReadSizes() {
    TF_RETURN_IF_ERROR(ReadSequence("input", "time", kAnySize, "input_size",
                                    kAnySize, &input));
    size_ = {input->dim_size(step_axis()), input->dim_size(batch_axis())};
    const bool projects = attributes_.num_proj() > 0;
    TF_RETURN_IF_ERROR(ReadState("input_h", kAnySize, output_size_name(),
                                 projects ? attributes_.num_proj() : kAnySize,
                                 &input_h));
    const std::int64_t pseudo_layers = input_h->dim_size(step_axis());
    std::int64_t num_units = input_h->dim_size(2);
    TF_RETURN_IF_ERROR(ctx_->input("input_c", &input_c));
    if (attributes_.rnn_mode() == rnn::RnnMode::kLstm) {
      TF_RETURN_IF_ERROR(ReadState("input_c", pseudo_layers, "num_units",
                                   projects ? kAnySize : num_units, &input_c));
      num_units = input_c->dim_size(2);
    }
    return MakeConfig(pseudo_layers, num_units, input->dim_size(2));
  }

  absl::Status MakeConfig(std::int64_t pseudo_layers, std::int64_t num_units,
                          std::int64_t input_size) {
    const std::int64_t directions = attributes_.num_directions();
    if (pseudo_layers == 0 || pseudo_layers % directions != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input_h must be of num_layers * num_directions, a positive multiple "
          "of ",
          directions, ", pseudo-layers, but is ",
          input_h->shape().DebugString()));
    }
    const absl::Status status = attributes_.MakeConfig(
        pseudo_layers / directions, num_units, input_size, &config_);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat(
        status.message(), ": input is ", input->shape().DebugString(),
        ", input_h is ", input_h->shape().DebugString(), ", input_c is ",
        input_c->shape().DebugString()));
  }

  absl::Status ReadSequenceLengths() {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(
        ReadInput(ctx_, "sequence_lengths", "[batch]", {size_.batch}, &tensor));
    // A copy: the caller may write to memory that it lends TensorFlow, and what
    // has been checked must stay so.
    const std::int32_t* lengths = EngineData<std::int32_t>(*tensor);
    sequence_lengths_.assign(lengths, lengths + size_.batch);
    bool all_have_all_steps = true;
    for (std::int64_t i = 0; i < size_.batch; ++i) {
      const std::int32_t length = sequence_lengths_[i];
      if (length < 0 || length > size_.time) {
        return absl::InvalidArgumentError(absl::StrCat(
            "sequence_lengths[", i, "] must be between 0 and time = ",
            size_.time, ", but is ", length));
      }
      all_have_all_steps = all_have_all_steps && length == size_.time;
    }
    if (all_have_all_steps) sequence_lengths_.clear();
    return absl::OkStatus();
  }

  absl::Status ReadState(const char* name, std::int64_t pseudo_layers,
                         const std::string& size_name, std::int64_t size,
                         const Tensor** tensor) const {
    return ReadSequence(name, "num_layers * num_directions", pseudo_layers,
                        size_name, size, tensor);
  }

  // Reads what has a vector for each step, or pseudo-layer, and entry of the
  // batch.
  absl::Status ReadSequence(const char* name, const std::string& steps_name,
                            std::int64_t steps, const std::string& size_name,
                            std::int64_t size, const Tensor** tensor) const {
    const std::string meaning =
        attributes_.time_major()
            ? absl::StrCat("[", steps_name, ", batch, ", size_name, "]")
            : absl::StrCat("[batch, ", steps_name, ", ", size_name, "]");
    return ReadInput(ctx_, name, meaning, SequenceShape(steps, size), tensor);
  }

  std::array<std::int64_t, 3> SequenceShape(std::int64_t steps,
                                            std::int64_t size) const {
    std::array<std::int64_t, 3> shape;
    shape[step_axis()] = steps;
    shape[batch_axis()] = size_.batch;
    shape[2] = size;
    return shape;
  }

  int step_axis() const { return attributes_.time_major() ? 0 : 1; }
  int batch_axis() const { return attributes_.time_major() ? 1 : 0; }
  std::int64_t output_width() const {
    return config_.num_directions * config_.output_size();
  }
  const char* output_size_name() const {
    return attributes_.num_proj() > 0 ? "num_proj" : "num_units";
  }

  OpKernelContext* const ctx_;
  const CudnnRnnAttributes& attributes_;
  rnn::RnnConfig config_{};
  rnn::RnnSize size_{kAnySize, kAnySize};
  TensorShape output_shape_;
  std::vector<std::int32_t> sequence_lengths_;  // none where all are the same
};

// Allocates the bytes that the engine asks for; negative if they are too many
// to count.
absl::Status AllocateBytes(OpKernelContext* ctx, const NetworkInputs& inputs,
                           std::int64_t num_bytes, Tensor* workspace) {
  if (num_bytes < 0) return inputs.TooLarge();
  return AllocateWorkspace<std::uint8_t>(ctx, num_bytes, workspace);
}

// A kernel's stream of random numbers, which its calls share.
class DropoutGenerator {
 public:
  absl::Status Init(OpKernelConstruction* ctx) { return generator_.Init(ctx); }

  // The place of the next `num_samples` values of the stream's counter, which
  // no other call is given.
  rnn::RandomStream Reserve(std::int64_t num_samples) {
    const tensorflow::random::PhiloxRandom random =
        generator_.ReserveSamples128(num_samples);
    const auto& key = random.key();
    const auto& counter = random.counter();
    return {Join(key[0], key[1]), Join(counter[0], counter[1]),
            Join(counter[2], counter[3])};
  }

 private:
  static std::uint64_t Join(std::uint32_t low, std::uint32_t high) {
    return std::uint64_t{high} << 32 | low;
  }

  tensorflow::GuardedPhiloxRandom generator_;
};

// CudnnRNN, CudnnRNNV2 and CudnnRNNV3.
template <typename T, int version>
class CudnnRNNForwardOp : public OpKernel {
 public:
  explicit CudnnRNNForwardOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("is_training", &is_training_));
    // Without dropout there is nothing random, and TensorFlow, where it is to
    // be deterministic, must not ask for a seed.
    if (Drops()) OP_REQUIRES_OK(ctx, generator_.Init(ctx));
    int end;
    OP_REQUIRES_OK(ctx,
                   OutputRange("reserve_space", &reserve_space_index_, &end));
  }

  void Compute(OpKernelContext* ctx) override {
    NetworkInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs(version >= 3));
    const bool trains = Trains(ctx, inputs);

    Tensor *output, *output_h, *output_c, *reserve_space;
    OP_REQUIRES_OK(
        ctx, ctx->allocate_output("output", inputs.output_shape(), &output));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(
                            "output_h", inputs.input_h->shape(), &output_h));
    OP_REQUIRES_OK(ctx, AllocateCellState(ctx, inputs, &output_c));
    OP_REQUIRES_OK(ctx,
                   AllocateReserveSpace(ctx, inputs, trains, &reserve_space));
    if constexpr (version >= 2) OP_REQUIRES_OK(ctx, MakeHostReserved(ctx));

    rnn::CudnnRnnForward<E> pass{};
    inputs.Fill<T>(&pass);
    pass.is_training = trains;
    if (trains && Drops()) {
      pass.stream = generator_.Reserve(rnn::NumDropoutSamples(
          inputs.config(), inputs.size(), attributes_.dropout()));
    }
    pass.output = EngineData<T>(output);
    pass.output_h = EngineData<T>(output_h);
    pass.output_c = EngineData<T>(output_c);
    pass.reserve_space = EngineData<T>(reserve_space);
    rnn::PoolExecutor executor = IntraOpExecutor(ctx);
    Tensor workspace;
    OP_REQUIRES_OK(ctx, AllocateBytes(ctx, inputs,
                                      kernels_.forward_workspace(
                                          pass, executor.num_threads()),
                                      &workspace));
    pass.workspace = workspace.data();
    kernels_.forward(pass, executor);
  }

 private:
  using E = EngineType<T>;

  // Whether the op drops inputs of layers above the first, if there are any.
  bool Drops() const { return is_training_ && attributes_.dropout() > 0; }

  // Whether there is something to drop or to keep for a gradient. Graphs that
  // are made for GPUs say is_training where they serve, and in them nothing
  // reads reserve_space.
  bool Trains(OpKernelContext* ctx, const NetworkInputs& inputs) const {
    const bool drops = Drops() && inputs.config().num_layers > 1;
    return drops ||
           (is_training_ && ctx->output_required(reserve_space_index_));
  }

  // output_c is a scalar 0 where there is no cell state.
  static absl::Status AllocateCellState(OpKernelContext* ctx,
                                        const NetworkInputs& inputs,
                                        Tensor** output_c) {
    if (inputs.config().has_cell_state()) {
      return ctx->allocate_output("output_c", inputs.input_c->shape(),
                                  output_c);
    }
    TF_RETURN_IF_ERROR(
        ctx->allocate_output("output_c", TensorShape(), output_c));
    (*output_c)->scalar<T>()() = T(0);
    return absl::OkStatus();
  }

  static absl::Status AllocateReserveSpace(OpKernelContext* ctx,
                                           const NetworkInputs& inputs,
                                           bool trains,
                                           Tensor** reserve_space) {
    const std::int64_t size =
        trains ? rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size()) : 0;
    if (size < 0) return inputs.TooLarge();
    return ctx->allocate_output("reserve_space", TensorShape({size}),
                                reserve_space);
  }

  // What TensorFlow's own ops leave where cuDNN runs its default algorithm.
  absl::Status MakeHostReserved(OpKernelContext* ctx) const {
    Tensor* host_reserved;
    if (version > 2 || !is_training_) {
      TF_RETURN_IF_ERROR(
          ctx->allocate_output("host_reserved", TensorShape(), &host_reserved));
      host_reserved->scalar<std::int8_t>()() = 0;
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(ctx->allocate_output("host_reserved", TensorShape({2}),
                                            &host_reserved));
    host_reserved->vec<std::int8_t>()(0) = -1;
    host_reserved->vec<std::int8_t>()(1) = 0;
    return absl::OkStatus();
  }

  CudnnRnnAttributes attributes_;
  bool is_training_ = true;
  int reserve_space_index_;
  DropoutGenerator generator_;
  const rnn::CudnnRnnKernels<E> kernels_ =
      rnn::GetCudnnRnnKernels<E>(rnn::ActiveInstructionSet());
};

// CudnnRNNBackprop, CudnnRNNBackpropV2 and CudnnRNNBackpropV3.
template <typename T, int version>
class CudnnRNNBackwardOp : public OpKernel {
 public:
  explicit CudnnRNNBackwardOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    NetworkInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs(version >= 3));
    rnn::CudnnRnnBackward<E> pass{};
    inputs.Fill<T>(&pass);
    OP_REQUIRES_OK(ctx, ReadOutputs(inputs, &pass));
    OP_REQUIRES_OK(ctx, ReadGradients(inputs, &pass));
    Tensor reserve_space;
    OP_REQUIRES_OK(ctx, ReadReserveSpace(ctx, inputs, &reserve_space));
    pass.reserve_space = EngineData<T>(reserve_space);

    OP_REQUIRES_OK(ctx, AllocateGradients(ctx, inputs, &pass));
    rnn::PoolExecutor executor = IntraOpExecutor(ctx);
    Tensor workspace;
    OP_REQUIRES_OK(ctx, AllocateBytes(ctx, inputs,
                                      kernels_.backward_workspace(
                                          pass, executor.num_threads()),
                                      &workspace));
    pass.workspace = workspace.data();
    kernels_.backward(pass, executor);
  }

 private:
  using E = EngineType<T>;

  // Reads the outputs of the forward op. The engine needs no final states.
  static absl::Status ReadOutputs(const NetworkInputs& inputs,
                                  rnn::CudnnRnnBackward<E>* pass) {
    const Tensor *output, *output_h, *output_c;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output", &output));
    TF_RETURN_IF_ERROR(inputs.ReadHiddenState("output_h", &output_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("output_c", &output_c));
    pass->output = EngineData<T>(*output);
    return absl::OkStatus();
  }

  // Reads the gradients with respect to them.
  static absl::Status ReadGradients(const NetworkInputs& inputs,
                                    rnn::CudnnRnnBackward<E>* pass) {
    const Tensor *output, *output_h, *output_c;
    TF_RETURN_IF_ERROR(inputs.ReadOutput("output_backprop", &output));
    TF_RETURN_IF_ERROR(inputs.ReadHiddenState("output_h_backprop", &output_h));
    TF_RETURN_IF_ERROR(inputs.ReadCellState("output_c_backprop", &output_c));
    pass->output_backprop = EngineData<T>(*output);
    pass->output_h_backprop = EngineData<T>(*output_h);
    pass->output_c_backprop = EngineData<T>(*output_c);
    return absl::OkStatus();
  }

  // Allocates the gradients with respect to the inputs, of their shapes. That
  // of an input_c that is ignored is zero.
  static absl::Status AllocateGradients(OpKernelContext* ctx,
                                        const NetworkInputs& inputs,
                                        rnn::CudnnRnnBackward<E>* pass) {
    Tensor *input, *input_h, *input_c, *params;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output("input_backprop", inputs.input->shape(), &input));
    TF_RETURN_IF_ERROR(ctx->allocate_output("input_h_backprop",
                                            inputs.input_h->shape(), &input_h));
    TF_RETURN_IF_ERROR(ctx->allocate_output("input_c_backprop",
                                            inputs.input_c->shape(), &input_c));
    TF_RETURN_IF_ERROR(ctx->allocate_output("params_backprop",
                                            inputs.params->shape(), &params));
    if (!inputs.config().has_cell_state()) input_c->flat<T>().setZero();
    pass->input_backprop = EngineData<T>(input);
    pass->input_h_backprop = EngineData<T>(input_h);
    pass->input_c_backprop = EngineData<T>(input_c);
    pass->params_backprop = EngineData<T>(params);
    return absl::OkStatus();
  }

  // Reads reserve_space and refuses one that another forward pass left.
  absl::Status ReadReserveSpace(OpKernelContext* ctx,
                                const NetworkInputs& inputs,
                                Tensor* reserve_space) const {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(ReadInput(ctx, "reserve_space", "[reserve_space_size]",
                                 {kAnySize}, &tensor));
    // The engine finds wider types than T in it.
    *reserve_space =
        tensor->IsAligned() ? *tensor : tensorflow::tensor::DeepCopy(*tensor);
    const rnn::ReserveSpaceKey key = {
        inputs.config(), inputs.size(), attributes_.time_major(),
        inputs.sequence_lengths(), attributes_.dropout()};
    const std::string mismatch = rnn::ReserveSpaceMismatch(
        key, EngineData<T>(*reserve_space), reserve_space->NumElements());
    if (mismatch.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "reserve_space must be what the forward op returned for the same "
        "inputs and attributes, with is_training=True, but ",
        mismatch));
  }

  CudnnRnnAttributes attributes_;
  const rnn::CudnnRnnKernels<E> kernels_ =
      rnn::GetCudnnRnnKernels<E>(rnn::ActiveInstructionSet());
};

template <typename T>
using CudnnRNNForwardV1Op = CudnnRNNForwardOp<T, 1>;
template <typename T>
using CudnnRNNForwardV2Op = CudnnRNNForwardOp<T, 2>;
template <typename T>
using CudnnRNNForwardV3Op = CudnnRNNForwardOp<T, 3>;
template <typename T>
using CudnnRNNBackwardV1Op = CudnnRNNBackwardOp<T, 1>;
template <typename T>
using CudnnRNNBackwardV2Op = CudnnRNNBackwardOp<T, 2>;
template <typename T>
using CudnnRNNBackwardV3Op = CudnnRNNBackwardOp<T, 3>;

}  // namespace

void AddCudnnRnnKernels(const CpuKernels& kernels) {
  kernels.AddForEachFloat<CudnnRNNForwardV1Op>("CudnnRNN");
  kernels.AddForEachFloat<CudnnRNNForwardV2Op>("CudnnRNNV2");
  kernels.AddForEachFloat<CudnnRNNForwardV3Op>("CudnnRNNV3");
  kernels.AddForEachFloat<CudnnRNNBackwardV1Op>("CudnnRNNBackprop");
  kernels.AddForEachFloat<CudnnRNNBackwardV2Op>("CudnnRNNBackpropV2");
  kernels.AddForEachFloat<CudnnRNNBackwardV3Op>("CudnnRNNBackpropV3");
}

}  // namespace tf_rnn_ops
