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

// The memory of this pass, taken from an arena array by array. d_q: gradient
// with respect to q. dot_q: tangent of q.
template <typename T>
struct BackwardGradMemory : PassMemory<T, OperandType<T>> {
  using C = ComputeType<T>;
  using P = OperandType<T>;
  using PassMemory<T, P>::shapes;
  using PassMemory<T, P>::layout;

  BackwardGradMemory(const NetworkBackwardGrad<T>& a, int num_threads,
                     Arena& arena)
      : PassMemory<T, P>(a, LeftSorted(a.kept.header), arena),
        wants_gradients(a.input_grad != nullptr || a.input_h_grad != nullptr ||
                        a.input_c_grad != nullptr || a.weights_grad.any()),
        input(a, a.input, &shapes.input, &layout, arena),
        output(a.output, &shapes.output, &layout, arena),
        d_output(a.output_backprop, &shapes.output, &layout, arena),
        d_output_h(a.output_h_backprop, &shapes.hidden_state, &layout),
        d_output_c(a.output_c_backprop, &shapes.cell_state, &layout),
        d_h(arena.Take<C>(shapes.hidden_state.size())),
        d_c(arena.Take<C>(shapes.cell_state.size())),
        dot_input(a, a.dot_input, &shapes.input, &layout, arena),
        dot_input_h(a.dot_input_h, &shapes.hidden_state, &layout, arena,
                    kIsNeeded),
        dot_input_c(a.dot_input_c, &shapes.cell_state, &layout, arena,
                    kIsNeeded),
        dot_weights(a.config, a.dot_weights, arena),
        dot_kept(arena.Take<C>(LayerKeptSize(a.config, a.size) *
                               a.config.num_layers)),
        dot_inner_outputs(
            arena.Take<C>(shapes.output.size() * (a.config.num_layers - 1))),
        dot_output(a.output_backprop_grad, &shapes.output, &layout, arena,
                   kIsNeeded),
        dot_h(a.output_h_backprop_grad, &shapes.hidden_state, &layout, arena,
              kIsNeeded),
        dot_c(a.output_c_backprop_grad, &shapes.cell_state, &layout, arena,
              kIsNeeded),
        dot_d_h(a.input_h_grad, &shapes.hidden_state, &layout, arena,
                kIsNeeded),
        dot_d_c(a.input_c_grad, &shapes.cell_state, &layout, arena, kIsNeeded),
        dot_d_input(a.input_grad, &shapes.input, &layout, arena),
        dot_d_weights(a.config, a.weights_grad, arena),
        dropped(arena.Take<C>(Dropped(a))),
        dot_dropped(arena.Take<C>(Dropped(a))),
        d_inner(arena.Take<C>(InnerGradients(a))),
        dot_d_inner(arena.Take<C>(InnerGradients(a))),
        sweeps(a, wants_gradients, num_threads, arena) {}

  // Whether the gradient sweep runs.
  const bool wants_gradients;

  const ValidInput<T> input;
  const StagedArray<const T> output;
  const StagedArray<const T> d_output;
  const StagedArray<const T> d_output_h;
  const StagedArray<const T> d_output_c;
  C* const d_h;  // [P, B, O], updated by the layers
  C* const d_c;  // [P, B, U]
  const ValidInput<T> dot_input;
  const StagedArray<const T> dot_input_h;
  const StagedArray<const T> dot_input_c;
  const StagedWeights<const T, P> dot_weights;
  C* const dot_kept;           // [P / D] KeptActivations, one for each layer
  C* const dot_inner_outputs;  // [P / D - 1, S, B, D * O]
  // Tangents of the results of the network.
  const StagedArray<T> dot_output;
  const StagedArray<T> dot_h;
  const StagedArray<T> dot_c;
  // Tangents of the results of the backward pass.
  const StagedArray<T> dot_d_h;
  const StagedArray<T> dot_d_c;
  const StagedArray<T> dot_d_input;
  const StagedWeights<T, C> dot_d_weights;
  C* const dropped;      // [S, B, D * O]
  C* const dot_dropped;  // [S, B, D * O]
  C* const d_inner;      // gradients of the inputs of two inner layers
  C* const dot_d_inner;  // tangents of d_inner

  // The sweeps run one after the other and share memory.
  struct Sweeps {
    Sweeps(const NetworkBackwardGrad<T>& a, bool wants_gradients,
           int num_threads, Arena& arena)
        : gradient_arena(arena),
          tangent(a.config, a.size, a.dot_weights.any(), num_threads, arena),
          gradient(a.config, a.size, a.weights, a.dot_weights, a.weights_grad,
                   num_threads, gradient_arena) {
      if (wants_gradients) arena.Share(gradient_arena);
    }

