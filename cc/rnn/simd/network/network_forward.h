// The forward pass of a whole network over a sequence.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_FORWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_FORWARD_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/sample_order.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_forward.h"
#include "cc/rnn/simd/network/dropout.h"
#include "cc/rnn/simd/network/network_pass.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/finite_pair.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/staging.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The memory of a forward pass, taken from an arena array by array.
// T: the type of the arrays. P: the type of params and product operands.
template <typename T, typename P, typename Products>
struct ForwardMemory : PassMemory<T, P> {
  using C = ComputeType<T>;
  using PassMemory<T, P>::shapes;
  using PassMemory<T, P>::layout;

  // What the last layer writes: its rounded output if the caller's array has no
  // more bits.
  static constexpr bool kWritesRounded =
      kRoundsOperands<P> && sizeof(T) == sizeof(P);
  using Output = std::conditional_t<kWritesRounded, P, C>;

  ForwardMemory(const NetworkForward<T>& a, int num_threads, Arena& arena)
      : PassMemory<T, P>(a,
                         IsWorthSorting(a.sequence_lengths, a.config, a.size,
                                        a.is_training()),
                         arena),
        plan(Products::kAreQuantized
                 ? ForwardPlan{false, false}
                 : PlanForward<P>(a.config, a.size, a.weights.is_keras(),
                                  a.has_constant_weights)),
        drops(a.is_training() && a.dropout > 0 && a.config.num_layers > 1),
        input(a.input, &shapes.input, &layout, arena),
        output(a.output, &shapes.output, &layout, arena),
        output_h(a.output_h, &shapes.hidden_state, &layout, arena, kIsNeeded),
        output_c(a.output_c, &shapes.cell_state, &layout, arena, kIsNeeded),
        activations(KeepsActivations(a)
                        ? arena.Take<C>(LayerKeptSize(a.config, a.size))
                        : nullptr),
        dropped(arena.Take<C>(drops ? shapes.output.size() : 0)),
        inner_outputs(arena.Take<C>(
            shapes.output.size() *
            (a.is_training() || kRoundsOperands<P> ? 0 : Inner(a)))),
        inner_inputs(arena.Take<P>(shapes.output.size() *
                                   (kRoundsOperands<P> ? Inner(a) : 0))),
        layer(a.config, a.size, plan, a.weights, num_threads, arena) {}

  // How the layers multiply, and whether there is dropout.
  const ForwardPlan plan;
  const bool drops;

  const StagedArray<const T, P> input;
  const StagedArray<T, Output> output;
  const StagedArray<T> output_h;
  const StagedArray<T> output_c;
  C* const activations;  // KeptActivations of TensorFlow's LSTM ops, or null
  C* const dropped;      // [S, B, D * O]
  // The outputs of inner layers, [2 or fewer, S, B, D * O]. Training keeps all
  // of them in the reserve_space. Inference needs only the output of the layer
  // below: here, or its rounded form if P has fewer bits.
  C* const inner_outputs;
  P* const inner_inputs;
  const LayerForwardScratch<P, Products> layer;

 private:
  static bool KeepsActivations(const NetworkForward<T>& a) {
    const auto& arrays = a.kept.activations.arrays;
    return std::any_of(std::begin(arrays), std::end(arrays),
                       [](const T* array) { return array != nullptr; });
  }
  static std::int64_t Inner(const NetworkForward<T>& a) {
    return Min(a.config.num_layers - 1, 2);
  }
};

// See ForwardMemory.
template <typename T, typename P = OperandType<T>,
          typename Products = PlainProducts<P>>
class ForwardPass {
 public:
  using C = ComputeType<T>;
  using Memory = ForwardMemory<T, P, Products>;

  ForwardPass(const NetworkForward<T>& a, const Memory& memory)
      : a_(a), memory_(memory), reserved_(a.kept, a.config, a.size) {}

  // The estimated time on one thread if the weights are packed, without cells.
  static double MicrosecondsIfPacked(const NetworkForward<T>& a) {
    const double cols = static_cast<double>(a.config.num_directions) *
                        static_cast<double>(a.config.num_gates()) *
                        static_cast<double>(a.config.num_units);
    const double states = static_cast<double>(a.config.output_size());
    // Layers above the first are alike.
    const double inner = static_cast<double>(a.config.num_layers - 1);
    const double fan_in = static_cast<double>(a.config.fan_in(0)) +
                          inner * static_cast<double>(a.config.fan_in(1));
    const double products =
        cols * (fan_in * Products::kInputProducts + (inner + 1) * states);
    const double bytes =
        cols * (fan_in * Products::kInputDigits + (inner + 1) * states) *
        Products::kWeightBytes;
    // Per microsecond. A second-level cache may hold the weights.
    constexpr double kWork = 1e5 * Products::kSpeed;  // multiply-adds
    const double bytes_read = bytes < kSecondLevelBytes ? 2e5 : 5e4;
    return static_cast<double>(a.size.time) *
           (static_cast<double>(a.size.batch) * products / kWork +
            bytes / bytes_read);
  }

