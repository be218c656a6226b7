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

template <typename T>
class BackwardPass {
 public:
  using C = ComputeType<T>;
  using P = OperandType<T>;

  BackwardPass(const NetworkBackward<T>& a, int num_threads, Arena& arena)
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
        valid_input_(
            arena.Take<C>(ReadsPadding() && !staging_.IsCopied(shapes_.input)
                              ? shapes_.input.size()
                              : 0)),
        d_output_(
            staging_.BufferIfAny(a.output_backprop, shapes_.output, arena)),
        d_output_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        d_output_c_(staging_.Buffer(shapes_.cell_state, arena)),
        d_input_(staging_.BufferIfAny(a.input_backprop, shapes_.input, arena)),
        d_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        d_c_(staging_.Buffer(shapes_.cell_state, arena)),
        d_weights_(a.config, a.weights_backprop, arena),
        peepholes_(a.weights.peepholes, {1, 1, a.config.num_units}, arena),
        d_peepholes_(a.weights_backprop.peepholes, {1, 1, a.config.num_units},
                     arena),
        d_activations_(a.activations_backprop, shapes_.output, arena),
        kept_(a.kept.are_activations()
                  ? arena.Take<C>(LayerKeptSize(a.config, a.size))
                  : nullptr),
        dropped_(arena.Take<C>(dropout_.drops() ? shapes_.output.size() : 0)),
        d_inner_(arena.Take<C>(shapes_.output.size() *
                               Min(a.config.num_layers - 1, 2))),
        scratch_(a.config, a.size, a.weights, /*dot_weights=*/{},
                 a.weights_backprop, num_threads, arena) {}

  void Run(Executor& executor) const {
    if (HasNoState(a_.config, a_.size)) {
      FillZeroIfWanted(a_.input_backprop, shapes_.input, executor);
      d_weights_.WriteZeros(executor);
      for (T* const peephole : a_.weights_backprop.peepholes.arrays) {
        FillZeroIfWanted(peephole, {1, 1, a_.config.num_units}, executor);
      }
      return;
    }
    Compute(executor);
  }

 private:
  using LayerArguments = LayerBackwardArguments<P, 1>;

  void Compute(Executor& executor) const {
    samples_.Sort();
    LayerArguments layer{
        a_.config,
        a_.size,
        samples_.lengths(),
        0,
        {weights_.Read(executor)},
        {ReadInput(executor)},
        {{{staging_.Read(a_.input_h, input_h_, shapes_.hidden_state, executor),
           staging_.Read(a_.input_c, input_c_, shapes_.cell_state, executor),
           staging_.Read(a_.output, output_, shapes_.output, executor),
           KeptActivations<const C>(nullptr, a_.config, a_.size,
                                    kKeepsFinitePairs<T>)}}},
        {{{staging_.Read(a_.output_backprop, d_output_, shapes_.output,
                         executor),
           staging_.Target(a_.input_backprop, d_input_),
           staging_.Target(a_.input_h_backprop, d_h_),
           staging_.Target(a_.input_c_backprop, d_c_)}}},
        d_weights_.Target(),
        peepholes_.Read(executor),
        d_activations_.Read(executor),
        d_peepholes_.Target()};
    if (kept_ != nullptr) ReadActivations(executor);
    // The layers read and update the state gradients in place.
    std::copy_n(staging_.Read(a_.output_h_backprop, d_output_h_,
                              shapes_.hidden_state, executor),
                shapes_.hidden_state.size().value(), layer.gradients[kValue].h);
    std::copy_n(staging_.Read(a_.output_c_backprop, d_output_c_,
                              shapes_.cell_state, executor),
                shapes_.cell_state.size().value(), layer.gradients[kValue].c);
    RunLayers(layer, executor);
    staging_.Write(d_input_, a_.input_backprop, shapes_.input, executor);
    staging_.Write(d_h_, a_.input_h_backprop, shapes_.hidden_state, executor);
    staging_.Write(d_c_, a_.input_c_backprop, shapes_.cell_state, executor);
    d_weights_.Write(executor);
    d_peepholes_.Write(executor);
  }

