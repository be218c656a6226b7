// One layer of a network over a sequence, forward.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_H_

#include <algorithm>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/panel_product.h"
#include "cc/rnn/simd/parallel_product.h"
#include "cc/rnn/simd/step_tasks.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer, G = gates, K = kept
// blocks.
template <typename T>
struct LayerForwardArguments {  // with B > 0 and U > 0
  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer;
  const T* params;   // of the whole network
  const T* input;    // [T, B, F]
  const T* input_h;  // [D, B, O], of this layer
  const T* input_c;  // [D, B, U]; LSTM only
  T* output;         // [T, B, D * O]
  T* output_h;       // [D, B, O]
  T* output_c;       // [D, B, U]; LSTM only
  T* kept;           // [D, T, B, K * U], or null
};

// The input projection is made for so many rows at once, time by time: enough
// for one large product, and few enough to stay in a cache.
constexpr std::int64_t kProjectedRows = 256;

// The steps whose input projection is made at once.
inline std::int64_t StepsAtOnce(const RnnSize& size) {
  const std::int64_t steps =
      kProjectedRows / std::max<std::int64_t>(size.batch, 1);
  return Min(size.time, std::max<std::int64_t>(steps, 1));
}

// Scratch memory, enough for any layer of the network.
template <typename T>
struct LayerForwardScratch {
  T* input_weights;      // [D] packed matrices [F, G * U]
  T* recurrent_weights;  // [D, panels of U, G] panels [O, kPanelCols]
  T* projection;         // [D] packed matrices [U, O]
  T* bias;               // [D, G * U]
  T* projected;          // [D, StepsAtOnce, B, G * U]
  T* states;             // [2, D, B, O]
  T* cell_outputs;       // [D, B, U], with a projection
  T* products;           // [num_threads, B, GroupSize, G * kPanelCols]

  LayerForwardScratch(const RnnConfig& config, const RnnSize& size,
                      int num_threads, Arena& arena) {
    const CheckedInt directions = config.num_directions;
    const CheckedInt gates = CheckedInt(config.num_gates()) * config.num_units;
    const CheckedInt gates_padded =
        CheckedInt(config.num_gates()) * PaddedCols(config.num_units);
    const CheckedInt state = directions * size.batch * config.output_size();
    const std::int64_t fan_in = config.largest_fan_in();
    input_weights =
        arena.Take<T>(directions * fan_in * PaddedCols(gates.value()));
    recurrent_weights =
        arena.Take<T>(directions * gates_padded * config.output_size());
    projection = arena.Take<T>(directions * PaddedCols(config.num_proj) *
                               config.num_units);
    bias = arena.Take<T>(directions * gates);
    projected =
        arena.Take<T>(directions * StepsAtOnce(size) * size.batch * gates);
    states = arena.Take<T>(state * 2);
    cell_outputs = arena.Take<T>(
        config.num_proj > 0 ? directions * size.batch * config.num_units : 0);
    products = arena.Take<T>(CheckedInt(num_threads) * size.batch *
                             GroupSize<T>(size.batch, config.num_gates()) *
                             config.num_gates() * kPanelCols<T>);
  }

  // Up to whole panels.
  static std::int64_t PaddedCols(std::int64_t cols) {
    return NumPanels<T>(cols) * kPanelCols<T>;
  }
};

template <typename T, typename Cell>
class LayerForward {
 public:
  LayerForward(const LayerForwardArguments<T>& arguments,
               const LayerForwardScratch<T>& scratch, Executor& executor)
      : a_(arguments),
        scratch_(scratch),
        executor_(executor),
        layout_(a_.config),
        time_(a_.size.time),
        batch_(a_.size.batch),
        units_(a_.config.num_units),
        output_size_(a_.config.output_size()),
        directions_(a_.config.num_directions),
        fan_in_(a_.config.fan_in(a_.layer)),
        skips_input_(a_.layer == 0 && a_.config.skip_input),
        is_projected_(a_.config.num_proj > 0),
        group_size_(GroupSize<T>(batch_, Cell::kGates)),
        cell_tasks_(directions_, batch_, NumPanels<T>(units_),
                    Cell::kGates * kPanelCols<T> * output_size_,
                    executor.num_threads()),
        projection_tasks_(directions_, batch_, NumPanels<T>(output_size_),
                          kPanelCols<T> * units_, executor.num_threads()) {}