  void Run(Executor& executor) const {
    if (!HasNoState(a_.config, a_.size)) Compute(executor);
    if (a_.is_training()) {
      WriteReserveSpaceHeader<T>(
          {a_.config, a_.size, a_.time_major, a_.sequence_lengths, a_.dropout,
           Device::kCpu, /*variant=*/0, a_.step_order},
          a_.stream, a_.kept.data, memory_.samples.are_sorted());
    }
  }

 private:
  using LayerArguments = LayerForwardArguments<P, Products>;

  static constexpr bool kWritesRounded = Memory::kWritesRounded;

  void Compute(Executor& executor) const {
    memory_.samples.Sort();
    LayerArguments layer;  // the first
    layer.config = a_.config;
    layer.size = a_.size;
    layer.lengths = memory_.samples.lengths();
    layer.weights = memory_.weights.Read(executor);
    layer.peepholes = memory_.peepholes.Read(executor);
    layer.input_masks = memory_.input_masks.Read(executor);
    layer.state_masks = memory_.state_masks.Read(executor);
    layer.input = memory_.input.Read(executor);
    layer.input_h = memory_.input_h.Read(executor);
    layer.input_c = memory_.input_c.Read(executor);
    layer.output_h = memory_.output_h.Target();
    layer.output_c = memory_.output_c.Target();
    layer.kept = KeptActivations<C>(memory_.activations, a_.config, a_.size,
                                    /*are_pairs=*/false);
    RunLayers(layer, executor);
    WriteOutput(executor);
    if (memory_.activations != nullptr) WriteActivations(layer.kept, executor);
    FinishReserveSpace(executor);
    memory_.output_h.Write(executor);
    memory_.output_c.Write(executor);
  }

  void WriteActivations(const KeptActivations<C>& kept,
                        Executor& executor) const {
    kept.ForEachRun(
        executor, [&](const C* from, std::int64_t offset, std::int64_t count) {
          for (T* const array : a_.kept.activations.arrays) {
            if (array != nullptr) Convert(from, array + offset, count);
            from += count;
          }
        });
  }

  // `layer` holds the arguments of the first layer, except its output.
  void RunLayers(LayerArguments layer, Executor& executor) const {
    const NetworkShapes& shapes = memory_.shapes;
    Arena packed_weights(const_cast<void*>(a_.weights.packed));
    for (; layer.layer < a_.config.num_layers; ++layer.layer) {
      typename Products::Packed packed;
      if (a_.weights.is_packed()) {
        packed =
            typename Products::Packed(a_.config, layer.layer, packed_weights);
        layer.packed = &packed;
      }
      layer.output = LayerOutput(layer.layer);
      layer.rounded_output = RoundedOutput(layer.layer);
      if (a_.is_training()) {
        layer.kept = KeptActivations<C>(
            reserved_.kept +
                layer.layer * LayerKeptSize(a_.config, a_.size).value(),
            a_.config, a_.size, kKeepsFinitePairs<T>);
      }
      WithCell<C>(a_.config, [&](auto cell) {
        LayerForward<P, decltype(cell), Products>(layer, memory_.plan,
                                                  memory_.layer, executor)
            .Run();
      });
      layer.input = NextInput(layer, executor);
      layer.input_h += shapes.hidden_size();
      layer.output_h += shapes.hidden_size();
      layer.input_c += shapes.cell_size();
      layer.output_c += shapes.cell_size();
    }
  }

  bool IsLast(std::int64_t layer) const {
    return layer == a_.config.num_layers - 1;
  }

  // Null if only the rounded output is needed.
  C* LayerOutput(std::int64_t layer) const {
    const std::int64_t size = memory_.shapes.output_size();
    if (a_.is_training() && layer < NumKeptOutputs<T>(a_.config)) {
      return reserved_.outputs + layer * size;
    }
    if constexpr (!kWritesRounded) {
      if (IsLast(layer)) return memory_.output.Target();
    }
    return kRoundsOperands<P> ? nullptr
                              : memory_.inner_outputs + layer % 2 * size;
  }
  // Null if nothing is rounded.
  P* RoundedOutput(std::int64_t layer) const {
    if (!kRoundsOperands<P>) return nullptr;
    if (!IsLast(layer)) return InnerInput(layer);
    if constexpr (kWritesRounded) return memory_.output.Target();
    return nullptr;
  }
  // The rounded output of a layer, the input of the layer above.
  P* InnerInput(std::int64_t layer) const {
    return memory_.inner_inputs + layer % 2 * memory_.shapes.output_size();
  }

