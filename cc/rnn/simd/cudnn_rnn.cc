#include "cc/rnn/simd/cudnn_rnn.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/sample_order.h"
#include "cc/rnn/simd/amx_product.h"
#include "cc/rnn/simd/cells.h"
#include "cc/rnn/simd/convert.h"
#include "cc/rnn/simd/dropout.h"
#include "cc/rnn/simd/kept_activations.h"
#include "cc/rnn/simd/layer_backward.h"
#include "cc/rnn/simd/layer_backward_grad.h"
#include "cc/rnn/simd/layer_forward.h"
#include "cc/rnn/simd/layer_states.h"
#include "cc/rnn/simd/layer_tangent.h"
#include "cc/rnn/simd/staging.h"
#include "cc/rnn/simd/step_tasks.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// What products take for values stored as T: T itself, where the CPU has
// products of it, or what the network computes in.
template <typename T>
struct OperandTypeOf {
  using Type = ComputeType<T>;
};
#if defined(__AMX_BF16__)
template <>
struct OperandTypeOf<BFloat16> {
  using Type = BFloat16;
};
#endif
template <typename T>
using OperandType = typename OperandTypeOf<T>::Type;

// The params as operands: as they are, or copied.
template <typename T>
const OperandType<T>* ReadParams(const T* params, const Staging<T>& staging,
                                 ComputeType<T>* buffer,
                                 const StagedShape& shape, Executor& executor) {
  if constexpr (std::is_same_v<T, OperandType<T>>) {
    return params;
  } else {
    return staging.Read(params, buffer, shape, executor);
  }
}

// The shapes of a network's arrays.
struct Shapes {
  Shapes(const RnnConfig& config, const RnnSize& size)
      : input{size.time, size.batch, config.input_size},
        output{size.time, size.batch,
               config.num_directions * config.output_size()},
        hidden_state{config.num_pseudo_layers(), size.batch,
                     config.output_size()},
        cell_state{config.num_pseudo_layers(), size.batch,
                   config.has_cell_state() ? config.num_units : 0},
        // As one row: no order to change.
        params{1, 1, CudnnRnnParamsSize(config)} {}

  StagedShape input;
  StagedShape output;
  StagedShape hidden_state;
  StagedShape cell_state;
  StagedShape params;
};

// Of a result, if it is wanted.
template <typename T>
void FillZeroIfWanted(T* wanted, const StagedShape& shape, Executor& executor) {
  if (wanted != nullptr) FillZero(wanted, shape.size().value(), executor);
}

// Whether there is no state, so that nothing is to be computed. The other sizes
// may then be beyond all measure.
bool IsEmpty(const RnnConfig& config, const RnnSize& size) {
  return size.batch == 0 || config.num_units == 0;
}

// The samples of a batch: in which order the network takes them, and how long
// they are.
class Samples {
 public:
  // lengths: [batch], or null where all are `time`.
  Samples(const std::int32_t* lengths, const RnnConfig& config,
          const RnnSize& size, bool is_training, Arena& arena)
      : size_(size),
        callers_lengths_(lengths),
        are_sorted_(IsWorthSorting(lengths, config, size, is_training)),
        order_(arena.Take<std::int64_t>(are_sorted_ ? size.batch : 0)),
        sorted_lengths_(
            arena.Take<std::int32_t>(are_sorted_ ? size.batch : 0)) {}

  // Before `order` and `lengths` are used.
  void Sort() const {
    if (!are_sorted_) return;
    SortSamples(callers_lengths_, size_.batch, order_);
    for (std::int64_t i = 0; i < size_.batch; ++i) {
      sorted_lengths_[i] = callers_lengths_[order_[i]];
    }
  }

  SampleOrder order() const { return {!are_sorted_, order_}; }
  SequenceLengths lengths() const {
    return {are_sorted_ ? sorted_lengths_ : callers_lengths_, size_.time};
  }

 private:
  RnnSize size_;
  const std::int32_t* callers_lengths_;
  bool are_sorted_;
  std::int64_t* order_;           // [B]
  std::int32_t* sorted_lengths_;  // [B]
};

// to = from ∘ mask. Which elements of the mask a sample takes does not depend
// on the order of the samples.
template <typename C>
void ApplyDropout(const C* from, C* to, const StagedShape& shape,
                  const SampleOrder& order, const DropoutMask& mask,
                  Executor& executor) {
  ForEachRun(shape, /*time_major=*/true, order, executor,
             [&](auto ours, auto theirs, auto length) {
               mask.Apply(from + ours, to + ours, theirs, length);
             });
}

// What a forward pass dropped, dropped again.
template <typename T>
class LayerDropout {
 public:
  using C = ComputeType<T>;

