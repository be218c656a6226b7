#include "cc/gpu/network_backward_grad.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cc/gpu/arrays.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/dual_layer.h"
#include "cc/gpu/network_status.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::CheckedInt;
using rnn::ComputeType;

// An array of the caller: [steps, batch, width] if time-major, else [batch,
// steps, width]. The steps of states are pseudo-layers.
struct CallersShape {
  std::int64_t steps;
  std::int64_t width;
  // Whether rows of padding are read as zeros.
  bool hides_padding = false;
};

// The counterpart of BackwardGradPass in the CPU engine. dot_q: tangent of
// q; d_q: gradient with respect to q. S = steps, B = batch, I = input_size, U =
// num_units, O = output_size, D = directions, P = layers * D.
template <typename T>
class BackwardGrad {
 public:
  using C = ComputeType<T>;

  BackwardGrad(const DualEngine& engine,
               const rnn::NetworkBackwardGrad<T>& pass)
      : engine_(engine), a_(pass) {}

  Status Run() {
    if (a_.size.time == 0 || a_.size.batch == 0 || a_.config.num_units == 0) {
      return WriteResultsWithoutSteps();
    }
    TF_RNN_OPS_RETURN_IF_ERROR(UploadLengths());
    TF_RNN_OPS_RETURN_IF_ERROR(ReadNetwork());
    TF_RNN_OPS_RETURN_IF_ERROR(AllocateActivations());
    TF_RNN_OPS_RETURN_IF_ERROR(RunTangentSweep());
    return wants_gradients() ? RunGradientSweep() : Status();
  }

 private:
  // ------------------------------------------------------------------- shapes

  std::int64_t hidden() const { return a_.config.output_size(); }
  std::int64_t output_width() const {
    return a_.config.num_directions * hidden();
  }
  std::int64_t kept() const { return rnn::TraitsOf(a_.config.mode).kept; }
  std::int64_t hidden_size() const { return a_.size.batch * hidden(); }
  std::int64_t cell_size() const {
    return a_.config.has_cell_state() ? a_.size.batch * a_.config.num_units : 0;
  }
  CheckedInt output_size() const {
    return rnn::LayerOutputSize(a_.config, a_.size);
  }
  std::int64_t PseudoLayer(std::int64_t layer, std::int64_t direction) const {
    return layer * a_.config.num_directions + direction;
  }

  CallersShape input_shape() const {
    return {a_.size.time, a_.config.input_size, /*hides_padding=*/true};
  }
  CallersShape output_shape() const { return {a_.size.time, output_width()}; }
  CallersShape hidden_shape() const {
    return {a_.config.num_pseudo_layers(), hidden()};
  }
  CallersShape cell_shape() const {
    return {a_.config.num_pseudo_layers(),
            a_.config.has_cell_state() ? a_.config.num_units : 0};
  }

  bool wants_gradients() const {
    return a_.input_grad != nullptr || a_.input_h_grad != nullptr ||
           a_.input_c_grad != nullptr || a_.weights_grad.params != nullptr;
  }
  bool drops() const { return a_.dropout > 0 && a_.config.num_layers > 1; }

  // ------------------------------------------------- conversion of arrays

