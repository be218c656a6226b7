// The forward pass of one layer over a sequence.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_FORWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_FORWARD_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/cells.h"
#include "cc/rnn/simd/cells/chosen_activation.h"
#include "cc/rnn/simd/layer/forward_steps.h"
#include "cc/rnn/simd/layer/gate_masks.h"
#include "cc/rnn/simd/layer/kept_activations.h"
#include "cc/rnn/simd/layer/layer_params.h"
#include "cc/rnn/simd/layer/layer_shape.h"
#include "cc/rnn/simd/layer/packed_weights.h"
#include "cc/rnn/simd/layer/step_tasks.h"
#include "cc/rnn/simd/layer/weight_formats.h"
#include "cc/rnn/simd/layer/weights_in_place.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pack.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/quantized_product.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/finite_pair.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes: see cc/rnn/network.h; F = fan_in of the layer, G = gates.
// P: the type of params and product operands. Products: see weight_formats.h.
template <typename P, typename Products>
struct LayerForwardArguments {  // with B > 0 and U > 0
  using T = ComputeType<P>;

  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer = 0;
  Weights<const P> weights;  // of the whole network
  // The same weights of this layer, or null if they are yet to be packed.
  const typename Products::Packed* packed = nullptr;
  const P* input = nullptr;    // [S, B, F]
  const T* input_h = nullptr;  // [D, B, O], of this layer
  const T* input_c = nullptr;  // [D, B, U]; LSTM only
  // [S, B, D * O], or null if not needed. If P has fewer bits and `kept` are
  // pairs, these are pairs, too.
  T* output = nullptr;
  P* rounded_output = nullptr;  // the output if P has fewer bits
  T* output_h = nullptr;        // [D, B, O]
  T* output_c = nullptr;        // [D, B, U]; LSTM only
  KeptActivations<T> kept;
  Peepholes<const T> peepholes{};  // in the type of the cells
  const T* input_masks = nullptr;  // see GateMasks
  const T* state_masks = nullptr;
};

// How a layer multiplies. The bits of the result depend on this, so it must not
// depend on the number of threads.
struct ForwardPlan {
  // Whether products read weights in place.
  bool reads_in_place;
  // Whether each step computes W x together with R h_prev, which needs no
  // memory for W x. Otherwise W x is computed for many steps at once.
  bool is_fused;
};

// Whether there are so few rows that packing weights takes longer than reading
// them in place.
// is_keras: see Weights.
template <typename P>
bool IsFasterInPlace(const RnnConfig& config, const RnnSize& size,
                     bool is_keras) {
  constexpr double kMost = sizeof(P) < 4 ? 36 : 48;
  constexpr double kRowsWorthReading = 8;  // cost of reading weights
  if (is_keras) {
    return !kRoundsOperands<P> && size.time <= (size.batch == 1 ? 4 : 2);
  }
  return !config.skip_input &&
         static_cast<double>(size.time) *
                 (static_cast<double>(size.batch) + kRowsWorthReading) <=
             kMost;
}

// Few rows do not keep the multipliers busy: even a full tile of rows takes
// less time than loading weights from beyond the second-level caches.
// has_constant_weights: whether weights are packed only once.
template <typename P>
ForwardPlan PlanForward(const RnnConfig& config, const RnnSize& size,
                        bool is_keras, bool has_constant_weights) {
  constexpr std::int64_t kLeastRows = 8;
  if (config.drops_input() || config.drops_state()) return {false, false};
  if (!has_constant_weights && IsFasterInPlace<P>(config, size, is_keras)) {
    return {true, true};
  }
  if (config.skip_input || config.has_finish()) return {false, false};
  if (has_constant_weights && size.time == 1) return {false, true};
  if (size.batch < kLeastRows) return {false, false};
  // The capacity of two threads' caches, excluding other data.
  constexpr double kMostBytes = 1.5 * kSecondLevelBytes;
  const double weights = static_cast<double>(config.num_gates()) *
                         static_cast<double>(config.num_units) *
                         (static_cast<double>(config.largest_fan_in()) +
                          static_cast<double>(config.output_size()));
  return {false,
          size.batch > kMaxTileRows || weights * sizeof(P) <= kMostBytes};
}