  // output: the shape of a layer's output.
  LayerDropout(const RnnConfig& config, const RnnSize& size, float dropout,
               const T* reserve_space, const StagedShape& output,
               const SampleOrder& order)
      : config_(config),
        size_(size),
        dropout_(config.num_layers > 1 ? dropout : 0),
        reserve_space_(reserve_space),
        shape_(output),
        order_(order) {}

  bool drops() const { return dropout_ > 0; }

  // from ∘ the mask of the input of a layer above the first, written to `to`;
  // `from` itself where nothing is dropped.
  const C* Apply(const C* from, C* to, std::int64_t layer,
                 Executor& executor) const {
    if (!drops()) return from;
    const DropoutMask mask(
        dropout_, ReserveSpaceStream(reserve_space_),
        (layer - 1) * NumLayerDropoutSamples(config_, size_));
    ApplyDropout<C>(from, to, shape_, order_, mask, executor);
    return to;
  }

 private:
  RnnConfig config_;
  RnnSize size_;
  float dropout_;
  const T* reserve_space_;
  StagedShape shape_;
  SampleOrder order_;
};

// Copies steps of a sequence, with zeros past each sequence's end: what is
// there may not even be a number. `from` and `to` may be the same array.
template <typename C>
void CopyValidSteps(const C* from, C* to, const StagedShape& shape,
                    const SequenceLengths& lengths, Executor& executor) {
  executor.ParallelFor(shape.outer, [&](std::int64_t t) {
    for (std::int64_t sample = 0; sample < shape.inner; ++sample) {
      const std::int64_t row = (t * shape.inner + sample) * shape.width;
      if (!lengths.IsValid(t, sample)) {
        std::fill_n(to + row, shape.width, C(0));
      } else if (to != from) {
        std::copy_n(from + row, shape.width, to + row);
      }
    }
  });
}

// What a reserve_space holds after its header.
template <typename C>
struct ReservedArrays {
  C* kept;     // [P / D] KeptActivations, one for each layer
  C* outputs;  // [NumKeptOutputs, T, B, D * O]

  template <typename T>
  ReservedArrays(T* reserve_space, const RnnConfig& config, const RnnSize& size)
      : kept(nullptr), outputs(nullptr) {
    if (reserve_space == nullptr) return;
    kept = reinterpret_cast<C*>(reserve_space +
                                kReserveSpaceHeaderBytes / sizeof(T));
    outputs = kept + config.num_layers * LayerKeptSize(config, size).value();
  }
};

// Calls run(cell), where the cell's type is that of the mode.
template <typename C, typename Run>
void WithCell(RnnMode mode, const Run& run) {
  switch (mode) {
    case RnnMode::kRelu:
      return run(ReluCell<C>());
    case RnnMode::kTanh:
      return run(TanhCell<C>());
    case RnnMode::kLstm:
      return run(LstmCell<C>());
    case RnnMode::kGru:
      return run(GruCell<C>());
  }
}

template <typename T>
class ForwardCall {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;

