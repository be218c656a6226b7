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

// T: the type of the arrays. P: the type of params and product operands.
template <typename T, typename P = OperandType<T>,
          typename Products = PlainProducts<P>>
class ForwardPass {
 public:
  using C = ComputeType<T>;

  ForwardPass(const NetworkForward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        shapes_(a.config, a.size, a.step_order),
        activations_(a.kept, a.config, a.size),
        plan_(Products::kAreQuantized
                  ? ForwardPlan{false, false}
                  : PlanForward<P>(a.config, a.size, a.weights.is_keras(),
                                   a.has_constant_weights)),
        samples_(a.sequence_lengths, a.size,
                 IsWorthSorting(a.sequence_lengths, a.config, a.size,
                                a.is_training()),
                 arena),
        staging_(a.time_major, samples_.order()),
        operand_staging_(a.time_major, samples_.order()),
        input_(operand_staging_.Buffer(shapes_.input, arena)),
        input_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        input_c_(staging_.Buffer(shapes_.cell_state, arena)),
        weights_(a.config, a.weights, arena),
        output_staging_(a.time_major, samples_.order()),
        output_(output_staging_.BufferIfAny(a.output, shapes_.output, arena)),
        output_h_(staging_.Buffer(shapes_.hidden_state, arena)),
        output_c_(staging_.Buffer(shapes_.cell_state, arena)),
        peepholes_(a.weights.peepholes, {1, 1, a.config.num_units}, arena),
        kept_(KeepsActivations()
                  ? arena.Take<C>(LayerKeptSize(a.config, a.size))
                  : nullptr),
        dropped_(arena.Take<C>(AppliesDropout() ? shapes_.output.size() : 0)),
        inner_outputs_(
            arena.Take<C>(shapes_.output.size() * NumInnerOutputs())),
        inner_inputs_(arena.Take<P>(
            shapes_.output.size() *
            (kRoundsOperands<P> ? Min(a.config.num_layers - 1, 2) : 0))),
        scratch_(a.config, a.size, plan_, a.weights, num_threads, arena) {}

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
          a_.stream, a_.kept.data, samples_.are_sorted());
    }
  }

 private:
  void Compute(Executor& executor) const {
    samples_.Sort();
    LayerForwardArguments<P, Products> layer{
        a_.config,
        a_.size,
        samples_.lengths(),
        0,
        weights_.Read(executor),
        nullptr,
        operand_staging_.Read(a_.input, input_, shapes_.input, executor),
        staging_.Read(a_.input_h, input_h_, shapes_.hidden_state, executor),
        staging_.Read(a_.input_c, input_c_, shapes_.cell_state, executor),
        nullptr,
        nullptr,
        staging_.Target(a_.output_h, output_h_),
        staging_.Target(a_.output_c, output_c_),
        KeptActivations<C>(kept_, a_.config, a_.size, /*are_pairs=*/false),
        peepholes_.Read(executor)};
    RunLayers(layer, executor);
    WriteOutput(executor);
    if (kept_ != nullptr) WriteActivations(layer.kept, executor);
    FinishReserveSpace(executor);
    staging_.Write(output_h_, a_.output_h, shapes_.hidden_state, executor);
    staging_.Write(output_c_, a_.output_c, shapes_.cell_state, executor);
  }

  bool KeepsActivations() const {
    const auto& arrays = a_.kept.activations.arrays;
    return std::any_of(std::begin(arrays), std::end(arrays),
                       [](const T* array) { return array != nullptr; });
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

  bool AppliesDropout() const {
    return a_.is_training() && a_.dropout > 0 && a_.config.num_layers > 1;
  }
  // Number of outputs of inner layers kept here. Training keeps all of them in
  // the reserve_space. Inference needs only the output of the layer below, or
  // only its rounded form.
  std::int64_t NumInnerOutputs() const {
    return a_.is_training() || kRoundsOperands<P>
               ? 0
               : Min(a_.config.num_layers - 1, 2);
  }

  // `layer` holds the arguments of the first layer, except its output.
  void RunLayers(LayerForwardArguments<P, Products> layer,
                 Executor& executor) const {
    const std::int64_t hidden_size =
        shapes_.hidden_state.size().value() / a_.config.num_layers;
    const std::int64_t cell_size =
        shapes_.cell_state.size().value() / a_.config.num_layers;
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
            activations_.kept +
                layer.layer * LayerKeptSize(a_.config, a_.size).value(),
            a_.config, a_.size, kKeepsFinitePairs<T>);
      }
      WithCell<C>(a_.config, [&](auto cell) {
        LayerForward<P, decltype(cell), Products>(layer, plan_, scratch_,
                                                  executor)
            .Run();
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

  // What the last layer writes: its rounded output if the caller's array has no
  // more bits.
  static constexpr bool kWritesRounded =
      kRoundsOperands<P> && sizeof(T) == sizeof(P);
  using Output = std::conditional_t<kWritesRounded, P, C>;

  // Null if only the rounded output is needed.
  C* LayerOutput(std::int64_t layer) const {
    const std::int64_t size = shapes_.output.size().value();
    if (a_.is_training() && layer < NumKeptOutputs<T>(a_.config)) {
      return activations_.outputs + layer * size;
    }
    if constexpr (!kWritesRounded) {
      if (IsLast(layer)) return output_staging_.Target(a_.output, output_);
    }
    return kRoundsOperands<P> ? nullptr : inner_outputs_ + layer % 2 * size;
  }
  // Null if nothing is rounded.
  P* RoundedOutput(std::int64_t layer) const {
    if (!kRoundsOperands<P>) return nullptr;
    if (!IsLast(layer)) return InnerInput(layer);
    if constexpr (kWritesRounded) {
      return output_staging_.Target(a_.output, output_);
    }
    return nullptr;
  }
  // The rounded output of a layer, the input of the layer above.
  P* InnerInput(std::int64_t layer) const {
    return inner_inputs_ + layer % 2 * shapes_.output.size().value();
  }

  void WriteOutput(Executor& executor) const {
    if constexpr (kWritesRounded) {
      output_staging_.Write(output_, a_.output, shapes_.output, executor);
    } else {
      staging_.Write(LayerOutput(a_.config.num_layers - 1), a_.output,
                     shapes_.output, executor);
    }
  }

  // Converts the outputs in the reserve_space, which the pass no longer reads.
  // The cells have converted what else they keep, and if P has fewer bits, also
  // the outputs.
  void FinishReserveSpace(Executor& executor) const {
    if constexpr (kKeepsFinitePairs<T> && !kRoundsOperands<P>) {
      if (!a_.is_training()) return;
      ToFinitePairs(
          activations_.outputs,
          NumKeptOutputs<T>(a_.config) * shapes_.output.size().value(),
          executor);
    }
  }

  // The input of the layer above.
  const P* NextInput(const LayerForwardArguments<P, Products>& layer,
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

  const NetworkForward<T>& a_;
  const NetworkShapes shapes_;
  const ReservedArrays<C> activations_;
  const ForwardPlan plan_;
  const Samples samples_;
  const Staging<T> staging_;
  const Staging<T, P> operand_staging_;
  P* const input_;
  C* const input_h_;
  C* const input_c_;
  const WeightsStaging<const T, P> weights_;
  const Staging<T, Output> output_staging_;
  Output* const output_;
  C* const output_h_;
  C* const output_c_;
  const ArraysStaging<Peepholes, const T> peepholes_;
  C* const kept_;
  C* const dropped_;        // [S, B, D * O]
  C* const inner_outputs_;  // [NumInnerOutputs(), S, B, D * O]
  P* const inner_inputs_;   // [2 or fewer, S, B, D * O], if P has fewer bits
  const LayerForwardScratch<P, Products> scratch_;
};

// Packs the weights of all layers.
template <typename T, typename P = OperandType<T>,
          typename Products = PlainProducts<P>>
class WeightPackingPass {
 public:
  using Packed = typename Products::Packed;

  WeightPackingPass(const WeightPacking<T>& a, int /*num_threads*/,
                    Arena& arena)
      : a_(a), weights_(a.config, a.weights, arena) {}

  void Run(Executor& executor) const {
    if (a_.config.num_units == 0) return;
    const Weights<const P> weights = weights_.Read(executor);
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
  const WeightsStaging<const T, P> weights_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_FORWARD_H_
