// Shared by the passes over a whole network: staging of arrays, sample order,
// dropout, and the functions of NetworkKernels that run a pass.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_PASS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_PASS_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "cc/rnn/arena.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/sample_order.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/network/dropout.h"
#include "cc/rnn/simd/vector/convert.h"
#include "cc/rnn/simd/vector/staging.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The operand type of products of values stored as T: T itself if the CPU
// supports such products, otherwise the compute type.
template <typename T>
struct OperandTypeOf {
  using Type = ComputeType<T>;
};
#if defined(__AVX512BF16__)
template <>
struct OperandTypeOf<BFloat16> {
  using Type = BFloat16;
};
#endif
template <typename T>
using OperandType = typename OperandTypeOf<T>::Type;

// The shapes of a network's arrays, except matrices.
struct NetworkShapes {
  NetworkShapes(const RnnConfig& config, const RnnSize& size,
                const StepOrder& order)
      : input{size.time, size.batch, config.input_size, order.steps,
              order.is_input_reversed},
        output{size.time, size.batch,
               config.num_directions * config.output_size(), order.steps},
        hidden_state{config.num_pseudo_layers(), size.batch,
                     config.output_size()},
        cell_state{config.num_pseudo_layers(), size.batch,
                   config.has_cell_state() ? config.num_units : 0},
        peephole{1, 1, config.num_units},
        input_mask{1, size.batch, config.input_size},
        state_mask{1, size.batch, config.num_units},
        num_layers(config.num_layers) {
    if (config.input_dropout == GateDropout::kMasksOfSteps) input_mask = input;
    if (config.state_dropout == GateDropout::kMasksOfSteps) state_mask = output;
  }

  // Of a layer's states and output; requires B > 0 and U > 0.
  std::int64_t hidden_size() const {
    return hidden_state.size().value() / num_layers;
  }
  std::int64_t cell_size() const {
    return cell_state.size().value() / num_layers;
  }
  std::int64_t output_size() const { return output.size().value(); }

  StagedShape input;
  StagedShape output;
  StagedShape hidden_state;
  StagedShape cell_state;
  StagedShape peephole;
  StagedShape input_mask;
  StagedShape state_mask;
  std::int64_t num_layers;
};

// A caller's weights, or their gradients, in the network's type. Without
// peepholes, which cells read in their own type, and packed weights.
// T: the caller's type, const for weights that are read; weights may be wide.
// C: the network's type.
template <typename T, typename C>
class StagedWeights {
 public:
  StagedWeights(const RnnConfig& config, const Weights<T>& callers,
                Arena& arena)
      : callers_(callers),
        shapes_{
            {1, 1, callers.params == nullptr ? 0 : CudnnRnnParamsSize(config)},
            {config.num_gates(), config.num_units, config.input_size},
            {config.num_gates(), config.num_units, config.num_units},
            {config.num_gates(), config.num_units, KerasBiasRows(config.mode)}},
        arrays_(callers.is_wide ? Weights<T>() : callers, shapes_, arena),
        wide_arrays_(callers.is_wide ? callers : Weights<T>(), shapes_, arena) {
  }
  // Arrays refer to shapes.
  StagedWeights(const StagedWeights&) = delete;

  Weights<const C> Read(Executor& executor) const {
    return Of<const C>([&](const auto& array) { return array.Read(executor); });
  }
  // Where to write gradients.
  Weights<C> Target() const {
    return Of<C>([](const auto& array) { return array.Target(); });
  }
  // Copies what was written to Target() to the caller's gradients.
  void Write(Executor& executor) const {
    ForEach([&](const auto& array) { array.Write(executor); });
  }
  void WriteZeros(Executor& executor) const {
    ForEach([&](const auto& array) { array.WriteZeros(executor); });
  }

 private:
  // The arrays of weights of type W.
  template <typename W>
  struct Arrays {
    Arrays(const Weights<T>& callers, const StagedShape* shapes, Arena& arena)
        : all{{reinterpret_cast<W*>(callers.params), &shapes[0],
               &kNetworksLayout, arena},
              {reinterpret_cast<W*>(callers.kernel), &shapes[1],
               &kNetworksLayout, arena},
              {reinterpret_cast<W*>(callers.recurrent_kernel), &shapes[2],
               &kNetworksLayout, arena},
              {reinterpret_cast<W*>(callers.bias), &shapes[3], &kNetworksLayout,
               arena}} {}

    const StagedArray<W, C> all[4];
  };

  template <typename Body>
  void ForEach(const Body& body) const {
    for (const auto& array : arrays_.all) body(array);
    for (const auto& array : wide_arrays_.all) body(array);
  }