  ForwardCall(const CudnnRnnForward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        shapes_(a.config, a.size),
        activations_(a.is_training ? a.reserve_space : nullptr, a.config,
                     a.size),
        samples_(a.sequence_lengths, a.config, a.size, a.is_training, arena),
        staging_(a.time_major, samples_.order()),
        operand_staging_(a.time_major, samples_.order()),
        // The order of the params is not that of the time.
        params_staging_(/*time_major=*/true),
        input_(operand_staging_.Buffer(shapes_.input, arena)),
        input_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        input_c_(staging_.Buffer(shapes_.cell_state, arena)),
        params_(params_staging_.Buffer(shapes_.params, arena)),
        output_(operand_staging_.Buffer(shapes_.output, arena)),
        output_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        output_c_(staging_.Buffer(shapes_.cell_state, arena)),
        dropped_(arena.Take<C>(AppliesDropout() ? shapes_.output.size() : 0)),
        inner_outputs_(
            arena.Take<C>(shapes_.output.size() * NumInnerOutputs())),
        inner_inputs_(arena.Take<P>(
            shapes_.output.size() *
            (kRoundsOperands<P> ? Min(a.config.num_layers - 1, 2) : 0))),
        scratch_(a.config, a.size, num_threads, arena) {}

  void Run(Executor& executor) const {
    if (!IsEmpty(a_.config, a_.size)) Compute(executor);
    if (a_.is_training) {
      WriteReserveSpaceHeader<T>(
          {a_.config, a_.size, a_.time_major, a_.sequence_lengths, a_.dropout},
          a_.stream, a_.reserve_space);
    }
  }

 private:
  void Compute(Executor& executor) const {
    samples_.Sort();
    LayerForwardArguments<P> layer{
        a_.config,
        a_.size,
        samples_.lengths(),
        0,
        ReadParams(a_.params, params_staging_, params_, shapes_.params,
                   executor),
        operand_staging_.Read(a_.input, input_, shapes_.input, executor),
        staging_.Read(a_.input_h, input_h_, shapes_.hidden_state, executor),
        staging_.Read(a_.input_c, input_c_, shapes_.cell_state, executor),
        nullptr,
        nullptr,
        staging_.Target(a_.output_h, output_h_),
        staging_.Target(a_.output_c, output_c_),
        KeptActivations<C>(nullptr, a_.config, a_.size)};
    RunLayers(layer, executor);
    WriteOutput(executor);
    staging_.Write(output_h_, a_.output_h, shapes_.hidden_state, executor);
    staging_.Write(output_c_, a_.output_c, shapes_.cell_state, executor);
  }

  bool AppliesDropout() const {
    return a_.is_training && a_.dropout > 0 && a_.config.num_layers > 1;
  }
  // How many outputs of inner layers are kept here. In training they are all
  // kept in the reserve_space; otherwise a layer needs that of the one below,
  // or only what it is rounded to.
  std::int64_t NumInnerOutputs() const {
    return a_.is_training || kRoundsOperands<P>
               ? 0
               : Min(a_.config.num_layers - 1, 2);
  }

  // `layer` comes with the arguments of the first layer, but for its output.
  void RunLayers(LayerForwardArguments<P> layer, Executor& executor) const {
    const std::int64_t hidden_size =
        shapes_.hidden_state.size().value() / a_.config.num_layers;
    const std::int64_t cell_size =
        shapes_.cell_state.size().value() / a_.config.num_layers;
    for (; layer.layer < a_.config.num_layers; ++layer.layer) {
      layer.output = LayerOutput(layer.layer);
      layer.rounded_output = RoundedOutput(layer.layer);
      if (a_.is_training) {
        layer.kept = KeptActivations<C>(
            activations_.kept +
                layer.layer * LayerKeptSize(a_.config, a_.size).value(),
            a_.config, a_.size);
      }
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerForward<P, decltype(cell)>(layer, scratch_, executor).Run();
      });
      layer.input = NextInput(layer, executor);
      layer.input_h += hidden_size;
      layer.output_h += hidden_size;
      layer.input_c += cell_size;
      layer.output_c += cell_size;
    }
  }

  bool IsLast(std::int64_t layer) const {
    return layer == a_.config.num_layers - 1;
  }

  // Null where only what it is rounded to is wanted.
  C* LayerOutput(std::int64_t layer) const {
    const std::int64_t size = shapes_.output.size().value();
    if (a_.is_training && layer < NumKeptOutputs<T>(a_.config)) {
      return activations_.outputs + layer * size;
    }
    if constexpr (kRoundsOperands<P>) {
      return nullptr;
    } else {
      return IsLast(layer) ? operand_staging_.Target(a_.output, output_)
                           : inner_outputs_ + layer % 2 * size;
    }
  }
  // Null where nothing is rounded.
  P* RoundedOutput(std::int64_t layer) const {
    if constexpr (!kRoundsOperands<P>) return nullptr;
    return IsLast(layer) ? operand_staging_.Target(a_.output, output_)
                         : InnerInput(layer);
  }
  // What a layer's output is rounded to, as the input of the layer above.
  P* InnerInput(std::int64_t layer) const {
    return inner_inputs_ + layer % 2 * shapes_.output.size().value();
  }

  void WriteOutput(Executor& executor) const {
    if constexpr (kRoundsOperands<P>) {
      operand_staging_.Write(output_, a_.output, shapes_.output, executor);
    } else {
      staging_.Write(LayerOutput(a_.config.num_layers - 1), a_.output,
                     shapes_.output, executor);
    }
  }

  // The input of the layer above.
  const P* NextInput(const LayerForwardArguments<P>& layer,
                     Executor& executor) const {
    const std::int64_t size = shapes_.output.size().value();
    const bool is_dropped = AppliesDropout() && !IsLast(layer.layer);
    if (is_dropped) {
      const DropoutMask mask(
          a_.dropout, a_.stream,
          layer.layer * NumLayerDropoutSamples(a_.config, a_.size));
      ApplyDropout<C>(layer.output, dropped_, shapes_.output, samples_.order(),
                      mask, executor);
    }
    if constexpr (kRoundsOperands<P>) {
      if (!is_dropped) return layer.rounded_output;
      ParallelConvert(dropped_, InnerInput(layer.layer), size, executor);
      return InnerInput(layer.layer);
    } else {
      return is_dropped ? dropped_ : layer.output;
    }
  }

  const CudnnRnnForward<T>& a_;
  const Shapes shapes_;
  const ReservedArrays<C> activations_;
  const Samples samples_;
  const Staging<T> staging_;
  const Staging<T, P> operand_staging_;
  const Staging<T> params_staging_;
  P* const input_;
  C* const input_h_;
  C* const input_c_;
  C* const params_;
  P* const output_;
  C* const output_h_;
  C* const output_c_;
  C* const dropped_;        // [T, B, D * O]
  C* const inner_outputs_;  // [NumInnerOutputs(), T, B, D * O]
  P* const inner_inputs_;   // [2 or fewer, T, B, D * O], where P has fewer bits
  const LayerForwardScratch<P> scratch_;
};