  // Copies the lengths to the GPU, as kernel arguments.
  Status UploadLengths() {
    lengths_ = {nullptr, a_.size.time};
    if (a_.sequence_lengths == nullptr) return Status();
    std::int32_t* target;
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(a_.size.batch, &target));
    lengths_.lengths = target;
    for (std::int64_t begin = 0; begin < a_.size.batch;
         begin += StoreLengths::kMax) {
      StoreLengths kernel{};
      kernel.count = std::min(StoreLengths::kMax, a_.size.batch - begin);
      std::copy_n(a_.sequence_lengths + begin, kernel.count, kernel.values);
      kernel.target = target + begin;
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.Launch(kernel));
    }
    return Status();
  }

  // Converts an array between the caller's type and layout and ours.
  template <typename From, typename To>
  Status Convert(const CallersShape& shape, const From* from, bool is_read,
                 To* to) const {
    const std::int64_t batch = a_.size.batch;
    const std::int64_t width = shape.width;
    const bool is_transposed = !a_.time_major;
    ConvertRows<From, To> kernel{};
    kernel.outer = shape.steps;
    kernel.inner = batch;
    kernel.cols = width;
    kernel.source = from;
    kernel.target = to;
    kernel.source_outer_stride = kernel.target_outer_stride = batch * width;
    kernel.source_inner_stride = kernel.target_inner_stride = width;
    if (is_transposed) {
      (is_read ? kernel.source_outer_stride : kernel.target_outer_stride) =
          width;
      (is_read ? kernel.source_inner_stride : kernel.target_inner_stride) =
          shape.steps * width;
    }
    if (shape.hides_padding) kernel.lengths = lengths_.lengths;
    return engine_.Launch(kernel);
  }

  // Returns an array in our type and layout; null if `from` is null.
  Status Read(const T* from, const CallersShape& shape, const C** array) const {
    *array = nullptr;
    if (from == nullptr) return Status();
    const bool is_as_ours =
        std::is_same_v<T, C> && a_.time_major &&
        (!shape.hides_padding || lengths_.lengths == nullptr);
    if (is_as_ours) {
      *array = reinterpret_cast<const C*>(from);
      return Status();
    }
    C* copy;
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(
        CheckedInt(shape.steps) * a_.size.batch * shape.width, &copy));
    *array = copy;
    return Convert(shape, from, /*is_read=*/true, copy);
  }

  // Converts a result to the caller's array, unless that is null.
  Status Write(const C* from, const CallersShape& shape, T* to) const {
    if (to == nullptr) return Status();
    return Convert(shape, from, /*is_read=*/false, to);
  }

  // Returns params in our type.
  Status ReadParams(const T* from, const C** params) const {
    *params = reinterpret_cast<const C*>(from);
    if (from == nullptr || std::is_same_v<T, C>) return Status();
    C* copy;
    TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(params_size(), &copy));
    *params = copy;
    return ConvertParams(from, copy);
  }
  template <typename From, typename To>
  Status ConvertParams(const From* from, To* to) const {
    return engine_.Launch(ConvertRows<From, To>{1, 1, params_size(), from, 0, 0,
                                                to, 0, 0, nullptr});
  }
  std::int64_t params_size() const {
    return rnn::CudnnRnnParamsSize(a_.config);
  }

  Status ReadNetwork() {
    TF_RNN_OPS_RETURN_IF_ERROR(Read(a_.input, input_shape(), &input_.value));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.dot_input, input_shape(), &input_.tangent));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.input_h, hidden_shape(), &input_h_.value));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.dot_input_h, hidden_shape(), &input_h_.tangent));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadParams(a_.weights.params, &params_));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadParams(a_.dot_weights.params, &dot_params_));
    if (!a_.config.has_cell_state()) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(Read(a_.input_c, cell_shape(), &input_c_.value));
    return Read(a_.dot_input_c, cell_shape(), &input_c_.tangent);
  }

  Status AllocateActivations() {
    TF_RNN_OPS_RETURN_IF_ERROR(
        scratch_.Init(engine_, a_.config, a_.size, wants_gradients(),
                      a_.weights_grad.params != nullptr));
    outputs_.resize(a_.config.num_layers);
    for (DualArray<C>& output : outputs_) {
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(output_size(), &output));
    }
    if (drops()) {
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(output_size(), &dropped_));
    }
    const CheckedInt states = a_.config.num_pseudo_layers();
    TF_RNN_OPS_RETURN_IF_ERROR(
        engine_.Allocate(states * hidden_size(), &state_));
    TF_RNN_OPS_RETURN_IF_ERROR(
        engine_.Allocate(states * cell_size(), &cell_state_));
    kept_.resize(a_.config.num_pseudo_layers());
    if (!wants_gradients()) return Status();
    for (DualArray<C>& each : kept_) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          engine_.Allocate(CheckedInt(a_.size.time) * a_.size.batch * kept() *
                               a_.config.num_units,
                           &each));
    }
    return Status();
  }

  // -------------------------------------------------------------------- sweeps

  // from ∘ the mask of the input of a layer above the first.
  Status Drop(std::int64_t layer, const DualInput<C>& from,
              const DualArray<C>& to) const {
    const RowCounts counts = {a_.size.time, a_.size.batch, output_width()};
    const RowStrides strides = {a_.size.batch * output_width(), output_width()};
    const MaskRows rows = {
        MakeDropoutMask(
            a_.dropout, rnn::ReserveSpaceStream(*a_.kept.header),
            (layer - 1) * rnn::NumLayerDropoutSamples(a_.config, a_.size)),
        /*offset=*/0, strides};
    TF_RNN_OPS_RETURN_IF_ERROR(ApplyDropout(engine_.call(), DataTypeOf<C>,
                                            counts, rows, from.value, strides,
                                            to.value));
    return ApplyDropout(engine_.call(), DataTypeOf<C>, counts, rows,
                        from.tangent, strides, to.tangent);
  }

  Status LayerInput(std::int64_t layer, DualInput<C>* input) const {
    *input = layer == 0 ? input_ : outputs_[layer - 1];
    if (layer == 0 || !drops()) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(Drop(layer, *input, dropped_));
    *input = dropped_;
    return Status();
  }

  DualLayer<C> Direction(std::int64_t layer, std::int64_t direction,
                         const DualInput<C>& input) const {
    const std::int64_t pseudo_layer = PseudoLayer(layer, direction);
    return {
        a_.config,
        a_.size.batch,
        lengths_,
        layer,
        direction,
        DualWeights<C>(a_.config, pseudo_layer, params_, dot_params_),
        input,
        input_h_.At(pseudo_layer * hidden_size()),
        input_c_.At(pseudo_layer * cell_size()),
        outputs_[layer].At(direction * hidden()),
        kept_[pseudo_layer],
    };
  }

  Status RunTangentSweep() const {
    for (std::int64_t layer = 0; layer < a_.config.num_layers; ++layer) {
      DualInput<C> input;
      TF_RNN_OPS_RETURN_IF_ERROR(LayerInput(layer, &input));
      for (std::int64_t d = 0; d < a_.config.num_directions; ++d) {
        const std::int64_t pseudo_layer = PseudoLayer(layer, d);
        TF_RNN_OPS_RETURN_IF_ERROR(
            RunDualForward(engine_, Direction(layer, d, input), scratch_,
                           state_ + pseudo_layer * hidden_size(),
                           cell_state_ + pseudo_layer * cell_size()));
      }
    }
    TF_RNN_OPS_RETURN_IF_ERROR(Write(outputs_.back().tangent, output_shape(),
                                     a_.output_backprop_grad));
    return WriteStates(a_.output_h_backprop_grad, a_.output_c_backprop_grad);
  }

  Status WriteStates(T* h, T* c) const {
    TF_RNN_OPS_RETURN_IF_ERROR(Write(state_, hidden_shape(), h));
    return a_.config.has_cell_state() ? Write(cell_state_, cell_shape(), c)
                                      : Status();
  }

  Status RunGradientSweep() const {
    Gradients d;
    TF_RNN_OPS_RETURN_IF_ERROR(ReadGradients(&d));
    for (std::int64_t layer = a_.config.num_layers - 1; layer >= 0; --layer) {
      TF_RNN_OPS_RETURN_IF_ERROR(RunLayerBackward(layer, d));
      if (layer == 0) break;
      const DualArray<C>& d_input = d.inputs[(layer - 1) % 2];
      if (drops()) {
        TF_RNN_OPS_RETURN_IF_ERROR(Drop(layer, d_input, d_input));
      }
      d.output = d_input;
    }
    return WriteGradients(d);
  }

  // Gradients during the backward sweep.
  struct Gradients {
    DualInput<C> output;  // [S, B, D * O], of the layer
    const C* output_h;    // [P, B, O]
    const C* output_c;    // [P, B, U]
    // Of the inputs of layers above the first: [S, B, D * O], alternating
    // between two buffers. Of the first layer's input, [S, B, I]: the tangent
    // only.
    DualArray<C> inputs[2];
    C* dot_input = nullptr;
    C* dot_params = nullptr;  // [params_size]
  };

  Status ReadGradients(Gradients* d) const {
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.output_backprop, output_shape(), &d->output.value));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.output_h_backprop, hidden_shape(), &d->output_h));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Read(a_.output_c_backprop, cell_shape(), &d->output_c));
    for (std::int64_t i = 0;
         i < std::min<std::int64_t>(a_.config.num_layers - 1, 2); ++i) {
      TF_RNN_OPS_RETURN_IF_ERROR(
          engine_.Allocate(output_size(), &d->inputs[i]));
    }
    if (a_.input_grad != nullptr) {
      TF_RNN_OPS_RETURN_IF_ERROR(engine_.Allocate(
          CheckedInt(a_.size.time) * a_.size.batch * a_.config.input_size,
          &d->dot_input));
    }
    if (a_.weights_grad.params == nullptr) return Status();
    if constexpr (std::is_same_v<T, C>) {
      d->dot_params = a_.weights_grad.params;
      return Status();
    } else {
      return engine_.Allocate(params_size(), &d->dot_params);
    }
  }

  Status RunLayerBackward(std::int64_t layer, const Gradients& d) const {
    DualInput<C> input;
    TF_RNN_OPS_RETURN_IF_ERROR(LayerInput(layer, &input));
    for (std::int64_t i = 0; i < a_.config.num_directions; ++i) {
      const std::int64_t pseudo_layer = PseudoLayer(layer, i);
      const std::int64_t hidden_offset = pseudo_layer * hidden_size();
      const std::int64_t cell_offset = pseudo_layer * cell_size();
      const DualLayerGradients<C> gradients = {
          d.output.At(i * hidden()),
          d.output_h + hidden_offset,
          d.output_c + cell_offset,
          layer > 0 ? d.inputs[(layer - 1) % 2]
                    : DualArray<C>{nullptr, d.dot_input},
          /*is_input_added=*/i > 0,
          state_ + hidden_offset,
          cell_state_ + cell_offset,
          d.dot_params,
      };
      TF_RNN_OPS_RETURN_IF_ERROR(RunDualBackward(
          engine_, Direction(layer, i, input), scratch_, gradients));
    }
    return Status();
  }

  Status WriteGradients(const Gradients& d) const {
    TF_RNN_OPS_RETURN_IF_ERROR(WriteStates(a_.input_h_grad, a_.input_c_grad));
    TF_RNN_OPS_RETURN_IF_ERROR(
        Write(d.dot_input, input_shape(), a_.input_grad));
    const bool is_there =
        std::is_same_v<T, C> || a_.weights_grad.params == nullptr;
    return is_there ? Status()
                    : ConvertParams(d.dot_params, a_.weights_grad.params);
  }

  // -------------------------------------------------------------- without
  // steps

  // The tangents of the final states are dot_input_h and dot_input_c; all other
  // results are zero.
  Status WriteResultsWithoutSteps() const {
    const std::int64_t states = a_.config.num_pseudo_layers();
    const std::int64_t rows = a_.size.time * a_.size.batch;
    const struct {
      T* result;
      std::int64_t count;
      const T* source;  // null for zeros
    } results[] = {
        {a_.input_grad, rows * a_.config.input_size, nullptr},
        {a_.input_h_grad, states * hidden_size(), nullptr},
        {a_.input_c_grad, states * cell_size(), nullptr},
        {a_.weights_grad.params, params_size(), nullptr},
        {a_.output_backprop_grad, rows * output_width(), nullptr},
        {a_.output_h_backprop_grad, states * hidden_size(), a_.dot_input_h},
        {a_.output_c_backprop_grad, states * cell_size(), a_.dot_input_c},
    };
    for (const auto& [result, count, source] : results) {
      if (result == nullptr) continue;
      const std::size_t num_bytes = count * sizeof(T);
      TF_RNN_OPS_RETURN_IF_ERROR(
          source == nullptr
              ? ZeroBytes(engine_.call(), num_bytes, result)
              : CopyBytes(engine_.call(), num_bytes, source, result));
    }
    return Status();
  }

  const DualEngine& engine_;
  const rnn::NetworkBackwardGrad<T>& a_;
  DeviceLengths lengths_{};
  DualInput<C> input_;    // [S, B, I]
  DualInput<C> input_h_;  // [P, B, O]
  DualInput<C> input_c_;  // [P, B, U]
  const C* params_ = nullptr;
  const C* dot_params_ = nullptr;
  DualScratch<C> scratch_;
  std::vector<DualArray<C>> outputs_;  // of each layer, [S, B, D * O]
  std::vector<DualArray<C>> kept_;     // of each pseudo-layer, [S, B, K, U]
  DualArray<C> dropped_;               // [S, B, D * O]
  // Tangents of the final states, then of their gradients at the first step.
  C* state_ = nullptr;       // [P, B, O]
  C* cell_state_ = nullptr;  // [P, B, U]
};