  template <typename E, typename Get>
  Weights<E> Of(const Get& get) const {
    const auto of = [&](int i) {
      return callers_.is_wide ? get(wide_arrays_.all[i]) : get(arrays_.all[i]);
    };
    Weights<E> weights;
    weights.layout = callers_.layout;
    weights.params = of(0);
    weights.kernel = of(1);
    weights.recurrent_kernel = of(2);
    weights.bias = of(3);
    weights.has_new_cell_second = callers_.has_new_cell_second;
    return weights;
  }

  const Weights<T> callers_;
  const StagedShape shapes_[4];
  // One of these is empty.
  const Arrays<T> arrays_;
  const Arrays<typename Weights<T>::Wide> wide_arrays_;
};

// Whether the state is empty, so there is nothing to compute. The other sizes
// are then unchecked, and their products may overflow.
inline bool HasNoState(const RnnConfig& config, const RnnSize& size) {
  return size.batch == 0 || config.num_units == 0;
}

// The samples of a batch: their lengths and the order in which the network
// processes them.
class Samples {
 public:
  // lengths: [batch], or null if all are `time`.
  // are_sorted: whether samples are processed by decreasing length; requires
  // lengths.
  Samples(const std::int32_t* lengths, const RnnSize& size, bool are_sorted,
          Arena& arena)
      : size_(size),
        callers_lengths_(lengths),
        are_sorted_(are_sorted),
        order_(arena.Take<std::int64_t>(are_sorted_ ? size.batch : 0)),
        sorted_lengths_(
            arena.Take<std::int32_t>(are_sorted_ ? size.batch : 0)) {
    assert(lengths != nullptr || !are_sorted);
  }

  // Call before `order` and `lengths`.
  void Sort() const {
    if (!are_sorted_) return;
    SortSamples(callers_lengths_, size_.batch, order_);
    for (std::int64_t i = 0; i < size_.batch; ++i) {
      sorted_lengths_[i] = callers_lengths_[order_[i]];
    }
  }

  bool are_sorted() const { return are_sorted_; }
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

// A caller's masks of each gate, side by side in the network's type.
template <typename T>
class StagedMasks {
 public:
  using C = ComputeType<T>;

  // gates: their number, or 0 if there are no masks. shape: of the masks of one
  // gate. shape, layout: see StagedArray.
  StagedMasks(std::int64_t gates, const T* const* callers,
              const StagedShape* shape, const CallersLayout* layout,
              Arena& arena)
      : gates_(gates),
        callers_(callers),
        shape_(shape),
        layout_(layout),
        masks_(arena.Take<C>(gates_ * shape->size())) {}

  // The masks of all gates, or null if there are none.
  const C* Read(Executor& executor) const {
    for (std::int64_t gate = 0; gate < gates_; ++gate) {
      StagedArray<const T>(callers_[gate], shape_, layout_)
          .ReadTo(masks_ + gate * shape_->size().value(), executor);
    }
    return gates_ > 0 ? masks_ : nullptr;
  }

 private:
  const std::int64_t gates_;
  const T* const* const callers_;  // [gates]
  const StagedShape* shape_;
  const CallersLayout* layout_;
  C* const masks_;
};

// The memory that all passes need: copies of the caller's inputs, except
// `input`, where the network needs another form.
// P: the type of params and product operands.
template <typename T, typename P>
struct PassMemory {
  PassMemory(const NetworkPass<T>& a, bool are_samples_sorted, Arena& arena)
      : shapes(a.config, a.size, a.step_order),
        samples(a.sequence_lengths, a.size, are_samples_sorted, arena),
        layout{a.time_major, samples.order()},
        input_h(a.input_h, &shapes.hidden_state, &layout, arena, kIsNeeded),
        input_c(a.input_c, &shapes.cell_state, &layout, arena, kIsNeeded),
        weights(a.config, a.weights, arena),
        peepholes(a.weights.peepholes, &shapes.peephole, &kNetworksLayout,
                  arena),
        input_masks(a.config.drops_input() ? a.config.num_gates() : 0,
                    a.input_masks, &shapes.input_mask, &layout, arena),
        state_masks(a.config.drops_state() ? a.config.num_gates() : 0,
                    a.state_masks, &shapes.state_mask, &layout, arena) {}
  // Members refer to others.
  PassMemory(const PassMemory&) = delete;

  const NetworkShapes shapes;
  const Samples samples;
  const CallersLayout layout;
  const StagedArray<const T> input_h;
  const StagedArray<const T> input_c;
  const StagedWeights<const T, P> weights;
  const StagedArrays<Peepholes, const T> peepholes;
  const StagedMasks<T> input_masks;
  const StagedMasks<T> state_masks;
};

// Copies the steps of a sequence, with zeros after the end of each sequence,
// where values may be NaN or infinity. `from` and `to` may be the same array.
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

// An input of the network that products of the backward pass read.
template <typename T>
class ValidInput {
 public:
  using C = ComputeType<T>;