  void Run() const {
    if (a_.config.has_cell_state()) {
      std::copy_n(a_.input_c, directions_ * batch_ * units_, a_.output_c);
    }
    if (time_ == 0) {
      std::copy_n(a_.input_h, StateSize(), a_.output_h);
      return;
    }
    std::copy_n(a_.input_h, StateSize(), State(0, 0).data);
    PackWeights();
    AddBiases();
    const std::int64_t at_once = StepsAtOnce(a_.size);
    for (std::int64_t step = 0; step < time_; step += at_once) {
      const std::int64_t steps = Min(at_once, time_ - step);
      ProjectInput(step, steps);
      RunSteps(step, steps);
    }
    std::copy_n(State(time_, 0).data, StateSize(), a_.output_h);
  }

 private:
  std::int64_t PseudoLayer(std::int64_t direction) const {
    return a_.layer * directions_ + direction;
  }
  std::int64_t StateSize() const { return directions_ * batch_ * output_size_; }

  // A matrix in the params buffer.
  MatrixView<const T> Param(const ParamsRegion& region) const {
    return {a_.params + region.offset, region.rows, region.cols};
  }

  // The hidden state of a direction before `step`, [B, O].
  MatrixView<T> State(std::int64_t step, std::int64_t direction) const {
    const std::int64_t index = step % 2 * directions_ + direction;
    return {scratch_.states + index * batch_ * output_size_, batch_,
            output_size_};
  }
  // The output of a direction at time t, [B, O].
  MatrixView<T> Output(std::int64_t t, std::int64_t direction) const {
    const std::int64_t width = directions_ * output_size_;
    return {a_.output + t * batch_ * width + direction * output_size_, batch_,
            output_size_, width};
  }
  MatrixView<T> CellState(std::int64_t direction) const {
    return {a_.output_c + direction * batch_ * units_, batch_, units_};
  }
  MatrixView<T> CellOutput(std::int64_t direction) const {
    return {scratch_.cell_outputs + direction * batch_ * units_, batch_,
            units_};
  }
  T* Bias(std::int64_t direction) const {
    return scratch_.bias + direction * Cell::kGates * units_;
  }
  PackedMatrix<T> InputWeights(std::int64_t direction) const {
    const std::int64_t gates = Cell::kGates * units_;
    return {scratch_.input_weights + direction * PackedSize<T>(fan_in_, gates),
            fan_in_, gates};
  }
  PackedMatrix<T> Projection(std::int64_t direction) const {
    return {
        scratch_.projection + direction * PackedSize<T>(units_, output_size_),
        units_, output_size_};
  }
  std::int64_t RecurrentPanelSize() const {
    return output_size_ * kPanelCols<T>;
  }
  // The panels of all gates of the same units.
  T* RecurrentPanels(std::int64_t direction, std::int64_t panel) const {
    return scratch_.recurrent_weights +
           (direction * NumPanels<T>(units_) + panel) * Cell::kGates *
               RecurrentPanelSize();
  }

  void PackWeights() const {
    for (std::int64_t d = 0; d < directions_; ++d) {
      const std::int64_t pseudo_layer = PseudoLayer(d);
      if (!skips_input_) {
        ParallelPackTransposed(Param(layout_.InputMatrix(pseudo_layer)),
                               InputWeights(d), executor_);
      }
      PackRecurrentWeights(d);
      if (is_projected_) {
        ParallelPackTransposed(Param(layout_.Projection(pseudo_layer)),
                               Projection(d), executor_);
      }
    }
  }

  void PackRecurrentWeights(std::int64_t direction) const {
    const MatrixView<const T> matrix =
        Param(layout_.RecurrentMatrix(PseudoLayer(direction)));
    const std::int64_t panels = NumPanels<T>(units_);
    executor_.ParallelFor(panels * Cell::kGates, [&](std::int64_t i) {
      const std::int64_t panel = i / Cell::kGates, gate = i % Cell::kGates;
      const std::int64_t unit = panel * kPanelCols<T>;
      PackTransposedPanel(
          matrix.Rows(gate * units_ + unit, Min(kPanelCols<T>, units_ - unit)),
          RecurrentPanels(direction, panel) + gate * RecurrentPanelSize());
    });
  }