  void WriteOutput(Executor& executor) const {
    if constexpr (kWritesRounded) {
      memory_.output.Write(executor);
    } else {
      memory_.output.WriteFrom(LayerOutput(a_.config.num_layers - 1), executor);
    }
  }

  // Converts the outputs in the reserve_space, which the pass no longer reads.
  // The cells have converted what else they keep, and if P has fewer bits, also
  // the outputs.
  void FinishReserveSpace(Executor& executor) const {
    if constexpr (kKeepsFinitePairs<T> && !kRoundsOperands<P>) {
      if (!a_.is_training()) return;
      ToFinitePairs(reserved_.outputs,
                    NumKeptOutputs<T>(a_.config) * memory_.shapes.output_size(),
                    executor);
    }
  }

  // The input of the layer above.
  const P* NextInput(const LayerArguments& layer, Executor& executor) const {
    const bool is_dropped = memory_.drops && !IsLast(layer.layer);
    if (is_dropped) {
      const DropoutMask mask(
          a_.dropout, a_.stream,
          layer.layer * NumLayerDropoutSamples(a_.config, a_.size));
      ApplyDropout<C>(layer.output, memory_.dropped, memory_.shapes.output,
                      memory_.samples.order(), mask, executor);
    }
    if constexpr (kRoundsOperands<P>) {
      if (!is_dropped) return layer.rounded_output;
      ParallelConvert(memory_.dropped, InnerInput(layer.layer),
                      memory_.shapes.output_size(), executor);
      return InnerInput(layer.layer);
    } else {
      return is_dropped ? memory_.dropped : layer.output;
    }
  }

  const NetworkForward<T>& a_;
  const Memory& memory_;
  const ReservedArrays<C> reserved_;
};

// Packs the weights of all layers.
template <typename T, typename P = OperandType<T>,
          typename Products = PlainProducts<P>>
class WeightPackingPass {
 public:
  using Packed = typename Products::Packed;
  struct Memory {
    Memory(const WeightPacking<T>& a, int /*num_threads*/, Arena& arena)
        : weights(a.config, a.weights, arena) {}

    const StagedWeights<const T, P> weights;
  };

  WeightPackingPass(const WeightPacking<T>& a, const Memory& memory)
      : a_(a), memory_(memory) {}

  void Run(Executor& executor) const {
    if (a_.config.num_units == 0) return;
    const Weights<const P> weights = memory_.weights.Read(executor);
    Arena packed_weights(a_.packed_weights);
    for (std::int64_t i = 0; i < a_.config.num_layers; ++i) {
      const LayerShape shape(a_.config, /*size=*/{}, i);
      const Packed packed(a_.config, i, packed_weights);
      WithCell<ComputeType<T>>(a_.config, [&](auto cell) {
        using Cell = decltype(cell);
        using CellWeights = typename Products::template WeightsOf<Cell>;
        CellWeights(a_.config, shape, weights, packed.weights).Pack(executor);
        PackBiases<Cell>(a_.config, shape, weights, packed);
      });
    }
  }

  static std::int64_t Bytes(const RnnConfig& config) {
    const auto bytes_of = [&config](std::int64_t layer) {
      Arena packed_weights(nullptr);
      Packed(config, layer, packed_weights);
      return packed_weights.used();
    };
    // Layers above the first are alike.
    const std::int64_t first = bytes_of(0);
    const std::int64_t inner = config.num_layers > 1 ? bytes_of(1) : 0;
    const CheckedInt sum =
        CheckedInt(config.num_layers - 1) * inner + CheckedInt(first);
    return first < 0 || inner < 0 || !sum.valid() ? -1 : sum.value();
  }

 private:
  const WeightPacking<T>& a_;
  const Memory& memory_;
};

// Runs a forward pass. With packed weights, it may be so short that
// waking threads takes longer than they save, which is at most half.
template <typename Forward, typename T>
void RunForward(const NetworkForward<T>& arguments, Executor& executor) {
  if (!arguments.weights.is_packed() ||
      Forward::MicrosecondsIfPacked(arguments) / 2 >= kMinWakeMicros) {
    Run<Forward>(arguments, executor);
  } else {
    SerialExecutor serial;
    Run<Forward>(arguments, serial);
  }
}

// Sets the functions of the forward pass.
// P, Products: see ForwardPass.
template <typename P, typename Products = PlainProducts<P>, typename T>
void SetForward(NetworkKernels<T>* kernels) {
  using Forward = ForwardPass<T, P, Products>;
  using Packing = WeightPackingPass<T, P, Products>;
  kernels->forward_workspace = &Workspace<Forward, NetworkForward<T>>;
  kernels->forward = &RunForward<Forward, T>;
  kernels->packed_weights_bytes = &Packing::Bytes;
  kernels->pack_weights_workspace = &Workspace<Packing, WeightPacking<T>>;
  kernels->pack_weights = &Run<Packing, WeightPacking<T>>;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_FORWARD_H_