template <typename T>
class BackwardCall {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;

  BackwardCall(const CudnnRnnBackward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        shapes_(a.config, a.size),
        samples_(a.sequence_lengths, a.config, a.size, /*is_training=*/true,
                 arena),
        staging_(a.time_major, samples_.order()),
        params_staging_(/*time_major=*/true),
        dropout_(a.config, a.size, a.dropout, a.reserve_space, shapes_.output,
                 samples_.order()),
        input_(staging_.Buffer(shapes_.input, arena)),
        input_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        input_c_(staging_.Buffer(shapes_.cell_state, arena)),
        params_(params_staging_.Buffer(shapes_.params, arena)),
        output_(staging_.Buffer(shapes_.output, arena)),
        valid_input_(arena.Take<C>(ReadsPadding() && !staging_.is_copied()
                                       ? shapes_.input.size()
                                       : 0)),
        d_output_(staging_.Buffer(shapes_.output, arena)),
        d_output_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        d_output_c_(staging_.Buffer(shapes_.cell_state, arena)),
        d_input_(staging_.ResultBuffer(a.input_backprop, shapes_.input, arena)),
        d_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        d_c_(staging_.Buffer(shapes_.cell_state, arena)),
        d_params_(params_staging_.ResultBuffer(a.params_backprop,
                                               shapes_.params, arena)),
        dropped_(arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        d_inner_(arena.Take<C>(shapes_.output.size() *
                               Min(a.config.num_layers - 1, 2))),
        scratch_(a.config, a.size, a.params_backprop != nullptr, num_threads,
                 arena) {}

  void Run(Executor& executor) const {
    if (IsEmpty(a_.config, a_.size)) {
      FillZeroIfWanted(a_.input_backprop, shapes_.input, executor);
      FillZeroIfWanted(a_.params_backprop, shapes_.params, executor);
      return;
    }
    Compute(executor);
  }

 private:
  void Compute(Executor& executor) const {
    samples_.Sort();
    LayerBackwardArguments<P> layer{
        a_.config,
        a_.size,
        samples_.lengths(),
        0,
        ReadParams(a_.params, params_staging_, params_, shapes_.params,
                   executor),
        ReadInput(executor),
        {staging_.Read(a_.input_h, input_h_, shapes_.hidden_state, executor),
         staging_.Read(a_.input_c, input_c_, shapes_.cell_state, executor),
         staging_.Read(a_.output, output_, shapes_.output, executor),
         KeptActivations<const C>(nullptr, a_.config, a_.size)},
        staging_.Read(a_.output_backprop, d_output_, shapes_.output, executor),
        staging_.Target(a_.input_backprop, d_input_),
        staging_.Target(a_.input_h_backprop, d_h_),
        staging_.Target(a_.input_c_backprop, d_c_),
        params_staging_.Target(a_.params_backprop, d_params_)};
    // Where the layers find the gradients of the final states.
    std::copy_n(staging_.Read(a_.output_h_backprop, d_output_h_,
                              shapes_.hidden_state, executor),
                shapes_.hidden_state.size().value(), layer.d_h);
    std::copy_n(staging_.Read(a_.output_c_backprop, d_output_c_,
                              shapes_.cell_state, executor),
                shapes_.cell_state.size().value(), layer.d_c);
    RunLayers(layer, executor);
    staging_.Write(d_input_, a_.input_backprop, shapes_.input, executor);
    staging_.Write(d_h_, a_.input_h_backprop, shapes_.hidden_state, executor);
    staging_.Write(d_c_, a_.input_c_backprop, shapes_.cell_state, executor);
    params_staging_.Write(d_params_, a_.params_backprop, shapes_.params,
                          executor);
  }

  // Whether the input past a sequence's end is read: to be multiplied by zeros,
  // the gradients of the gates.
  bool ReadsPadding() const {
    return a_.sequence_lengths != nullptr && !a_.config.skip_input;
  }

  // The input, with zeros past each sequence's end: what is there may not even
  // be a number.
  const C* ReadInput(Executor& executor) const {
    const C* input = staging_.Read(a_.input, input_, shapes_.input, executor);
    if (!ReadsPadding()) return input;
    C* const valid_input = staging_.is_copied() ? input_ : valid_input_;
    CopyValidSteps(input, valid_input, shapes_.input, samples_.lengths(),
                   executor);
    return valid_input;
  }

  // `network` has the arrays of the whole network.
  void RunLayers(const LayerBackwardArguments<P>& network,
                 Executor& executor) const {
    const std::int64_t hidden_size =
        shapes_.hidden_state.size().value() / a_.config.num_layers;
    const std::int64_t cell_size =
        shapes_.cell_state.size().value() / a_.config.num_layers;
    const std::int64_t output_size = shapes_.output.size().value();
    const ReservedArrays<const C> activations(a_.reserve_space, a_.config,
                                              a_.size);
    LayerBackwardArguments<P> layer = network;
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      layer.layer = i;
      layer.states.input_h = network.states.input_h + i * hidden_size;
      layer.states.input_c = network.states.input_c + i * cell_size;
      layer.d_h = network.d_h + i * hidden_size;
      layer.d_c = network.d_c + i * cell_size;
      layer.states.kept = KeptActivations<const C>(
          activations.kept + i * LayerKeptSize(a_.config, a_.size).value(),
          a_.config, a_.size);
      if (i < NumKeptOutputs<T>(a_.config)) {
        layer.states.output = activations.outputs + i * output_size;
      }
      if (i < a_.config.num_layers - 1) {
        layer.d_output = layer.d_input;  // of the layer above
      }
      if (i == 0) {
        layer.input = network.input;
        layer.d_input = network.d_input;
      } else {
        layer.input = dropout_.Apply(
            activations.outputs + (i - 1) * output_size, dropped_, i, executor);
        layer.d_input = d_inner_ + (i - 1) % 2 * output_size;
      }
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerBackward<P, decltype(cell)>(layer, scratch_, executor).Run();
      });
      if (i > 0) dropout_.Apply(layer.d_input, layer.d_input, i, executor);
    }
  }

  const CudnnRnnBackward<T>& a_;
  const Shapes shapes_;
  const Samples samples_;
  const Staging<T> staging_;
  const Staging<T> params_staging_;
  const LayerDropout<T> dropout_;
  C* const input_;
  C* const input_h_;
  C* const input_c_;
  C* const params_;
  C* const output_;
  C* const valid_input_;
  C* const d_output_;
  C* const d_output_h_;
  C* const d_output_c_;
  C* const d_input_;
  C* const d_h_;
  C* const d_c_;
  C* const d_params_;
  C* const dropped_;  // [T, B, D * O]
  C* const d_inner_;  // the gradients of two inner layers' inputs
  const LayerBackwardScratch<P> scratch_;
};