// Scratch memory for the quantized rows of the left operands.
struct QuantizedRowsScratch {
  // [D] TwoDigitLeft [StepsAtOnce * B, F]
  std::int8_t* input = nullptr;
  float* input_scales = nullptr;
  // [num_threads] QuantizedLeft [B, O]
  std::int8_t* state = nullptr;
  float* state_scales = nullptr;

  QuantizedRowsScratch() = default;
  QuantizedRowsScratch(const RnnConfig& config, const RnnSize& size,
                       int num_threads, Arena& arena) {
    const CheckedInt rows =
        CheckedInt(config.num_directions) * StepsAtOnce(size) * size.batch;
    const CheckedInt states = CheckedInt(num_threads) * size.batch;
    input = arena.Take<std::int8_t>(
        rows * TwoDigitLeft::Stride(config.largest_fan_in()));
    input_scales = arena.Take<float>(rows);
    state = arena.Take<std::int8_t>(
        states * QuantizedLeft::Stride(config.output_size()));
    state_scales = arena.Take<float>(states);
  }
};

// Scratch memory for any layer of the network.
template <typename P, typename Products>
struct LayerForwardScratch {
  using T = ComputeType<P>;
  using Left = MutableLeftMatrix<P>;
  using Packed = typename Products::Packed;

  Packed packed;  // if not packed before
  // [input copies, D] left operands [StepsAtOnce * B, F]; null if they are
  // quantized, or if cuDNN's weights are read in place
  P* input;
  KerasProductScratch<P> products;  // [num_threads], for Keras
  T* projected;  // [D, StepsAtOnce * B, panels of U, G * kTileCols], not fused
  // [D, B, O], if products read the states in another form
  T* hidden;
  // [D, B, U], if steps have second halves other than projections
  T* carried;
  ForwardStepsScratch<P> steps;
  QuantizedRowsScratch quantized;

  // weights: of the caller.
  template <typename E>
  LayerForwardScratch(const RnnConfig& config, const RnnSize& size,
                      const ForwardPlan& plan, const Weights<E>& weights,
                      int num_threads, Arena& arena)
      : packed(weights.is_packed() ? Packed()
                                   : Packed(config, config.largest_fan_in(),
                                            plan.reads_in_place, arena)),
        steps(config, size, /*parts=*/1, num_threads, arena) {
    const CheckedInt directions = config.num_directions;
    const std::int64_t panel_cols = PanelCols<T>(config);
    const CheckedInt rows = CheckedInt(StepsAtOnce(size)) * size.batch;
    input = arena.Take<P>(
        config.num_input_copies() * directions *
        Left::Size(Products::kAreQuantized ||
                           (plan.reads_in_place && !weights.is_keras())
                       ? CheckedInt(0)
                       : rows,
                   config.largest_fan_in()));
    const std::int64_t workers =
        plan.reads_in_place && weights.is_keras() ? num_threads : 0;
    products = {
        arena.Take<P>(workers * KerasProductScratch<P>::PackedSize(size)),
        arena.Take<T>(workers * KerasProductScratch<P>::BlockSize(size))};
    projected =
        arena.Take<T>(directions * panel_cols * (plan.is_fused ? 0 : rows));
    hidden = arena.Take<T>(kRoundsOperands<P> || config.drops_state()
                               ? directions * size.batch * config.output_size()
                               : CheckedInt(0));
    carried = arena.Take<T>(config.has_finish()
                                ? directions * size.batch * config.num_units
                                : CheckedInt(0));
    if constexpr (Products::kAreQuantized) {
      quantized = QuantizedRowsScratch(config, size, num_threads, arena);
    }
  }
};

template <typename P, typename Cell, typename Products>
class LayerForward {
 public:
  using T = ComputeType<P>;