  // What is added to W x: both biases, but for the gate of a GRU whose
  // recurrent bias belongs elsewhere.
  void AddBiases() const {
    constexpr std::int64_t kGatesWithBoth =
        Cell::kFirstRecurrent == 0 ? Cell::kGates : Cell::kGates - 1;
    for (std::int64_t d = 0; d < directions_; ++d) {
      const T* input = Param(layout_.InputBias(PseudoLayer(d))).data;
      const T* recurrent = Param(layout_.RecurrentBias(PseudoLayer(d))).data;
      T* sum = Bias(d);
      for (std::int64_t i = 0; i < Cell::kGates * units_; ++i) {
        sum[i] =
            i < kGatesWithBoth * units_ ? input[i] + recurrent[i] : input[i];
      }
    }
  }

  // W x and biases of a direction for `steps` steps from `first_step` on, in
  // the order of time: [steps * B, G * U].
  MatrixView<T> Projected(std::int64_t direction, std::int64_t steps) const {
    const std::int64_t gates = Cell::kGates * units_;
    return {
        scratch_.projected + direction * StepsAtOnce(a_.size) * batch_ * gates,
        steps * batch_, gates};
  }

  // The earliest time among a direction's steps.
  std::int64_t FirstTime(std::int64_t direction, std::int64_t first_step,
                         std::int64_t steps) const {
    return direction == 0 ? first_step : time_ - first_step - steps;
  }

  void ProjectInput(std::int64_t first_step, std::int64_t steps) const {
    for (std::int64_t d = 0; d < directions_; ++d) {
      const std::int64_t row = FirstTime(d, first_step, steps) * batch_;
      const MatrixView<const T> x =
          MatrixView<const T>(a_.input, time_ * batch_, fan_in_)
              .Rows(row, steps * batch_);
      const MatrixView<const T> bias(Bias(d), 1, Cell::kGates * units_, 0);
      const MatrixView<T> projected = Projected(d, steps);
      if (skips_input_) {
        AddInput(x, bias, projected);
      } else {
        ParallelMultiply(x, InputWeights(d), bias, projected, executor_);
      }
    }
  }