// dot_q is what q changes by.
template <typename T>
class BackwardGradCall {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;

  BackwardGradCall(const CudnnRnnBackwardGrad<T>& a, int num_threads,
                   Arena& arena)
      : a_(a),
        shapes_(a.config, a.size),
        samples_(a.sequence_lengths, a.config, a.size, /*is_training=*/true,
                 arena),
        staging_(a.time_major, samples_.order()),
        params_staging_(/*time_major=*/true),
        dropout_(a.config, a.size, a.dropout, a.reserve_space, shapes_.output,
                 samples_.order()),
        input_(staging_.Buffer(shapes_.input, arena)),
        input_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        input_c_(staging_.Buffer(shapes_.cell_state, arena)),
        params_(params_staging_.Buffer(shapes_.params, arena)),
        output_(staging_.Buffer(shapes_.output, arena)),
        d_output_(staging_.Buffer(shapes_.output, arena)),
        d_h_(arena.Take<C>(shapes_.hidden_state.size())),
        d_c_(arena.Take<C>(shapes_.cell_state.size())),
        valid_input_(OwnPaddedInput(arena)),
        valid_dot_input_(OwnPaddedInput(arena)),
        dot_input_(staging_.Buffer(shapes_.input, arena)),
        dot_input_h_(arena.Take<C>(shapes_.hidden_state.size())),
        dot_input_c_(arena.Take<C>(shapes_.cell_state.size())),
        dot_params_(params_staging_.Buffer(shapes_.params, arena)),
        dot_kept_(arena.Take<C>(LayerKeptSize(a.config, a.size) *
                                a.config.num_layers)),
        dot_inner_outputs_(
            arena.Take<C>(shapes_.output.size() * (a.config.num_layers - 1))),
        dot_output_(Result(a.output_backprop_grad, shapes_.output, arena)),
        dot_h_(Result(a.output_h_backprop_grad, shapes_.hidden_state, arena)),
        dot_c_(Result(a.output_c_backprop_grad, shapes_.cell_state, arena)),
        dot_d_h_(Result(a.input_h_grad, shapes_.hidden_state, arena)),
        dot_d_c_(Result(a.input_c_grad, shapes_.cell_state, arena)),
        dot_d_input_(staging_.ResultBuffer(a.input_grad, shapes_.input, arena)),
        dot_d_params_(
            params_staging_.ResultBuffer(a.params_grad, shapes_.params, arena)),
        dropped_(arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        dot_dropped_(
            arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        d_inner_(arena.Take<C>(shapes_.output.size() * NumInnerGradients())),
        dot_d_inner_(
            arena.Take<C>(shapes_.output.size() * NumInnerGradients())),
        scratch_(a, num_threads, arena) {}

  void Run(Executor& executor) const {
    if (IsEmpty(a_.config, a_.size)) {
      FillZeroIfWanted(a_.input_grad, shapes_.input, executor);
      FillZeroIfWanted(a_.params_grad, shapes_.params, executor);
      return;
    }
    samples_.Sort();
    const Network network = ReadNetwork(executor);
    RunTangentSweep(network, executor);
    staging_.Write(dot_output_, a_.output_backprop_grad, shapes_.output,
                   executor);
    staging_.Write(dot_h_, a_.output_h_backprop_grad, shapes_.hidden_state,
                   executor);
    staging_.Write(dot_c_, a_.output_c_backprop_grad, shapes_.cell_state,
                   executor);
    if (!WantsGradientSweep(a_)) return;
    RunGradientSweep(network, executor);
    staging_.Write(dot_d_h_, a_.input_h_grad, shapes_.hidden_state, executor);
    staging_.Write(dot_d_c_, a_.input_c_grad, shapes_.cell_state, executor);
    staging_.Write(dot_d_input_, a_.input_grad, shapes_.input, executor);
    params_staging_.Write(dot_d_params_, a_.params_grad, shapes_.params,
                          executor);
  }

 private:
  // What goes into the network, as both sweeps take it.
  struct Network {
    const P* params;
    const P* dot_params;  // null for zeros
    const C* input;
    const C* dot_input;  // null for zeros
    LayerStateArrays<C> states;
    LayerStateArrays<C> dot_states;
  };

  static bool WantsGradientSweep(const CudnnRnnBackwardGrad<T>& a) {
    return a.input_grad != nullptr || a.input_h_grad != nullptr ||
           a.input_c_grad != nullptr || a.params_grad != nullptr;
  }

  // Scratch memory of the sweeps, which need it one after the other.
  struct SweepScratch {
    SweepScratch(const CudnnRnnBackwardGrad<T>& a, int num_threads,
                 Arena& arena)
        : gradient_arena(arena),
          tangent(a.config, a.size, a.dot_params != nullptr, num_threads,
                  arena),
          gradient(a.config, a.size, a.dot_params != nullptr,
                   a.params_grad != nullptr, num_threads, gradient_arena) {
      if (WantsGradientSweep(a)) arena.Share(gradient_arena);
    }

    Arena gradient_arena;  // begins where what the tangent sweep takes does
    LayerTangentScratch<P> tangent;
    LayerBackwardGradScratch<P> gradient;
  };

  // Each with respect to a layer's input.
  std::int64_t NumInnerGradients() const {
    return WantsGradientSweep(a_) ? Min(a_.config.num_layers - 1, 2) : 0;
  }

  // Whether steps past a sequence's end are read: to be multiplied by zeros,
  // the gradients of the gates.
  bool ReadsPadding() const {
    return a_.sequence_lengths != nullptr && !a_.config.skip_input;
  }
  // Memory for a sequence of inputs without what is past the ends, unless it
  // has a buffer.
  C* OwnPaddedInput(Arena& arena) const {
    return arena.Take<C>(
        ReadsPadding() && !staging_.is_copied() ? shapes_.input.size() : 0);
  }
  const C* ReadInput(const T* from, C* buffer, C* padded,
                     Executor& executor) const {
    if (from == nullptr) return nullptr;
    const C* const input = staging_.Read(from, buffer, shapes_.input, executor);
    if (!ReadsPadding()) return input;
    C* const valid = staging_.is_copied() ? buffer : padded;
    CopyValidSteps(input, valid, shapes_.input, samples_.lengths(), executor);
    return valid;
  }

  // Where a result is made that has to be made, wanted or not.
  C* Result(T* wanted, const StagedShape& shape, Arena& arena) const {
    return wanted == nullptr || staging_.is_copied()
               ? arena.Take<C>(shape.size())
               : staging_.Target(wanted, nullptr);
  }

  // A state, or zeros if it is null, in memory of its own.
  void CopyState(const T* from, C* to, const StagedShape& shape,
                 Executor& executor) const {
    const std::int64_t size = shape.size().value();
    if (from == nullptr) {
      std::fill_n(to, size, C(0));
    } else {
      const C* const state = staging_.Read(from, to, shape, executor);
      if (state != to) std::copy_n(state, size, to);
    }
  }

  Network ReadNetwork(Executor& executor) const {
    CopyState(a_.dot_input_h, dot_input_h_, shapes_.hidden_state, executor);
    CopyState(a_.dot_input_c, dot_input_c_, shapes_.cell_state, executor);
    const KeptActivations<const C> none(nullptr, a_.config, a_.size);
    return {
        ReadParams(a_.params, params_staging_, params_, shapes_.params,
                   executor),
        a_.dot_params == nullptr
            ? nullptr
            : ReadParams(a_.dot_params, params_staging_, dot_params_,
                         shapes_.params, executor),
        ReadInput(a_.input, input_, valid_input_, executor),
        ReadInput(a_.dot_input, dot_input_, valid_dot_input_, executor),
        {staging_.Read(a_.input_h, input_h_, shapes_.hidden_state, executor),
         staging_.Read(a_.input_c, input_c_, shapes_.cell_state, executor),
         staging_.Read(a_.output, output_, shapes_.output, executor), none},
        {dot_input_h_, dot_input_c_, dot_output_, none}};
  }

  std::int64_t hidden_size() const {
    return shapes_.hidden_state.size().value() / a_.config.num_layers;
  }
  std::int64_t cell_size() const {
    return shapes_.cell_state.size().value() / a_.config.num_layers;
  }
  std::int64_t output_size() const { return shapes_.output.size().value(); }
  std::int64_t kept_size() const {
    return LayerKeptSize(a_.config, a_.size).value();
  }
  bool IsLast(std::int64_t layer) const {
    return layer == a_.config.num_layers - 1;
  }

  ReservedArrays<const C> reserved() const {
    return {a_.reserve_space, a_.config, a_.size};
  }
  C* DotOutput(std::int64_t layer) const {
    return IsLast(layer) ? dot_output_
                         : dot_inner_outputs_ + layer * output_size();
  }

  // Of the forward pass, in a layer.
  LayerStateArrays<C> States(const Network& network, std::int64_t layer) const {
    LayerStateArrays<C> states = network.states;
    states.input_h += layer * hidden_size();
    states.input_c += layer * cell_size();
    states.kept = KeptActivations<const C>(
        reserved().kept + layer * kept_size(), a_.config, a_.size);
    if (layer < NumKeptOutputs<T>(a_.config)) {
      states.output = reserved().outputs + layer * output_size();
    }
    return states;
  }
  LayerStateArrays<C> DotStates(const Network& network,
                                std::int64_t layer) const {
    LayerStateArrays<C> states = network.dot_states;
    states.input_h += layer * hidden_size();
    states.input_c += layer * cell_size();
    states.kept = KeptActivations<const C>(dot_kept_ + layer * kept_size(),
                                           a_.config, a_.size);
    states.output = DotOutput(layer);
    return states;
  }

  // A layer's input, and what it changes by.
  const C* Input(const Network& network, std::int64_t layer,
                 Executor& executor) const {
    if (layer == 0) return network.input;
    return dropout_.Apply(reserved().outputs + (layer - 1) * output_size(),
                          dropped_, layer, executor);
  }
  const C* DotInput(const Network& network, std::int64_t layer,
                    Executor& executor) const {
    if (layer == 0) return network.dot_input;
    return dropout_.Apply(DotOutput(layer - 1), dot_dropped_, layer, executor);
  }

  void RunTangentSweep(const Network& network, Executor& executor) const {
    // Where the layers find what the initial states change by.
    std::copy_n(dot_input_h_, shapes_.hidden_state.size().value(), dot_h_);
    std::copy_n(dot_input_c_, shapes_.cell_state.size().value(), dot_c_);
    for (std::int64_t i = 0; i < a_.config.num_layers; ++i) {
      const LayerTangentArguments<P> layer{
          a_.config,
          a_.size,
          samples_.lengths(),
          i,
          network.params,
          network.dot_params,
          network.dot_params == nullptr ? nullptr : Input(network, i, executor),
          DotInput(network, i, executor),
          States(network, i),
          DotOutput(i),
          dot_h_ + i * hidden_size(),
          dot_c_ + i * cell_size(),
          KeptActivations<C>(dot_kept_ + i * kept_size(), a_.config, a_.size)};
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerTangent<P, decltype(cell)>(layer, scratch_.tangent, executor)
            .Run();
      });
    }
  }

