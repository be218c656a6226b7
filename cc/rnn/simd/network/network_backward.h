// The backward pass of a whole network over a sequence.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_backward.h"
#include "cc/rnn/simd/network/network_pass.h"
#include "cc/rnn/simd/vector/finite_pair.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/staging.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The memory of a backward pass, taken from an arena array by array.
template <typename T>
struct BackwardMemory : PassMemory<T, OperandType<T>> {
  using C = ComputeType<T>;
  using P = OperandType<T>;
  using PassMemory<T, P>::shapes;
  using PassMemory<T, P>::layout;

  BackwardMemory(const NetworkBackward<T>& a, int num_threads, Arena& arena)
      : PassMemory<T, P>(a, LeftSorted(a.kept.header), arena),
        input(a, a.input, &shapes.input, &layout, arena),
        output(a.output, &shapes.output, &layout, arena),
        d_output(a.output_backprop, &shapes.output, &layout, arena),
        d_output_h(a.output_h_backprop, &shapes.hidden_state, &layout),
        d_output_c(a.output_c_backprop, &shapes.cell_state, &layout),
        d_activations(a.activations_backprop, &shapes.output, &layout, arena),
        d_input(a.input_backprop, &shapes.input, &layout, arena),
        d_input_h(a.input_h_backprop, &shapes.hidden_state, &layout, arena,
                  kIsNeeded),
        d_input_c(a.input_c_backprop, &shapes.cell_state, &layout, arena,
                  kIsNeeded),
        d_weights(a.config, a.weights_backprop, arena),
        d_peepholes(a.weights_backprop.peepholes, &shapes.peephole,
                    &kNetworksLayout, arena),
        activations(a.kept.are_activations()
                        ? arena.Take<C>(LayerKeptSize(a.config, a.size))
                        : nullptr),
        dropped(arena.Take<C>(a.dropout > 0 && a.config.num_layers > 1
                                  ? shapes.output.size()
                                  : 0)),
        d_inner(arena.Take<C>(shapes.output.size() *
                              Min(a.config.num_layers - 1, 2))),
        layer(a.config, a.size, a.weights, /*dot_weights=*/{},
              a.weights_backprop, num_threads, arena) {}

  const ValidInput<T> input;
  const StagedArray<const T> output;
  const StagedArray<const T> d_output;
  const StagedArray<const T> d_output_h;
  const StagedArray<const T> d_output_c;
  const StagedArrays<LstmActivations, const T> d_activations;
  const StagedArray<T> d_input;
  const StagedArray<T> d_input_h;
  const StagedArray<T> d_input_c;
  const StagedWeights<T, C> d_weights;
  const StagedArrays<Peepholes, T> d_peepholes;
  C* const activations;  // KeptActivations of TensorFlow's LSTM ops, or null
  C* const dropped;      // [S, B, D * O]
  C* const d_inner;      // gradients of the inputs of two inner layers
  const LayerBackwardScratch<P, 1> layer;
};

template <typename T>
class BackwardPass {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;
  using Memory = BackwardMemory<T>;

  BackwardPass(const NetworkBackward<T>& a, const Memory& memory)
      : a_(a),
        memory_(memory),
        dropout_(a.config, a.size, a.dropout, a.kept.header,
                 memory.shapes.output, memory.samples.order()) {}

  void Run(Executor& executor) const {
    if (HasNoState(a_.config, a_.size)) {
      memory_.d_input.WriteZeros(executor);
      memory_.d_weights.WriteZeros(executor);
      memory_.d_peepholes.WriteZeros(executor);
      return;
    }
    Compute(executor);
  }

 private:
  using LayerArguments = LayerBackwardArguments<P, 1>;