  void ReadActivations(Executor& executor) const {
    KeptActivations<C>(kept_, a_.config, a_.size, /*are_pairs=*/false)
        .ForEachRun(executor,
                    [&](C* to, std::int64_t offset, std::int64_t count) {
                      for (const T* const array : a_.kept.activations.arrays) {
                        Convert(array + offset, to, count);
                        to += count;
                      }
                    });
  }

  // Whether products read the input after the end of a sequence, where they
  // multiply it by zero gradients of the gates.
  bool ReadsPadding() const {
    return a_.sequence_lengths != nullptr && !a_.config.skip_input;
  }

  // The input, with zeros after the end of each sequence, where the caller's
  // values may be NaN or infinity.
  const C* ReadInput(Executor& executor) const {
    const C* input = staging_.Read(a_.input, input_, shapes_.input, executor);
    if (!ReadsPadding()) return input;
    C* const valid_input =
        staging_.IsCopied(shapes_.input) ? input_ : valid_input_;
    CopyValidSteps(input, valid_input, shapes_.input, samples_.lengths(),
                   executor);
    return valid_input;
  }

  // `network` holds the arrays of the whole network.
  void RunLayers(const LayerArguments& network, Executor& executor) const {
    const std::int64_t hidden_size =
        shapes_.hidden_state.size().value() / a_.config.num_layers;
    const std::int64_t cell_size =
        shapes_.cell_state.size().value() / a_.config.num_layers;
    const std::int64_t output_size = shapes_.output.size().value();
    const ReservedArrays<const C> activations(a_.kept, a_.config, a_.size);
    LayerArguments layer = network;
    LayerStateArrays<C>& states = layer.states[kValue];
    LayerGradientArrays<C>& gradients = layer.gradients[kValue];
    for (std::int64_t i = a_.config.num_layers - 1; i >= 0; --i) {
      layer.layer = i;
      states.input_h = network.states[kValue].input_h + i * hidden_size;
      states.input_c = network.states[kValue].input_c + i * cell_size;
      gradients.h = network.gradients[kValue].h + i * hidden_size;
      gradients.c = network.gradients[kValue].c + i * cell_size;
      const C* const kept =
          kept_ != nullptr ? kept_
                           : activations.kept +
                                 i * LayerKeptSize(a_.config, a_.size).value();
      states.kept = KeptActivations<const C>(
          kept, a_.config, a_.size, kept_ == nullptr && kKeepsFinitePairs<T>);
      if (i < NumKeptOutputs<T>(a_.config)) {
        states.output = activations.outputs + i * output_size;
      }
      if (i < a_.config.num_layers - 1) {
        gradients.output = gradients.input;  // of the layer above
      }
      if (i == 0) {
        layer.input = network.input;
        gradients.input = network.gradients[kValue].input;
      } else {
        layer.input[kValue] = dropout_.Apply(
            activations.outputs + (i - 1) * output_size, dropped_, i, executor);
        gradients.input = d_inner_ + (i - 1) % 2 * output_size;
      }
      WithCell<C>(a_.config, [&](auto cell) {
        LayerBackward<P, decltype(cell), 1>(layer, scratch_, executor).Run();
      });
      if (i > 0) dropout_.Apply(gradients.input, gradients.input, i, executor);
    }
  }

  const NetworkBackward<T>& a_;
  const NetworkShapes shapes_;
  const Samples samples_;
  const Staging<T> staging_;
  const LayerDropout<T> dropout_;
  C* const input_;
  C* const input_h_;
  C* const input_c_;
  const WeightsStaging<const T, P> weights_;
  C* const output_;
  C* const valid_input_;
  C* const d_output_;
  C* const d_output_h_;
  C* const d_output_c_;
  C* const d_input_;
  C* const d_h_;
  C* const d_c_;
  const WeightsStaging<T, C> d_weights_;
  const ArraysStaging<Peepholes, const T> peepholes_;
  const ArraysStaging<Peepholes, T> d_peepholes_;
  const ArraysStaging<LstmActivations, const T> d_activations_;
  C* const kept_;     // the activations of block_lstm, or null
  C* const dropped_;  // [S, B, D * O]
  C* const d_inner_;  // gradients of the inputs of two inner layers
  const LayerBackwardScratch<P, 1> scratch_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_BACKWARD_H_