  // projected = bias + x, for each gate.
  void AddInput(const MatrixView<const T>& x, const MatrixView<const T>& bias,
                const MatrixView<T>& projected) const {
    executor_.ParallelFor(x.rows, [&](std::int64_t row) {
      for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
        const T* b = bias.At(0, gate * units_);
        T* to = projected.At(row, gate * units_);
        for (std::int64_t i = 0; i < units_; ++i) {
          to[i] = b[i] + x.At(row, 0)[i];
        }
      }
    });
  }

  void RunSteps(std::int64_t first_step, std::int64_t steps) const {
    if (!is_projected_) {
      executor_.ParallelSteps(
          steps, cell_tasks_.size(),
          [&](std::int64_t step, std::int64_t task, int worker) {
            StepCell(first_step, steps, first_step + step, cell_tasks_[task],
                     worker);
          });
      return;
    }
    const std::int64_t tasks =
        std::max(cell_tasks_.size(), projection_tasks_.size());
    executor_.ParallelSteps(
        2 * steps, tasks,
        [&](std::int64_t half_step, std::int64_t task, int worker) {
          const std::int64_t step = first_step + half_step / 2;
          if (half_step % 2 == 0 && task < cell_tasks_.size()) {
            StepCell(first_step, steps, step, cell_tasks_[task], worker);
          }
          if (half_step % 2 == 1 && task < projection_tasks_.size()) {
            StepProjection(step, projection_tasks_[task], worker);
          }
        });
  }

  // A worker's scratch memory for a product of a task's rows.
  MatrixView<T> Product(const StepTask& task, std::int64_t cols,
                        int worker) const {
    const std::int64_t most = group_size_ * Cell::kGates * kPanelCols<T>;
    return {scratch_.products + worker * batch_ * most, task.rows, cols, most};
  }

  void StepCell(std::int64_t first_step, std::int64_t steps, std::int64_t step,
                const StepTask& task, int worker) const {
    const std::int64_t t = TimeOfStep(task.direction, step, time_);
    const std::int64_t first_row =
        (t - FirstTime(task.direction, first_step, steps)) * batch_;
    const MatrixView<const T> projected =
        Constant(Projected(task.direction, steps)).Rows(first_row, batch_);
    const MatrixView<const T> state = Constant(State(step, task.direction));
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      constexpr std::int64_t kGateCols = Cell::kGates * kPanelCols<T>;
      const MatrixView<T> product =
          Product(task, num_panels * kGateCols, worker);
      MultiplyPanels(state.Rows(task.row, task.rows),
                     RecurrentPanels(task.direction, panel),
                     RecurrentPanelSize(), NoMatrix<T>(), product);
      task.ForEachRun<T>(panel, num_panels, units_, step, t,
                         [&](const StepRun& run) {
                           if (!a_.lengths.IsValid(t, run.sample)) {
                             SkipCell(run);
                             return;
                           }
                           const std::int64_t col =
                               (run.unit / kPanelCols<T> - panel) * kGateCols +
                               run.unit % kPanelCols<T>;
                           RunCell(run, projected.At(run.sample, run.unit),
                                   product.At(run.sample - task.row, col));
                         });
    });
  }

  // What the cell keeps for the backward pass, or null.
  T* Kept(const StepRun& at) const {
    if (a_.kept == nullptr) return nullptr;
    const std::int64_t row =
        (at.direction * time_ + at.time) * batch_ + at.sample;
    return a_.kept + row * NumKeptBlocks(a_.config.mode) * units_ + at.unit;
  }

  void RunCell(const StepRun& at, const T* projected, const T* product) const {
    ForwardRun<T> run{};
    run.num_units = units_;
    run.count = at.count;
    run.projected = projected;
    run.product = product;
    run.kept = Kept(at);
    if (a_.config.mode == RnnMode::kGru) {
      const ParamsRegion bias =
          layout_.RecurrentBias(PseudoLayer(at.direction));
      run.recurrent_bias = Param(bias).At(2 * units_ + at.unit, 0);
      run.h_prev = State(at.step, at.direction).At(at.sample, at.unit);
    }
    if (a_.config.has_cell_state()) {
      run.c = CellState(at.direction).At(at.sample, at.unit);
    }
    const Lanes<T> h = Cell::Forward(run);
    if (is_projected_) {
      Store<T>(h, CellOutput(at.direction).At(at.sample, at.unit), at.count);
    } else {
      StoreState(at, h);
    }
  }

  // Past a sequence's end.
  void SkipCell(const StepRun& at) const {
    if (T* kept = Kept(at)) {
      for (std::int64_t block = 0; block < NumKeptBlocks(a_.config.mode);
           ++block) {
        std::fill_n(kept + block * units_, at.count, T(0));
      }
    }
    if (is_projected_) {
      std::fill_n(CellOutput(at.direction).At(at.sample, at.unit), at.count,
                  T(0));
    } else {
      SkipState(at);
    }
  }

  // h = P (o ∘ tanh(c))
  void StepProjection(std::int64_t step, const StepTask& task,
                      int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = TimeOfStep(d, step, time_);
    const PackedMatrix<T> projection = Projection(d);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product =
          Product(task, num_panels * kPanelCols<T>, worker);
      MultiplyPanels(Constant(CellOutput(d)).Rows(task.row, task.rows),
                     projection.Panel(panel), projection.panel_size(),
                     NoMatrix<T>(), product);
      task.ForEachRun<T>(
          panel, num_panels, output_size_, step, t, [&](const StepRun& run) {
            if (!a_.lengths.IsValid(t, run.sample)) {
              SkipState(run);
              return;
            }
            const T* h = product.At(run.sample - task.row,
                                    run.unit - panel * kPanelCols<T>);
            StoreState(run, Load(h, run.count));
          });
    });
  }

  void StoreState(const StepRun& at, const Lanes<T>& h) const {
    const MatrixView<T> next = State(at.step + 1, at.direction);
    Store<T>(h, next.At(at.sample, at.unit), at.count);
    Store<T>(h, Output(at.time, at.direction).At(at.sample, at.unit), at.count);
  }

  // The state stays as it was.
  void SkipState(const StepRun& at) const {
    const MatrixView<T> next = State(at.step + 1, at.direction);
    std::copy_n(State(at.step, at.direction).At(at.sample, at.unit), at.count,
                next.At(at.sample, at.unit));
    std::fill_n(Output(at.time, at.direction).At(at.sample, at.unit), at.count,
                T(0));
  }

  const LayerForwardArguments<T> a_;
  const LayerForwardScratch<T> scratch_;
  Executor& executor_;
  const CudnnRnnParamsLayout layout_;
  const std::int64_t time_;
  const std::int64_t batch_;
  const std::int64_t units_;
  const std::int64_t output_size_;
  const std::int64_t directions_;
  const std::int64_t fan_in_;
  const bool skips_input_;
  const bool is_projected_;
  const std::int64_t group_size_;
  const StepTasks cell_tasks_;
  const StepTasks projection_tasks_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_FORWARD_H_