  LayerForward(const LayerForwardArguments<P, Products>& arguments,
               const ForwardPlan& plan,
               const LayerForwardScratch<P, Products>& scratch,
               Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        shape_(a_.config, a_.size, a_.layer),
        sweep_(shape_, Sweep::kForward, StepsAtOnce(a_.size)),
        params_(a_.config, shape_, a_.weights),
        packed_(a_.packed != nullptr ? *a_.packed : scratch_.packed),
        weights_(a_.config, shape_, a_.weights, packed_.weights),
        weights_in_place_(a_.config, shape_, a_.weights),
        reads_in_place_(plan.reads_in_place),
        is_fused_(plan.is_fused),
        output_is_uncached_(IsBestUncached(
            a_.output,
            shape_.time * shape_.batch * shape_.directions * shape_.output_size,
            shape_.output_size)),
        input_masks_(GateMasks<T>::OfInput(a_.config, shape_, a_.input_masks)),
        steps_(shape_, sweep_, a_.lengths,
               GateMasks<T>::OfState(a_.config, shape_, a_.state_masks),
               (ForwardSteps<P, Cell>::kRecurrentCols * shape_.output_size +
                (is_fused_ ? kPanelCols * shape_.fan_in : 0)) /
                   Products::kSpeed,
               scratch_.steps, executor),
        group_size_(reads_in_place_ && params_.is_transposed()
                        ? KerasProductScratch<P>::MostPanels(shape_.batch)
                        : steps_.group_size()) {}

  void Run() const {
    if (a_.config.has_cell_state()) {
      std::copy_n(a_.input_c, shape_.directions * shape_.batch * shape_.units,
                  a_.output_c);
    }
    if (shape_.time == 0) {
      std::copy_n(a_.input_h,
                  shape_.directions * shape_.batch * shape_.output_size,
                  a_.output_h);
      return;
    }
    steps_.ClearStates();
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      steps_.SetInitialState(d, OfDirection(a_.input_h, d));
    }
    if (keeps_hidden()) {
      std::copy_n(a_.input_h,
                  shape_.directions * shape_.batch * shape_.output_size,
                  scratch_.hidden);
    }
    if (a_.packed == nullptr) {
      if (!reads_in_place_) weights_.Pack(executor_);
      PackBiases<Cell>(a_.config, shape_, a_.weights, packed_);
    }
    sweep_.ForEachChunk(executor_, [&](const StepChunk& chunk) {
      if (!reads_in_place_ || params_.is_transposed()) PrepareInput(chunk);
      RunSteps(chunk);
    });
    if (keeps_hidden()) {
      std::copy_n(scratch_.hidden,
                  shape_.directions * shape_.batch * shape_.output_size,
                  a_.output_h);
    } else if constexpr (!kRoundsOperands<P>) {
      for (std::int64_t d = 0; d < shape_.directions; ++d) {
        Unpack(Constant(steps_.State(shape_.time, d)),
               OfDirection(a_.output_h, d));
      }
    }
  }

 private:
  using Left = MutableLeftMatrix<P>;

  static constexpr std::int64_t kPanelCols = ForwardSteps<P, Cell>::kPanelCols;
  // Number of columns in a panel's blocks with only W x, which equals the
  // number with only R h_prev, and in those with both.
  static constexpr std::int64_t kAlone = Cell::kFirstRecurrent * kTileCols<T>;
  static constexpr std::int64_t kShared = kPanelCols - kAlone;

  // Whether products read the states in another form than cells do.
  bool keeps_hidden() const {
    return kRoundsOperands<P> || a_.config.drops_state();
  }

  // [B, O] of an array [D, B, O].
  template <typename S>
  MatrixView<S> OfDirection(S* array, std::int64_t direction) const {
    return shape_.OfDirection(array, direction, shape_.output_size);
  }
  // The columns of a direction's output at time t, starting at `unit`; null if
  // there is no output.
  template <typename S>
  ColumnView<S> OutputColumn(S* output, std::int64_t t, std::int64_t direction,
                             std::int64_t unit) const {
    if (output == nullptr) return {};
    return shape_.OutputAt(output, direction, t).Column(unit);
  }
  MatrixView<T> CellState(std::int64_t direction) const {
    return shape_.OfDirection(a_.output_c, direction, shape_.units);
  }
  MatrixView<T> Bias(std::int64_t direction) const {
    return steps_.SharedRow(packed_.bias, direction);
  }
  T* RecurrentBias(std::int64_t direction) const {
    return packed_.recurrent_bias + direction * shape_.units;
  }
  // The input of the steps, [steps * B, F], in order of time: in place, and
  // packed.
  MatrixView<const P> InputRows(std::int64_t direction,
                                const StepChunk& chunk) const {
    return sweep_.RowsOf(a_.input, shape_.fan_in, direction, chunk);
  }
  Left Input(std::int64_t direction, const StepChunk& chunk) const {
    const std::int64_t size =
        SizeOf<Left>(sweep_.steps_at_once() * shape_.batch, shape_.fan_in);
    return {scratch_.input + direction * size, sweep_.Rows(chunk),
            shape_.fan_in};
  }
  // W x plus biases of the steps.
  MatrixView<T> Projected(std::int64_t direction,
                          const StepChunk& chunk) const {
    return steps_.Rows(scratch_.projected, direction, chunk);
  }