  void Compute(Executor& executor) const {
    memory_.samples.Sort();
    LayerArguments network;  // with the arrays of all layers
    network.config = a_.config;
    network.size = a_.size;
    network.lengths = memory_.samples.lengths();
    network.weights[kValue] = memory_.weights.Read(executor);
    network.peepholes = memory_.peepholes.Read(executor);
    network.input_masks = memory_.input_masks.Read(executor);
    network.state_masks = memory_.state_masks.Read(executor);
    network.input[kValue] = memory_.input.Read(network.lengths, executor);
    LayerStateArrays<C>& states = network.states[kValue];
    states.input_h = memory_.input_h.Read(executor);
    states.input_c = memory_.input_c.Read(executor);
    states.output = memory_.output.Read(executor);
    LayerGradientArrays<C>& gradients = network.gradients[kValue];
    gradients.output = memory_.d_output.Read(executor);
    gradients.input = memory_.d_input.Target();
    gradients.h = memory_.d_input_h.Target();
    gradients.c = memory_.d_input_c.Target();
    network.d_weights = memory_.d_weights.Target();
    network.d_activations = memory_.d_activations.Read(executor);
    network.d_peepholes = memory_.d_peepholes.Target();
    if (memory_.activations != nullptr) ReadActivations(executor);
    // The layers read and update the state gradients in place.
    memory_.d_output_h.ReadTo(gradients.h, executor);
    memory_.d_output_c.ReadTo(gradients.c, executor);
    RunLayers(network, executor);
    memory_.d_input.Write(executor);
    memory_.d_input_h.Write(executor);
    memory_.d_input_c.Write(executor);
    memory_.d_weights.Write(executor);
    memory_.d_peepholes.Write(executor);
  }

  void ReadActivations(Executor& executor) const {
    KeptActivations<C>(memory_.activations, a_.config, a_.size,
                       /*are_pairs=*/false)
        .ForEachRun(executor,
                    [&](C* to, std::int64_t offset, std::int64_t count) {
                      for (const T* const array : a_.kept.activations.arrays) {
                        Convert(array + offset, to, count);
                        to += count;
                      }
                    });
  }

  // The activations that the cells of a layer keep.
  KeptActivations<const C> KeptBy(const ReservedArrays<const C>& reserved,
                                  std::int64_t layer) const {
    if (memory_.activations != nullptr) {
      return {memory_.activations, a_.config, a_.size, /*are_pairs=*/false};
    }
    return {reserved.kept + layer * LayerKeptSize(a_.config, a_.size).value(),
            a_.config, a_.size, kKeepsFinitePairs<T>};
  }

  void RunLayers(const LayerArguments& network, Executor& executor) const {
    const NetworkShapes& shapes = memory_.shapes;
    const std::int64_t output_size = shapes.output_size();
    const ReservedArrays<const C> reserved(a_.kept, a_.config, a_.size);
    LayerArguments layer = network;
    LayerStateArrays<C>& states = layer.states[kValue];
    LayerGradientArrays<C>& gradients = layer.gradients[kValue];
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      layer.layer = i;
      states.input_h =
          network.states[kValue].input_h + i * shapes.hidden_size();
      states.input_c = network.states[kValue].input_c + i * shapes.cell_size();
      gradients.h = network.gradients[kValue].h + i * shapes.hidden_size();
      gradients.c = network.gradients[kValue].c + i * shapes.cell_size();
      states.kept = KeptBy(reserved, i);
      if (i < NumKeptOutputs<T>(a_.config)) {
        states.output = reserved.outputs + i * output_size;
      }
      if (i < a_.config.num_layers - 1) {
        gradients.output = gradients.input;  // of the layer above
      }
      if (i == 0) {
        layer.input = network.input;
        gradients.input = network.gradients[kValue].input;
      } else {
        layer.input[kValue] =
            dropout_.Apply(reserved.outputs + (i - 1) * output_size,
                           memory_.dropped, i, executor);
        gradients.input = memory_.d_inner + (i - 1) % 2 * output_size;
      }
      WithCell<C>(a_.config, [&](auto cell) {
        LayerBackward<P, decltype(cell), 1>(layer, memory_.layer, executor)
            .Run();
      });
      if (i > 0) dropout_.Apply(gradients.input, gradients.input, i, executor);
    }
  }

  const NetworkBackward<T>& a_;
  const Memory& memory_;
  const LayerDropout<T> dropout_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_H_