    Arena gradient_arena;  // starts at the tangent sweep's memory
    LayerTangentScratch<P> tangent;
    LayerBackwardScratch<P, 2> gradient;
  };
  const Sweeps sweeps;

 private:
  CheckedInt Dropped(const NetworkBackwardGrad<T>& a) const {
    const bool drops = a.dropout > 0 && a.config.num_layers > 1;
    return drops ? shapes.output.size() : CheckedInt(0);
  }
  CheckedInt InnerGradients(const NetworkBackwardGrad<T>& a) const {
    return shapes.output.size() *
           (wants_gradients ? Min(a.config.num_layers - 1, 2) : 0);
  }
};

// dot_q: tangent of q.
template <typename T>
class BackwardGradPass {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;
  using Memory = BackwardGradMemory<T>;

  BackwardGradPass(const NetworkBackwardGrad<T>& a, const Memory& memory)
      : a_(a),
        memory_(memory),
        dropout_(a.config, a.size, a.dropout, a.kept.header,
                 memory.shapes.output, memory.samples.order()),
        reserved_(a.kept, a.config, a.size) {}

  void Run(Executor& executor) const {
    if (HasNoState(a_.config, a_.size)) {
      memory_.dot_d_input.WriteZeros(executor);
      memory_.dot_d_weights.WriteZeros(executor);
      return;
    }
    memory_.samples.Sort();
    const Network network = ReadNetwork(executor);
    RunTangentSweep(network, executor);
    memory_.dot_output.Write(executor);
    memory_.dot_h.Write(executor);
    memory_.dot_c.Write(executor);
    if (!memory_.wants_gradients) return;
    RunGradientSweep(network, executor);
    memory_.dot_d_h.Write(executor);
    memory_.dot_d_c.Write(executor);
    memory_.dot_d_input.Write(executor);
    memory_.dot_d_weights.Write(executor);
  }

 private:
  // The inputs of the network, as both sweeps read them.
  struct Network {
    SequenceLengths lengths;
    Weights<const P> weights;
    Weights<const P> dot_weights;  // none for zeros
    const C* input;
    const C* dot_input;  // null for zeros
    LayerStateArrays<C> states;
    LayerStateArrays<C> dot_states;
    const C* input_masks;
    const C* state_masks;
  };

  Network ReadNetwork(Executor& executor) const {
    Network network;
    network.lengths = memory_.samples.lengths();
    network.weights = memory_.weights.Read(executor);
    network.dot_weights = memory_.dot_weights.Read(executor);
    network.input = memory_.input.Read(network.lengths, executor);
    network.dot_input = memory_.dot_input.Read(network.lengths, executor);
    network.states.input_h = memory_.input_h.Read(executor);
    network.states.input_c = memory_.input_c.Read(executor);
    network.states.output = memory_.output.Read(executor);
    network.dot_states.input_h = memory_.dot_input_h.Read(executor);
    network.dot_states.input_c = memory_.dot_input_c.Read(executor);
    network.input_masks = memory_.input_masks.Read(executor);
    network.state_masks = memory_.state_masks.Read(executor);
    return network;
  }

  std::int64_t hidden_size() const { return memory_.shapes.hidden_size(); }
  std::int64_t cell_size() const { return memory_.shapes.cell_size(); }
  std::int64_t output_size() const { return memory_.shapes.output_size(); }
  std::int64_t kept_size() const {
    return LayerKeptSize(a_.config, a_.size).value();
  }
  bool IsLast(std::int64_t layer) const {
    return layer == a_.config.num_layers - 1;
  }

  C* DotOutput(std::int64_t layer) const {
    return IsLast(layer) ? memory_.dot_output.Target()
                         : memory_.dot_inner_outputs + layer * output_size();
  }

  // The states of the forward pass in a layer.
  LayerStateArrays<C> States(const Network& network, std::int64_t layer) const {
    LayerStateArrays<C> states = network.states;
    states.input_h += layer * hidden_size();
    states.input_c += layer * cell_size();
    states.kept =
        KeptActivations<const C>(reserved_.kept + layer * kept_size(),
                                 a_.config, a_.size, kKeepsFinitePairs<T>);
    if (layer < NumKeptOutputs<T>(a_.config)) {
      states.output = reserved_.outputs + layer * output_size();
    }
    return states;
  }
  LayerStateArrays<C> DotStates(const Network& network,
                                std::int64_t layer) const {
    LayerStateArrays<C> states = network.dot_states;
    states.input_h += layer * hidden_size();
    states.input_c += layer * cell_size();
    states.kept = KeptActivations<const C>(
        memory_.dot_kept + layer * kept_size(), a_.config, a_.size,
        /*are_pairs=*/false);
    states.output = DotOutput(layer);
    return states;
  }