  void PrepareInput(const StepChunk& chunk) const {
    if (shape_.skips_input) {
      for (std::int64_t d = 0; d < shape_.directions; ++d) {
        steps_.AddInput(Bias(d), InputRows(d, chunk), Projected(d, chunk));
      }
    } else if constexpr (Products::kAreQuantized) {
      MultiplyQuantizedInput(chunk);
    } else if (input_masks_.any()) {
      MultiplyMaskedInput(chunk);
    } else {
      MultiplyInput(chunk);
    }
  }

  // With a mask for each gate, in one direction.
  void MultiplyMaskedInput(const StepChunk& chunk) const {
    const Left input = Input(0, chunk);
    RunTogether(executor_,
                PackMaskedWork(InputRows(0, chunk), input, input_masks_,
                               /*first_gate=*/0, Cell::kGates,
                               sweep_.FirstTime(0, chunk), input.rows));
    const std::pair factor(input, weights_.Input(0, 0, steps_.panels()));
    steps_.MultiplyCopies(std::array{factor}, InputGate<Cell>, Bias(0),
                          Projected(0, chunk));
  }

  // Prepares both directions at once, so a thread that works on one direction
  // also prepares it.
  void MultiplyInput(const StepChunk& chunk) const {
    WorkList<PackWork<MatrixView<const P>, Left>> inputs;
    WorkList<MultiplyWork<P>> products;
    for (std::int64_t d = 0; d < shape_.directions; ++d) {
      inputs.Add({InputRows(d, chunk), Input(d, chunk)});
      if (is_fused_) continue;
      products.Add({ProductSum<P>(Input(d, chunk),
                                  weights_.Input(d, 0, steps_.panels())),
                    Constant(Bias(d)), Projected(d, chunk),
                    executor_.num_threads()});
    }
    RunTogether(executor_, inputs);
    RunTogether(executor_, products);
  }

  // Quantizes the input, and multiplies a panel in each task.
  void MultiplyQuantizedInput(const StepChunk& chunk) const {
    constexpr std::int64_t kTaskRows = 16;
    const std::int64_t rows = sweep_.Rows(chunk);
    const std::int64_t groups = CeilDiv(rows, kTaskRows);
    const std::int64_t panels = steps_.panels();
    executor_.ParallelFor(shape_.directions * groups, [&](std::int64_t i) {
      const std::int64_t d = i / groups;
      const std::int64_t row = i % groups * kTaskRows;
      const std::int64_t count = Min(kTaskRows, rows - row);
      QuantizeRows(InputRows(d, chunk).Rows(row, count),
                   weights_.Input(d, 0, panels).factors,
                   QuantizedInput(d, row, count));
    });
    executor_.ParallelFor(shape_.directions * panels, [&](std::int64_t i) {
      const std::int64_t d = i / panels;
      const std::int64_t panel = i % panels;
      const std::int64_t col = panel * kPanelCols;
      MultiplyQuantized(QuantizedInput(d, 0, rows), weights_.Input(d, panel, 1),
                        Constant(Bias(d)).Block(0, col, 1, kPanelCols),
                        Projected(d, chunk).Cols(col, kPanelCols));
    });
  }
  // Rows of the input of a chunk's steps.
  TwoDigitLeft QuantizedInput(std::int64_t direction, std::int64_t row,
                              std::int64_t rows) const {
    const std::int64_t first =
        direction * sweep_.steps_at_once() * shape_.batch + row;
    return {
        scratch_.quantized.input + first * TwoDigitLeft::Stride(shape_.fan_in),
        scratch_.quantized.input_scales + first, rows, shape_.fan_in};
  }
  QuantizedLeft QuantizedState(std::int64_t rows, int worker) const {
    const std::int64_t first = worker * shape_.batch;
    return {scratch_.quantized.state +
                first * QuantizedLeft::Stride(shape_.output_size),
            scratch_.quantized.state_scales + first, rows, shape_.output_size};
  }