  void RunGradientSweep(const Network& network, Executor& executor) const {
    // Where the layers find the gradients of the final states.
    CopyState(a_.output_h_backprop, d_h_, shapes_.hidden_state, executor);
    CopyState(a_.output_c_backprop, d_c_, shapes_.cell_state, executor);
    std::fill_n(dot_d_h_, shapes_.hidden_state.size().value(), C(0));
    std::fill_n(dot_d_c_, shapes_.cell_state.size().value(), C(0));
    const C* d_output =
        staging_.Read(a_.output_backprop, d_output_, shapes_.output, executor);
    const C* dot_d_output = nullptr;
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      const LayerBackwardGradArguments<P> layer{
          a_.config,
          a_.size,
          samples_.lengths(),
          i,
          network.params,
          network.dot_params,
          Input(network, i, executor),
          DotInput(network, i, executor),
          States(network, i),
          DotStates(network, i),
          {d_output, InputGradient(i, d_inner_), d_h_ + i * hidden_size(),
           d_c_ + i * cell_size()},
          {dot_d_output, DotInputGradient(i), dot_d_h_ + i * hidden_size(),
           dot_d_c_ + i * cell_size()},
          params_staging_.Target(a_.params_grad, dot_d_params_)};
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerBackwardGrad<P, decltype(cell)>(layer, scratch_.gradient, executor)
            .Run();
      });
      if (i == 0) break;
      d_output = dropout_.Apply(layer.d.input, layer.d.input, i, executor);
      dot_d_output =
          dropout_.Apply(layer.dot_d.input, layer.dot_d.input, i, executor);
    }
  }

  // Where the gradient with respect to a layer's input goes, of two arrays.
  C* InputGradient(std::int64_t layer, C* inner) const {
    return layer == 0 ? nullptr : inner + (layer - 1) % 2 * output_size();
  }
  C* DotInputGradient(std::int64_t layer) const {
    if (layer > 0) return InputGradient(layer, dot_d_inner_);
    return staging_.Target(a_.input_grad, dot_d_input_);
  }

  const CudnnRnnBackwardGrad<T>& a_;
  const Shapes shapes_;
  const Samples samples_;
  const Staging<T> staging_;
  const Staging<T> params_staging_;
  const LayerDropout<T> dropout_;
  C* const input_;
  C* const input_h_;
  C* const input_c_;
  C* const params_;
  C* const output_;
  C* const d_output_;
  C* const d_h_;
  C* const d_c_;
  C* const valid_input_;
  C* const valid_dot_input_;
  C* const dot_input_;
  C* const dot_input_h_;
  C* const dot_input_c_;
  C* const dot_params_;
  C* const dot_kept_;           // [P / D] KeptActivations, one for each layer
  C* const dot_inner_outputs_;  // [P / D - 1, T, B, D * O]
  C* const dot_output_;
  C* const dot_h_;
  C* const dot_c_;
  C* const dot_d_h_;
  C* const dot_d_c_;
  C* const dot_d_input_;
  C* const dot_d_params_;
  C* const dropped_;      // [T, B, D * O]
  C* const dot_dropped_;  // [T, B, D * O]
  C* const d_inner_;      // the gradients of two inner layers' inputs
  C* const dot_d_inner_;  // likewise
  const SweepScratch scratch_;
};