  // The input of a layer and its tangent.
  const C* Input(const Network& network, std::int64_t layer,
                 Executor& executor) const {
    if (layer == 0) return network.input;
    return dropout_.Apply(reserved_.outputs + (layer - 1) * output_size(),
                          memory_.dropped, layer, executor);
  }
  const C* DotInput(const Network& network, std::int64_t layer,
                    Executor& executor) const {
    if (layer == 0) return network.dot_input;
    return dropout_.Apply(DotOutput(layer - 1), memory_.dot_dropped, layer,
                          executor);
  }

  void RunTangentSweep(const Network& network, Executor& executor) const {
    // The layers read and update the state tangents in place.
    C* const dot_h = memory_.dot_h.Target();
    C* const dot_c = memory_.dot_c.Target();
    std::copy_n(network.dot_states.input_h,
                memory_.shapes.hidden_state.size().value(), dot_h);
    std::copy_n(network.dot_states.input_c,
                memory_.shapes.cell_state.size().value(), dot_c);
    for (std::int64_t i = 0; i < a_.config.num_layers; ++i) {
      LayerTangentArguments<P> layer;
      layer.config = a_.config;
      layer.size = a_.size;
      layer.lengths = network.lengths;
      layer.layer = i;
      layer.weights = network.weights;
      layer.dot_weights = network.dot_weights;
      if (network.dot_weights.any()) layer.input = Input(network, i, executor);
      layer.dot_input = DotInput(network, i, executor);
      layer.states = States(network, i);
      layer.dot_output = DotOutput(i);
      layer.input_masks = network.input_masks;
      layer.state_masks = network.state_masks;
      layer.dot_h = dot_h + i * hidden_size();
      layer.dot_c = dot_c + i * cell_size();
      layer.dot_kept =
          KeptActivations<C>(memory_.dot_kept + i * kept_size(), a_.config,
                             a_.size, /*are_pairs=*/false);
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerTangent<P, decltype(cell)>(layer, memory_.sweeps.tangent, executor)
            .Run();
      });
    }
  }

  void RunGradientSweep(const Network& network, Executor& executor) const {
    // The layers read and update the state gradients in place.
    C* const dot_d_h = memory_.dot_d_h.Target();
    C* const dot_d_c = memory_.dot_d_c.Target();
    memory_.d_output_h.ReadTo(memory_.d_h, executor);
    memory_.d_output_c.ReadTo(memory_.d_c, executor);
    std::fill_n(dot_d_h, memory_.shapes.hidden_state.size().value(), C(0));
    std::fill_n(dot_d_c, memory_.shapes.cell_state.size().value(), C(0));
    const C* d_output = memory_.d_output.Read(executor);
    const C* dot_d_output = nullptr;
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      LayerBackwardArguments<P, 2> layer;
      layer.config = a_.config;
      layer.size = a_.size;
      layer.lengths = network.lengths;
      layer.layer = i;
      layer.weights = {network.weights, network.dot_weights};
      layer.input = {Input(network, i, executor),
                     DotInput(network, i, executor)};
      layer.states = {States(network, i), DotStates(network, i)};
      LayerGradientArrays<C>& value = layer.gradients[kValue];
      value.output = d_output;
      value.input = InputGradient(i, memory_.d_inner);
      value.h = memory_.d_h + i * hidden_size();
      value.c = memory_.d_c + i * cell_size();
      LayerGradientArrays<C>& tangent = layer.gradients[kTangent];
      tangent.output = dot_d_output;
      tangent.input = i > 0 ? InputGradient(i, memory_.dot_d_inner)
                            : memory_.dot_d_input.Target();
      tangent.h = dot_d_h + i * hidden_size();
      tangent.c = dot_d_c + i * cell_size();
      layer.d_weights = memory_.dot_d_weights.Target();
      layer.input_masks = network.input_masks;
      layer.state_masks = network.state_masks;
      WithCell<C>(a_.config.mode, [&](auto cell) {
        LayerBackward<P, decltype(cell), 2>(layer, memory_.sweeps.gradient,
                                            executor)
            .Run();
      });
      if (i == 0) break;
      const auto drop = [&](C* d_input) {
        return dropout_.Apply(d_input, d_input, i, executor);
      };
      d_output = drop(value.input);
      dot_d_output = drop(tangent.input);
    }
  }

  // The gradient with respect to the input of a layer, in one of two arrays;
  // null for the first layer.
  C* InputGradient(std::int64_t layer, C* inner) const {
    return layer == 0 ? nullptr : inner + (layer - 1) % 2 * output_size();
  }

  const NetworkBackwardGrad<T>& a_;
  const Memory& memory_;
  const LayerDropout<T> dropout_;
  const ReservedArrays<const C> reserved_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_GRAD_H_