  void RunSteps(const StepChunk& chunk) const {
    steps_.Run(
        chunk,
        [&](std::int64_t i, const StepTask& task, int worker) {
          if constexpr (!Products::kAreQuantized) {
            if (is_fused_) {
              StepCell<true>(chunk, i, task, worker);
              return;
            }
          }
          StepCell<false>(chunk, i, task, worker);
        },
        [&](std::int64_t i, const StepTask& task, int worker) {
          StepSecondHalf(chunk, i, task, worker);
        });
  }

  // Step i of the chunk.
  template <bool kFused>
  void StepCell(const StepChunk& chunk, std::int64_t i, const StepTask& task,
                int worker) const {
    constexpr std::int64_t kBlocks =
        kFused ? WeightsInPlace<P, Cell>::kBlocksAtOnce : Cell::kRecurrentGates;
    const std::int64_t d = task.direction;
    const std::int64_t step = chunk.first_step + i;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t first_row = sweep_.FirstRow(d, chunk, i);
    // Samples that have ended are not multiplied.
    const std::int64_t rows = a_.lengths.ValidSamples(t, task.row, task.rows);
    const LeftMatrix<P> state = steps_.State(step, d).Rows(task.row, rows);
    if constexpr (Products::kAreQuantized) {
      QuantizeRows(state, QuantizedState(rows, worker));
    }
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product =
          steps_.Product(rows, num_panels * kBlocks * kTileCols<T>, worker);
      if constexpr (kFused) {
        const std::int64_t next = task.PanelAfter(panel + num_panels - 1);
        MultiplyPanels(d, chunk, {first_row + task.row, rows}, state,
                       {panel, num_panels, next}, worker, product);
      } else if constexpr (Products::kAreQuantized) {
        MultiplyQuantized(QuantizedState(rows, worker),
                          weights_.Recurrent(d, panel, num_panels),
                          NoMatrix<T>(), product);
      } else {
        steps_.MultiplyState(weights_, step, task, panel, num_panels,
                             NoMatrix<T>(), product);
      }
      task.ForEachVector<T>(
          panel, num_panels, shape_.units, [&](auto unit, auto units) {
            const std::int64_t col = steps_.Col(unit);
            ForwardColumns columns = StateColumns(step, d, t, unit);
            columns.projected =
                kFused ? Constant(Bias(d)).Column(col)
                       : Constant(Projected(d, chunk).Rows(first_row + task.row,
                                                           task.rows))
                             .Column(col);
            columns.product = Constant(product).Column(
                (unit / kTileCols<T> - panel) * kBlocks * kTileCols<T> +
                unit % kTileCols<T>);
            RunActivatedCells<kFused ? 0 : Cell::kFirstRecurrent,
                              StepHalf::kFirst>(task, t, columns, units);
          });
    });
    if (a_.kept.is_uncached() || output_is_uncached_) FinishUncached();
  }

  // A range of rows in a chunk.
  struct RowRange {
    std::int64_t first;
    std::int64_t count;
  };
  // Panels that are multiplied at once, and the panel that follows.
  struct PanelGroup {
    std::int64_t first;
    std::int64_t count;
    std::int64_t next;
  };

  // For each panel, computes W x in the first blocks, R h_prev in the blocks
  // from kFirstRecurrent on, and their sum in blocks with both.
  void MultiplyPanels(std::int64_t d, const StepChunk& chunk,
                      const RowRange& range, const LeftMatrix<P>& state,
                      const PanelGroup& group, int worker,
                      const MatrixView<T>& product) const {
    if (reads_in_place_ && params_.is_transposed()) {
      weights_in_place_.MultiplyKeras(
          d, group.first, group.count,
          Input(d, chunk).Rows(range.first, range.count), state,
          scratch_.products.OfWorker(a_.size, worker), product);
      return;
    }
    if constexpr (!kHasFinish<Cell>) {
      MultiplyEachPanel(d, chunk, range, state, group, product);
    }
  }

  // The same with packed weights, or cuDNN's in place.
  void MultiplyEachPanel(std::int64_t d, const StepChunk& chunk,
                         const RowRange& range, const LeftMatrix<P>& state,
                         const PanelGroup& group,
                         const MatrixView<T>& product) const {
    constexpr std::int64_t kCols = Cell::kBlocks * kTileCols<T>;
    for (std::int64_t i = 0; i < group.count; ++i) {
      const MatrixView<T> out = product.Cols(i * kCols, kCols);
      const std::int64_t panel = group.first + i;
      if (reads_in_place_) {
        weights_in_place_.MultiplyCudnn(
            d, panel, InputRows(d, chunk).Rows(range.first, range.count), state,
            out);
      } else {
        MultiplyFused(
            {d, Input(d, chunk).Rows(range.first, range.count), state}, panel,
            i + 1 < group.count ? panel + 1 : group.next, out);
      }
    }
  }

  // The factors that a step multiplies with weights, both [rows, ...].
  struct Factors {
    std::int64_t direction;
    LeftMatrix<P> x;
    LeftMatrix<P> state;
  };

  // The same for one panel, with packed weights. next: the panel that follows.
  void MultiplyFused(const Factors& factors, std::int64_t panel,
                     std::int64_t next, const MatrixView<T>& product) const {
    const auto multiply = [&](std::int64_t col, std::int64_t cols,
                              const ProductSum<P>& sum,
                              const ProductSum<P>& then) {
      Multiply(sum, NoMatrix<T>(), product.Cols(col, cols), then);
    };
    if constexpr (kAlone == 0) {
      multiply(0, kShared, SharedFactors(factors, panel),
               SharedFactors(factors, next));
    } else {
      const auto input = [&](std::int64_t p) {
        return ProductSum<P>(
            factors.x, weights_.Input(factors.direction, p, 1).Cols(0, kAlone));
      };
      const ProductSum<P> recurrent(
          factors.state, weights_.Recurrent(factors.direction, panel, 1)
                             .Cols(kShared, kAlone));
      multiply(0, kAlone, input(panel), SharedFactors(factors, panel));
      multiply(kAlone, kShared, SharedFactors(factors, panel), recurrent);
      multiply(kPanelCols, kAlone, recurrent, input(next));
    }
  }
  // The factors of the blocks with both W x and R h_prev.
  ProductSum<P> SharedFactors(const Factors& factors,
                              std::int64_t panel) const {
    ProductSum<P> sum(
        factors.x,
        weights_.Input(factors.direction, panel, 1).Cols(kAlone, kShared));
    sum.Add(factors.state,
            weights_.Recurrent(factors.direction, panel, 1).Cols(0, kShared));
    return sum;
  }

  // The units of a vector, for each row of a task.
  struct ForwardColumns {
    ColumnView<const T> projected;  // row 0: first row of the task
    ColumnView<const T> product;    // likewise
    const T* recurrent_bias;
    ColumnView<const T> h_prev;
    ColumnView<T> c;
    ColumnView<T> kept;
    std::int64_t kept_stride;
    bool keeps_uncached;
    bool keeps_pairs;
    ColumnView<T> carried;
    // The next state or, in the first half of two, what the second multiplies.
    MaskedColumns<P> h;
    // h, for the next step, if products read it in another form
    ColumnView<T> hidden;
    ColumnView<T> output;  // null if not needed
    bool output_is_uncached;
    ColumnView<P> rounded_output;  // if P has fewer bits
    Peepholes<const T> peepholes;
    T clip;

    bool keeps_hidden() const {
      return kRoundsOperands<P> || hidden.data != nullptr;
    }
  };

  TF_RNN_OPS_VECTOR_INLINE ForwardColumns
  StateColumns(std::int64_t step, std::int64_t d, std::int64_t t,
               std::int64_t unit) const {
    ForwardColumns columns{};
    if (keeps_hidden()) {
      columns.hidden = OfDirection(scratch_.hidden, d).Column(unit);
      columns.h_prev = {columns.hidden.data, columns.hidden.stride};
    } else if constexpr (!kRoundsOperands<P>) {
      columns.h_prev = Constant(steps_.State(step, d)).Column(unit);
    }
    columns.kept = a_.kept.Column(d, t, unit);
    columns.kept_stride = a_.kept.Stride(unit);
    columns.keeps_uncached = a_.kept.is_uncached();
    columns.keeps_pairs = a_.kept.are_pairs();
    if constexpr (Cell::kFirstRecurrent > 0) {
      columns.recurrent_bias = RecurrentBias(d) + unit;
    }
    if constexpr (Cell::kHasCellState) columns.c = CellState(d).Column(unit);
    if constexpr (Cell::kIsBlockLstm) {
      columns.peepholes = a_.peepholes.At(unit);
      columns.clip = a_.config.block_lstm.cell_clip;
    }
    if constexpr (kHasFinish<Cell>) {
      columns.carried =
          shape_.OfDirection(scratch_.carried, d, shape_.units).Column(unit);
    }
    columns.h = shape_.has_second_half ? steps_.CellOutputColumns(0, d, t, unit)
                                       : steps_.StateColumns(step + 1, d, unit);
    // With a projection, the output has fewer columns than units.
    if (unit < shape_.output_size) {
      columns.output = OutputColumn(a_.output, t, d, unit);
      columns.output_is_uncached = output_is_uncached_;
      columns.rounded_output = OutputColumn(a_.rounded_output, t, d, unit);
    }
    return columns;
  }

  // Prefetches the output. Stores wait for their cache lines, and the elements
  // of a column are too far apart for the hardware prefetcher.
  static TF_RNN_OPS_VECTOR_INLINE void FetchOutput(
      const ForwardColumns& columns, std::int64_t row) {
    if (columns.output.data != nullptr && !columns.output_is_uncached) {
      __builtin_prefetch(columns.output.At(row), 1);
    }
  }

  template <typename Units>
  static void WriteOutput(const ForwardColumns& columns, std::int64_t row,
                          const Units& units, Vector<T> h) {
    Vector<T> output = h;
    if constexpr (kRoundsOperands<P>) {
      if (columns.keeps_pairs) output = ToFinitePair(h);
    }
    if (columns.output_is_uncached) {
      units.WriteUncached(output, columns.output.At(row));
    } else if (columns.output.data != nullptr) {
      units.Write(output, columns.output.At(row));
    }
    if constexpr (kRoundsOperands<P>) {
      if (columns.rounded_output.data != nullptr) {
        units.Write(h, columns.rounded_output.At(row));
      }
    }
  }

  // kFirstBlock: the first block in `columns.product`.
  template <std::int64_t kFirstBlock, StepHalf kHalf, typename Units>
  TF_RNN_OPS_VECTOR_INLINE void RunActivatedCells(const StepTask& task,
                                                  std::int64_t t,
                                                  const ForwardColumns& columns,
                                                  const Units& units) const {
    WithActivations<T, Cell>(
        a_.config, [&](auto activations) TF_RNN_OPS_LAMBDA_INLINE {
          RunCells<kFirstBlock, kHalf>(task, t, columns, units, activations);
        });
  }

  // Inlined because for few rows a call takes as long as the cells. `columns`
  // is a copy so that the compiler can keep it in registers.
  template <std::int64_t kFirstBlock, StepHalf kHalf, typename Units,
            typename Activations>
  TF_RNN_OPS_VECTOR_INLINE void RunCells(const StepTask& task, std::int64_t t,
                                         const ForwardColumns columns,
                                         const Units units,
                                         const Activations activations) const {
    const SequenceLengths lengths = a_.lengths;
    const bool is_first_of_two =
        kHalf == StepHalf::kFirst && shape_.has_second_half;
    constexpr std::int64_t kRowsAhead = 8;
    const std::int64_t last_row = task.row + task.rows - 1;
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      FetchOutput(columns, Min(row + kRowsAhead, last_row));
      if (!lengths.IsValid(t, row)) {
        SkipCell<kHalf>(columns, row, units);
        continue;
      }
      ForwardRun<T, Units, Activations, kFirstBlock> run{};
      run.units = units;
      run.peepholes = columns.peepholes;
      run.activations = activations;
      run.clip = columns.clip;
      run.projected = columns.projected.At(i);
      run.product = columns.product.At(i);
      run.recurrent_bias = columns.recurrent_bias;
      run.h_prev = columns.h_prev.At(row);
      run.c = columns.c.At(row);
      run.kept = columns.kept.At(row);
      run.kept_stride = columns.kept_stride;
      run.carried = columns.carried.At(row);
      run.keeps_uncached = columns.keeps_uncached;
      run.keeps_pairs = columns.keeps_pairs;
      const Vector<T> h = ForwardHalf<kHalf, Cell>(run);
      columns.h.Write(row, units, h);
      if (is_first_of_two) continue;
      WriteOutput(columns, row, units, h);
      if (columns.keeps_hidden()) units.Write(h, columns.hidden.At(row));
    }
  }

  // After the end of a sequence, the state does not change.
  template <StepHalf kHalf, typename Units>
  void SkipCell(const ForwardColumns& columns, std::int64_t row,
                const Units& units) const {
    if (kHalf == StepHalf::kFirst && columns.kept.data != nullptr) {
      for (std::int64_t i = 0; i < a_.kept.values(); ++i) {
        units.Write(Vector<T>{},
                    columns.kept.At(row) + i * columns.kept_stride);
      }
    }
    if (kHalf == StepHalf::kFirst && shape_.has_second_half) {
      columns.h.Write(row, units, Vector<T>{});
    } else {
      columns.h.Write(row, units, units.Read(columns.h_prev.At(row)));
      WriteOutput(columns, row, units, Vector<T>{});
    }
  }

  // Step i of the chunk: h = P (o ∘ tanh(c)), or what follows R_n (r ∘ h_prev).
  void StepSecondHalf(const StepChunk& chunk, std::int64_t i,
                      const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t step = chunk.first_step + i;
    const std::int64_t t = sweep_.Time(d, step);
    const std::int64_t first_row = sweep_.FirstRow(d, chunk, i) + task.row;
    steps_.RunSecondHalf(
        t, task, worker,
        [&](std::int64_t rows, std::int64_t col, const MatrixView<T>& product) {
          const LeftMatrix<P> factor =
              steps_.CellOutput(0, d).Rows(task.row, rows);
          if (reads_in_place_ && kHasFinish<Cell>) {
            weights_in_place_.MultiplySecondKeras(
                d, col, Input(d, chunk).Rows(first_row, rows), factor,
                scratch_.products.OfWorker(a_.size, worker), product);
          } else if (reads_in_place_) {
            weights_in_place_.Project(
                d, factor, col, Min(product.cols, shape_.output_size - col),
                product);
          } else {
            Multiply(ProductSum<P>(factor,
                                   weights_.Second(d).Cols(col, product.cols)),
                     NoMatrix<T>(), product);
          }
        },
        [&](auto unit, auto units, const ColumnView<T>& product) {
          ForwardColumns columns = StateColumns(step, d, t, unit);
          columns.h = steps_.StateColumns(step + 1, d, unit);
          if constexpr (kHasFinish<Cell>) {
            const std::int64_t unit_col = steps_.Col(unit);
            columns.projected =
                is_fused_
                    ? Constant(Bias(d)).Column(unit_col)
                    : Constant(Projected(d, chunk).Rows(first_row, task.rows))
                          .Column(unit_col);
            columns.product = {product.data, product.stride};
            RunActivatedCells<Cell::kGates - 1, StepHalf::kSecond>(
                task, t, columns, units);
          } else {
            StoreProjected(task, t, columns, units, product);
          }
        });
    if (a_.kept.is_uncached() || output_is_uncached_) FinishUncached();
  }

  // product: row 0 is the first row of the task.
  template <typename Units>
  void StoreProjected(const StepTask& task, std::int64_t t,
                      const ForwardColumns& columns, const Units& units,
                      const ColumnView<T>& product) const {
    for (std::int64_t i = 0; i < task.rows; ++i) {
      const std::int64_t row = task.row + i;
      const bool is_valid = a_.lengths.IsValid(t, row);
      const Vector<T> h =
          units.Read(is_valid ? product.At(i) : columns.h_prev.At(row));
      columns.h.Write(row, units, h);
      WriteOutput(columns, row, units, is_valid ? h : Vector<T>{});
      if (columns.keeps_hidden()) units.Write(h, columns.hidden.At(row));
    }
  }

  const LayerForwardArguments<P, Products> a_;
  const LayerForwardScratch<P, Products> scratch_;
  Executor& executor_;
  const LayerShape shape_;
  const Sweep sweep_;
  const LayerParams<const P> params_;
  const typename Products::Packed packed_;
  const typename Products::template WeightsOf<Cell> weights_;
  const WeightsInPlace<P, Cell> weights_in_place_;
  const bool reads_in_place_;
  const bool is_fused_;
  const bool output_is_uncached_;
  const GateMasks<T> input_masks_;
  const ForwardSteps<P, Cell> steps_;
  const std::int64_t group_size_;  // panels that a task multiplies at once
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_LAYER_FORWARD_H_