template <typename E>
Status LaunchFindNonZero(const Call& call, std::int64_t count,
                         const void* array, std::int32_t* found) {
  return LaunchDualLayerKernel(
      call, FindNonZero<E>{count, static_cast<const E*>(array), found});
}

Status LaunchFindNonZero(const Call& call, DataType type, std::int64_t count,
                         const void* array, std::int32_t* found) {
  switch (SizeOf(type)) {
    case 2:
      return LaunchFindNonZero<std::uint16_t>(call, count, array, found);
    case 4:
      return LaunchFindNonZero<std::uint32_t>(call, count, array, found);
    default:
      return LaunchFindNonZero<std::uint64_t>(call, count, array, found);
  }
}

}  // namespace

Status FindZeros(const Call& call, DataType type, std::int64_t count,
                 const void* array, bool* are_zeros) {
  *are_zeros = true;
  if (count == 0) return Status();
  void* memory;
  std::int32_t found = 0;
  TF_RNN_OPS_RETURN_IF_ERROR(call.scratch->Allocate(sizeof(found), &memory));
  TF_RNN_OPS_RETURN_IF_ERROR(ZeroBytes(call, sizeof(found), memory));
  TF_RNN_OPS_RETURN_IF_ERROR(LaunchFindNonZero(
      call, type, count, array, static_cast<std::int32_t*>(memory)));
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuMemcpyDtoHAsync_v2(&found, DevicePointer(memory),
                                        sizeof(found), call.stream),
      "cuMemcpyDtoHAsync"));
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuStreamSynchronize(call.stream), "cuStreamSynchronize"));
  *are_zeros = found == 0;
  return Status();
}

template <typename T>
Status RunNetworkBackwardGrad(const Call& call, Cublas& cublas, bool allow_tf32,
                              const rnn::NetworkBackwardGrad<T>& pass) {
  const DualEngine engine(call, cublas, allow_tf32);
  return WithNetwork(BackwardGrad<T>(engine, pass).Run(), pass.config,
                     pass.size);
}

#define INSTANTIATE(T)                                               \
  template Status RunNetworkBackwardGrad(const Call&, Cublas&, bool, \
                                         const rnn::NetworkBackwardGrad<T>&)

INSTANTIATE(rnn::Half);
INSTANTIATE(rnn::BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::gpu