  // a: the pass. input: may be null. shape, layout: see StagedArray.
  ValidInput(const NetworkPass<T>& a, const T* input, const StagedShape* shape,
             const CallersLayout* layout, Arena& arena)
      : input_(input, shape, layout, arena),
        shape_(shape),
        has_padding_(input != nullptr && a.sequence_lengths != nullptr &&
                     !a.config.skip_input),
        valid_(has_padding_ && !input_.IsCopied() ? arena.Take<C>(shape->size())
                                                  : input_.copy()) {}

  // The input, with zeros after the end of each sequence: products multiply it
  // by zero gradients of the gates, and the caller's values may be NaN or
  // infinity. Null if the caller's is null.
  const C* Read(const SequenceLengths& lengths, Executor& executor) const {
    const C* const input = input_.Read(executor);
    if (!has_padding_) return input;
    CopyValidSteps(input, valid_, *shape_, lengths, executor);
    return valid_;
  }

 private:
  const StagedArray<const T> input_;
  const StagedShape* const shape_;
  const bool has_padding_;
  C* const valid_;
};

// Whether a forward pass sorted its samples. `header` may be null when only
// counting the workspace of a pass with unsorted samples.
inline bool LeftSorted(const ReserveSpaceHeader* header) {
  return header != nullptr && ReserveSpaceIsSorted(*header);
}

// to = from ∘ mask. The mask of a sample does not depend on the order of the
// samples.
template <typename C>
void ApplyDropout(const C* from, C* to, const StagedShape& shape,
                  const SampleOrder& order, const DropoutMask& mask,
                  Executor& executor) {
  ForEachRun(shape, /*time_major=*/true, order, executor,
             [&](auto ours, auto theirs, auto length) {
               mask.Apply(from + ours, to + ours, theirs, length);
             });
}

// Applies the dropout masks of a forward pass again.
template <typename T>
class LayerDropout {
 public:
  using C = ComputeType<T>;

  // output: the shape of a layer's output.
  LayerDropout(const RnnConfig& config, const RnnSize& size, float dropout,
               const ReserveSpaceHeader* header, const StagedShape& output,
               const SampleOrder& order)
      : config_(config),
        size_(size),
        dropout_(config.num_layers > 1 ? dropout : 0),
        header_(header),
        shape_(output),
        order_(order) {}

  bool drops() const { return dropout_ > 0; }

  // Returns from ∘ mask, where mask belongs to the input of a layer above the
  // first, written to `to`; returns `from` if there is no dropout.
  const C* Apply(const C* from, C* to, std::int64_t layer,
                 Executor& executor) const {
    if (!drops()) return from;
    const DropoutMask mask(
        dropout_, ReserveSpaceStream(*header_),
        (layer - 1) * NumLayerDropoutSamples(config_, size_));
    ApplyDropout<C>(from, to, shape_, order_, mask, executor);
    return to;
  }

 private:
  RnnConfig config_;
  RnnSize size_;
  float dropout_;
  const ReserveSpaceHeader* header_;
  StagedShape shape_;
  SampleOrder order_;
};

// The contents of a reserve_space after its header.
template <typename C>
struct ReservedArrays {
  C* kept;     // [P / D] KeptActivations, one for each layer
  C* outputs;  // [NumKeptOutputs, S, B, D * O]

  template <typename T>
  ReservedArrays(const Kept<T>& from, const RnnConfig& config,
                 const RnnSize& size)
      : kept(nullptr), outputs(nullptr) {
    if (from.data == nullptr) return;
    kept =
        reinterpret_cast<C*>(from.data + kReserveSpaceHeaderBytes / sizeof(T));
    outputs = kept + config.num_layers * LayerKeptSize(config, size).value();
  }
};

// Whether there is nothing to compute.
template <typename Arguments>
bool IsEmpty(const Arguments& arguments) {
  return HasNoState(arguments.config, arguments.size);
}
template <typename T>
bool IsEmpty(const WeightPacking<T>& arguments) {
  return arguments.config.num_units == 0;
}

// The bytes of scratch memory that a pass needs.
// Pass: a class with a type Memory, which takes arrays from an arena, and
//   Pass(const Arguments&, const Memory&);
//   void Run(Executor&) const;
template <typename Pass, typename Arguments>
std::int64_t Workspace(const Arguments& arguments, int num_threads) {
  if (IsEmpty(arguments)) return 0;
  Arena arena(nullptr);
  typename Pass::Memory(arguments, num_threads, arena);
  return arena.used();
}

template <typename Pass, typename Arguments>
void Run(const Arguments& arguments, Executor& executor) {
  Arena arena(arguments.workspace);
  const typename Pass::Memory memory(arguments, executor.num_threads(), arena);
  assert(IsEmpty(arguments) ||
         arena.used() == Workspace<Pass>(arguments, executor.num_threads()));
  Pass(arguments, memory).Run(executor);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_NETWORK_PASS_H_
