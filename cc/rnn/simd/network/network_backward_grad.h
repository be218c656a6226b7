// The gradient of the backward pass of a whole network, in the two sweeps of
// docs/design/second_order.md.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_GRAD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_GRAD_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_backward.h"
#include "cc/rnn/simd/layer/layer_states.h"
#include "cc/rnn/simd/layer/layer_tangent.h"
#include "cc/rnn/simd/network/network_pass.h"
#include "cc/rnn/simd/vector/finite_pair.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/staging.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// dot_q: tangent of q.
template <typename T>
class BackwardGradPass {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;

  BackwardGradPass(const NetworkBackwardGrad<T>& a, int num_threads,
                   Arena& arena)
      : a_(a),
        shapes_(a.config, a.size, a.step_order),
        samples_(a.sequence_lengths, a.size, LeftSorted(a.kept.header), arena),
        staging_(a.time_major, samples_.order()),
        dropout_(a.config, a.size, a.dropout, a.kept.header, shapes_.output,
                 samples_.order()),
        input_(staging_.Buffer(shapes_.input, arena)),
        input_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        input_c_(staging_.Buffer(shapes_.cell_state, arena)),
        weights_(a.config, a.weights, arena),
        output_(staging_.BufferIfAny(a.output, shapes_.output, arena)),
        d_output_(
            staging_.BufferIfAny(a.output_backprop, shapes_.output, arena)),
        d_h_(arena.Take<C>(shapes_.hidden_state.size())),
        d_c_(arena.Take<C>(shapes_.cell_state.size())),
        valid_input_(OwnPaddedInput(arena)),
        valid_dot_input_(OwnPaddedInput(arena)),
        dot_input_(staging_.Buffer(shapes_.input, arena)),
        dot_input_h_(arena.Take<C>(shapes_.hidden_state.size())),
        dot_input_c_(arena.Take<C>(shapes_.cell_state.size())),
        dot_weights_(a.config, a.dot_weights, arena),
        dot_kept_(arena.Take<C>(LayerKeptSize(a.config, a.size) *
                                a.config.num_layers)),
        dot_inner_outputs_(
            arena.Take<C>(shapes_.output.size() * (a.config.num_layers - 1))),
        dot_output_(Result(a.output_backprop_grad, shapes_.output, arena)),
        dot_h_(Result(a.output_h_backprop_grad, shapes_.hidden_state, arena)),
        dot_c_(Result(a.output_c_backprop_grad, shapes_.cell_state, arena)),
        dot_d_h_(Result(a.input_h_grad, shapes_.hidden_state, arena)),
        dot_d_c_(Result(a.input_c_grad, shapes_.cell_state, arena)),
        dot_d_input_(staging_.BufferIfAny(a.input_grad, shapes_.input, arena)),
        dot_d_weights_(a.config, a.weights_grad, arena),
        dropped_(arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        dot_dropped_(
            arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        d_inner_(arena.Take<C>(shapes_.output.size() * NumInnerGradients())),
        dot_d_inner_(
            arena.Take<C>(shapes_.output.size() * NumInnerGradients())),
        scratch_(a, num_threads, arena) {}

  void Run(Executor& executor) const {
    if (HasNoState(a_.config, a_.size)) {
      FillZeroIfWanted(a_.input_grad, shapes_.input, executor);
      dot_d_weights_.WriteZeros(executor);
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
    dot_d_weights_.Write(executor);
  }

 private:
  // The inputs of the network, as both sweeps read them.
  struct Network {
    Weights<const P> weights;
    Weights<const P> dot_weights;  // none for zeros
    const C* input;
    const C* dot_input;  // null for zeros
    LayerStateArrays<C> states;
    LayerStateArrays<C> dot_states;
  };

  static bool WantsGradientSweep(const NetworkBackwardGrad<T>& a) {
    return a.input_grad != nullptr || a.input_h_grad != nullptr ||
           a.input_c_grad != nullptr || a.weights_grad.any();
  }

  // Scratch memory of the sweeps, which run one after the other and share it.
  struct SweepScratch {
    SweepScratch(const NetworkBackwardGrad<T>& a, int num_threads, Arena& arena)
        : gradient_arena(arena),
          tangent(a.config, a.size, a.dot_weights.any(), num_threads, arena),
          gradient(a.config, a.size, a.weights, a.dot_weights, a.weights_grad,
                   num_threads, gradient_arena) {
      if (WantsGradientSweep(a)) arena.Share(gradient_arena);
    }

    Arena gradient_arena;  // starts at the tangent sweep's scratch memory
    LayerTangentScratch<P> tangent;
    LayerBackwardScratch<P, 2> gradient;
  };

  // Number of buffers for gradients with respect to the inputs of inner layers.
  std::int64_t NumInnerGradients() const {
    return WantsGradientSweep(a_) ? Min(a_.config.num_layers - 1, 2) : 0;
  }

  // Whether products read steps after the end of a sequence, where they
  // multiply them by zero gradients of the gates.
  bool ReadsPadding() const {
    return a_.sequence_lengths != nullptr && !a_.config.skip_input;
  }
  // Memory for an input with zeros after the end of each sequence, unless
  // staging has a buffer for it.
  C* OwnPaddedInput(Arena& arena) const {
    return arena.Take<C>(ReadsPadding() && !staging_.IsCopied(shapes_.input)
                             ? shapes_.input.size()
                             : 0);
  }
  const C* ReadInput(const T* from, C* buffer, C* padded,
                     Executor& executor) const {
    if (from == nullptr) return nullptr;
    const C* const input = staging_.Read(from, buffer, shapes_.input, executor);
    if (!ReadsPadding()) return input;
    C* const valid = staging_.IsCopied(shapes_.input) ? buffer : padded;
    CopyValidSteps(input, valid, shapes_.input, samples_.lengths(), executor);
    return valid;
  }

  // Where to compute a result that is required internally, even if the caller
  // does not need it.
  C* Result(T* wanted, const StagedShape& shape, Arena& arena) const {
    return wanted == nullptr || staging_.IsCopied(shape)
               ? arena.Take<C>(shape.size())
               : staging_.Target(wanted, nullptr);
  }

  // Copies a state, or zeros if it is null.
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
    const KeptActivations<const C> none(nullptr, a_.config, a_.size,
                                        /*are_pairs=*/false);
    return {
        weights_.Read(executor),
        dot_weights_.Read(executor),
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
    return {a_.kept, a_.config, a_.size};
  }
  C* DotOutput(std::int64_t layer) const {
    return IsLast(layer) ? dot_output_
                         : dot_inner_outputs_ + layer * output_size();
  }

  // The states of the forward pass in a layer.
  LayerStateArrays<C> States(const Network& network, std::int64_t layer) const {
    LayerStateArrays<C> states = network.states;
    states.input_h += layer * hidden_size();
    states.input_c += layer * cell_size();
    states.kept =
        KeptActivations<const C>(reserved().kept + layer * kept_size(),
                                 a_.config, a_.size, kKeepsFinitePairs<T>);
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
                                           a_.config, a_.size,
                                           /*are_pairs=*/false);
    states.output = DotOutput(layer);
    return states;
  }

  // The input of a layer and its tangent.
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
    // The layers read and update the state tangents in place.
    std::copy_n(dot_input_h_, shapes_.hidden_state.size().value(), dot_h_);
    std::copy_n(dot_input_c_, shapes_.cell_state.size().value(), dot_c_);
    for (std::int64_t i = 0; i < a_.config.num_layers; ++i) {
      const LayerTangentArguments<P> layer{
          a_.config,
          a_.size,
          samples_.lengths(),
          i,
          network.weights,
          network.dot_weights,
          network.dot_weights.any() ? Input(network, i, executor) : nullptr,
          DotInput(network, i, executor),
          States(network, i),
          DotOutput(i),
          dot_h_ + i * hidden_size(),
          dot_c_ + i * cell_size(),
          KeptActivations<C>(dot_kept_ + i * kept_size(), a_.config, a_.size,
                             /*are_pairs=*/false)};
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerTangent<P, decltype(cell)>(layer, scratch_.tangent, executor)
            .Run();
      });
    }
  }

  void RunGradientSweep(const Network& network, Executor& executor) const {
    // The layers read and update the state gradients in place.
    CopyState(a_.output_h_backprop, d_h_, shapes_.hidden_state, executor);
    CopyState(a_.output_c_backprop, d_c_, shapes_.cell_state, executor);
    std::fill_n(dot_d_h_, shapes_.hidden_state.size().value(), C(0));
    std::fill_n(dot_d_c_, shapes_.cell_state.size().value(), C(0));
    const C* d_output =
        staging_.Read(a_.output_backprop, d_output_, shapes_.output, executor);
    const C* dot_d_output = nullptr;
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      const LayerBackwardArguments<P, 2> layer{
          a_.config,
          a_.size,
          samples_.lengths(),
          i,
          {network.weights, network.dot_weights},
          {Input(network, i, executor), DotInput(network, i, executor)},
          {States(network, i), DotStates(network, i)},
          {{{d_output, InputGradient(i, d_inner_), d_h_ + i * hidden_size(),
             d_c_ + i * cell_size()},
            {dot_d_output, DotInputGradient(i), dot_d_h_ + i * hidden_size(),
             dot_d_c_ + i * cell_size()}}},
          dot_d_weights_.Target()};
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerBackward<P, decltype(cell), 2>(layer, scratch_.gradient, executor)
            .Run();
      });
      if (i == 0) break;
      const auto drop = [&](int part) {
        C* const d_input = layer.gradients[part].input;
        return dropout_.Apply(d_input, d_input, i, executor);
      };
      d_output = drop(kValue);
      dot_d_output = drop(kTangent);
    }
  }

  // The gradient with respect to the input of a layer, in one of two arrays.
  C* InputGradient(std::int64_t layer, C* inner) const {
    return layer == 0 ? nullptr : inner + (layer - 1) % 2 * output_size();
  }
  C* DotInputGradient(std::int64_t layer) const {
    if (layer > 0) return InputGradient(layer, dot_d_inner_);
    return staging_.Target(a_.input_grad, dot_d_input_);
  }

  const NetworkBackwardGrad<T>& a_;
  const NetworkShapes shapes_;
  const Samples samples_;
  const Staging<T> staging_;
  const LayerDropout<T> dropout_;
  C* const input_;
  C* const input_h_;
  C* const input_c_;
  const WeightsStaging<const T, P> weights_;
  C* const output_;
  C* const d_output_;
  C* const d_h_;
  C* const d_c_;
  C* const valid_input_;
  C* const valid_dot_input_;
  C* const dot_input_;
  C* const dot_input_h_;
  C* const dot_input_c_;
  const WeightsStaging<const T, P> dot_weights_;
  C* const dot_kept_;           // [P / D] KeptActivations, one for each layer
  C* const dot_inner_outputs_;  // [P / D - 1, S, B, D * O]
  C* const dot_output_;
  C* const dot_h_;
  C* const dot_c_;
  C* const dot_d_h_;
  C* const dot_d_c_;
  C* const dot_d_input_;
  const WeightsStaging<T, C> dot_d_weights_;
  C* const dropped_;      // [S, B, D * O]
  C* const dot_dropped_;  // [S, B, D * O]
  C* const d_inner_;      // gradients of the inputs of two inner layers
  C* const dot_d_inner_;  // tangents of d_inner_
  const SweepScratch scratch_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_GRAD_H_