// The bytes of scratch memory that a call takes.
template <typename Call, typename Arguments>
std::int64_t Workspace(const Arguments& arguments, int num_threads) {
  if (IsEmpty(arguments.config, arguments.size)) return 0;
  Arena arena(nullptr);
  Call(arguments, num_threads, arena);
  return arena.used();
}

template <typename Call, typename Arguments>
void Run(const Arguments& arguments, Executor& executor) {
  Arena arena(arguments.workspace);
  Call(arguments, executor.num_threads(), arena).Run(executor);
}

template <typename T>
CudnnRnnKernels<T> Kernels() {
  return {&Workspace<ForwardCall<T>, CudnnRnnForward<T>>,
          &Workspace<BackwardCall<T>, CudnnRnnBackward<T>>,
          &Workspace<BackwardGradCall<T>, CudnnRnnBackwardGrad<T>>,
          &Run<ForwardCall<T>, CudnnRnnForward<T>>,
          &Run<BackwardCall<T>, CudnnRnnBackward<T>>,
          &Run<BackwardGradCall<T>, CudnnRnnBackwardGrad<T>>};
}

}  // namespace

#if defined(__AMX_BF16__)
template <>
CudnnRnnKernels<BFloat16> CudnnRnn<BFloat16>() {
  return Kernels<BFloat16>();
}
#else
template <>
CudnnRnnKernels<float> CudnnRnn<float>() {
  return Kernels<float>();
}
template <>
CudnnRnnKernels<double> CudnnRnn<double>() {
  return Kernels<double>();
}
template <>
CudnnRnnKernels<Half> CudnnRnn<Half>() {
  return Kernels<Half>();
}
template <>
CudnnRnnKernels<BFloat16> CudnnRnn<BFloat16>() {
  return Kernels<BFloat16>();
}
#endif

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
