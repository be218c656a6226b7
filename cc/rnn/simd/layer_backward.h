// One layer of a network over a sequence, backward.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_H_

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

// Sizes as in cc/rnn/cudnn_rnn.h; F = fan_in of the layer, K = kept blocks.
template <typename T>
struct LayerBackwardArguments {  // with B > 0 and U > 0
  RnnConfig config;
  RnnSize size;
  SequenceLengths lengths;
  std::int64_t layer;
  const T* params;    // of the whole network
  const T* input;     // [T, B, F]
  const T* input_h;   // [D, B, O], of this layer
  const T* input_c;   // [D, B, U]; LSTM only
  const T* output;    // [T, B, D * O]
  const T* kept;      // [D, T, B, K * U], by the forward pass
  const T* d_output;  // [T, B, D * O]
  T* d_input;         // [T, B, F]
  // On entry the gradients of the final states, on return those of the initial
  // ones.
  T* d_h;       // [D, B, O]
  T* d_c;       // [D, B, U]; LSTM only
  T* d_params;  // of the whole network: this layer's part is written
};

// Scratch memory, enough for any layer of the network. N = the blocks of the
// cell's gradients.
template <typename T>
struct LayerBackwardScratch {
  T* input_weights;      // a packed matrix [G * U, F]
  T* recurrent_weights;  // [D] packed matrices [G * U, O]
  T* projection;         // [D] packed matrices [O, U]
  T* d_gates;            // [D, T, B, N * U]
  T* d_projected;        // [D, T, B, O], with a projection
  T* cell_outputs;       // [D, T, B, U], with a projection
  T* first_gates;        // [B, G * U]
  T* d_biases;           // [N * U]
  T* products;           // [num_threads, B, GroupSize, kPanelCols]
  T* transposed;         // [num_threads, kTransposedScratch]

  LayerBackwardScratch(const RnnConfig& config, const RnnSize& size,
                       int num_threads, Arena& arena) {
    const CheckedInt directions = config.num_directions;
    const CheckedInt rows = CheckedInt(size.time) * size.batch;
    const CheckedInt gates = CheckedInt(config.num_gates()) * config.num_units;
    const CheckedInt gradients =
        config.mode == RnnMode::kGru ? gates + config.num_units : gates;
    const bool is_projected = config.num_proj > 0;
    const std::int64_t fan_in = config.largest_fan_in();
    const auto packed = [](CheckedInt depth, std::int64_t cols) {
      return depth * NumPanels<T>(cols) * kPanelCols<T>;
    };
    input_weights = arena.Take<T>(packed(gates, fan_in));
    recurrent_weights =
        arena.Take<T>(directions * packed(gates, config.output_size()));
    projection =
        arena.Take<T>(directions * packed(config.num_proj, config.num_units));
    d_gates = arena.Take<T>(directions * rows * gradients);
    d_projected = arena.Take<T>(directions * rows * config.num_proj);
    cell_outputs = arena.Take<T>(
        is_projected ? directions * rows * config.num_units : CheckedInt(0));
    first_gates = arena.Take<T>(gates * size.batch);
    d_biases = arena.Take<T>(gradients);
    products = arena.Take<T>(CheckedInt(num_threads) * size.batch *
                             GroupSize<T>(size.batch, 1) * kPanelCols<T>);
    transposed = arena.Take<T>(CheckedInt(num_threads) * kTransposedScratch<T>);
  }
};

template <typename T, typename Cell>
class LayerBackward {
 public:
  LayerBackward(const LayerBackwardArguments<T>& arguments,
                const LayerBackwardScratch<T>& scratch, Executor& executor)
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
        group_size_(GroupSize<T>(batch_, 1)),
        state_tasks_(directions_, batch_, NumPanels<T>(output_size_),
                     kPanelCols<T> * Cell::kGates * units_,
                     executor.num_threads()),
        cell_tasks_(directions_, batch_, NumPanels<T>(units_),
                    kPanelCols<T> * output_size_, executor.num_threads()) {}

  void Run() const {
    PackWeights();
    RunSteps();
    for (std::int64_t d = 0; d < directions_; ++d) {
      InputWeightGradient(d);
      RecurrentWeightGradient(d);
      BiasGradients(d);
      if (is_projected_) ProjectionGradient(d);
      InputGradient(d);
    }
  }

 private:
  static constexpr std::int64_t kBlocks = Cell::kGradients;

  std::int64_t PseudoLayer(std::int64_t direction) const {
    return a_.layer * directions_ + direction;
  }
  std::int64_t Gates() const { return Cell::kGates * units_; }

  // A matrix in the params buffer, and its gradient.
  MatrixView<const T> Param(const ParamsRegion& region) const {
    return {a_.params + region.offset, region.rows, region.cols};
  }
  MatrixView<T> ParamGradient(const ParamsRegion& region) const {
    return {a_.d_params + region.offset, region.rows, region.cols};
  }

  // [T * B, columns] of a direction, of an array [D, T, B, columns].
  template <typename S>
  MatrixView<S> AllSteps(S* array, std::int64_t direction,
                         std::int64_t columns) const {
    const std::int64_t rows = time_ * batch_;
    return {array + direction * rows * columns, rows, columns};
  }
  // The gradients of the cell's gates, [T * B, N * U].
  MatrixView<T> CellGradients(std::int64_t direction) const {
    return AllSteps(scratch_.d_gates, direction, kBlocks * units_);
  }
  // Those of W x, and those of R h_prev, [T * B, G * U].
  MatrixView<T> InputGates(std::int64_t direction) const {
    return CellGradients(direction).Cols(0, Gates());
  }
  MatrixView<T> RecurrentGates(std::int64_t direction) const {
    return CellGradients(direction).Cols(Cell::kFirstRecurrent * units_,
                                         Gates());
  }
  MatrixView<T> ProjectedGradients(std::int64_t direction) const {
    return AllSteps(scratch_.d_projected, direction, output_size_);
  }
  MatrixView<T> CellOutputs(std::int64_t direction) const {
    return AllSteps(scratch_.cell_outputs, direction, units_);
  }
  // [T * B, O] of a direction, of an array [T, B, D * O].
  MatrixView<const T> Outputs(const T* array, std::int64_t direction) const {
    return {array + direction * output_size_, time_ * batch_, output_size_,
            directions_ * output_size_};
  }
  // Steps of a matrix [T * B, ...].
  template <typename S>
  MatrixView<S> Steps(const MatrixView<S>& matrix, std::int64_t t,
                      std::int64_t steps) const {
    return matrix.Rows(t * batch_, steps * batch_);
  }
  // [B, columns] of a direction, of an array [D, B, columns].
  template <typename S>
  MatrixView<S> OfDirection(S* array, std::int64_t direction,
                            std::int64_t columns) const {
    return {array + direction * batch_ * columns, batch_, columns};
  }

  PackedMatrix<T> RecurrentWeights(std::int64_t direction) const {
    return {scratch_.recurrent_weights +
                direction * PackedSize<T>(Gates(), output_size_),
            Gates(), output_size_};
  }
  PackedMatrix<T> Projection(std::int64_t direction) const {
    return {
        scratch_.projection + direction * PackedSize<T>(output_size_, units_),
        output_size_, units_};
  }

  void PackWeights() const {
    for (std::int64_t d = 0; d < directions_; ++d) {
      ParallelPack(Param(layout_.RecurrentMatrix(PseudoLayer(d))), 0,
                   RecurrentWeights(d), executor_);
      if (is_projected_) {
        ParallelPack(Param(layout_.Projection(PseudoLayer(d))), 0,
                     Projection(d), executor_);
      }
    }
  }

  // The time that a direction's backward step is about: `step` counts from the
  // last step of the forward pass.
  std::int64_t Time(std::int64_t direction, std::int64_t step) const {
    return TimeOfStep(1 - direction, step, time_);
  }
  // The time whose state the step at time t began with; before 0 or not valid
  // where that is the initial one.
  static std::int64_t PreviousTime(std::int64_t direction, std::int64_t t) {
    return direction == 0 ? t - 1 : t + 1;
  }

  // Runs one step more than there is time: it leaves the gradients of the
  // initial states.
  void RunSteps() const {
    if (time_ == 0) return;
    if (!is_projected_) {
      executor_.ParallelSteps(
          time_ + 1, state_tasks_.size(),
          [&](std::int64_t step, std::int64_t task, int worker) {
            StepState(step, state_tasks_[task], worker);
          });
      return;
    }
    executor_.ParallelSteps(
        2 * time_ + 1, std::max(state_tasks_.size(), cell_tasks_.size()),
        [&](std::int64_t half_step, std::int64_t task, int worker) {
          const std::int64_t step = half_step / 2;
          if (half_step % 2 == 0 && task < state_tasks_.size()) {
            StepState(step, state_tasks_[task], worker);
          }
          if (half_step % 2 == 1 && task < cell_tasks_.size()) {
            StepProjection(step, cell_tasks_[task], worker);
          }
        });
  }

  // A worker's scratch memory for a product of a task's rows.
  MatrixView<T> Product(const StepTask& task, std::int64_t num_panels,
                        int worker) const {
    const std::int64_t most = group_size_ * kPanelCols<T>;
    return {scratch_.products + worker * batch_ * most, task.rows,
            num_panels * kPanelCols<T>, most};
  }

  // The gradient of the hidden state: through R h_prev of the step after, in
  // other ways, and from the output. Then the cell's, unless there is a
  // projection in between.
  void StepState(std::int64_t step, const StepTask& task, int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = Time(d, step);
    const MatrixView<T> d_state = OfDirection(a_.d_h, d, output_size_);
    const PackedMatrix<T> weights = RecurrentWeights(d);
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product = Product(task, num_panels, worker);
      if (step > 0) {
        const MatrixView<const T> gates =
            Constant(Steps(RecurrentGates(d), Time(d, step - 1), 1));
        MultiplyPanels(gates.Rows(task.row, task.rows), weights.Panel(panel),
                       weights.panel_size(), NoMatrix<T>(), product);
      }
      task.ForEachRun<T>(
          panel, num_panels, output_size_, step, t, [&](const StepRun& run) {
            T* const to = d_state.At(run.sample, run.unit);
            Lanes<T> d_h = Load<T>(to, run.count);
            if (step > 0) {
              const T* through = product.At(run.sample - task.row,
                                            run.unit - panel * kPanelCols<T>);
              d_h += Load(through, run.count);
            }
            if (step < time_) d_h = BackwardState(run, d_h);
            Store<T>(d_h, to, run.count);
          });
    });
  }

  // Returns what the state before gets other than through R h_prev.
  Lanes<T> BackwardState(const StepRun& at, const Lanes<T>& d_state) const {
    const bool is_valid = a_.lengths.IsValid(at.time, at.sample);
    Lanes<T> d_h = d_state;
    if (is_valid) {
      d_h += Load(Outputs(a_.d_output, at.direction).At(Row(at), at.unit),
                  at.count);
    }
    if (!is_projected_) {
      if (is_valid) return RunCell(at, d_h);
      SkipCell(at);
      return d_state;
    }
    T* d_projected = ProjectedGradients(at.direction).At(Row(at), at.unit);
    Store<T>(is_valid ? d_h : Lanes<T>(Lanes<T>::Zero()), d_projected,
             at.count);
    return is_valid ? Lanes<T>(Lanes<T>::Zero()) : d_state;
  }

  // The cell's gradient, through h = P (o ∘ tanh(c)).
  void StepProjection(std::int64_t step, const StepTask& task,
                      int worker) const {
    const std::int64_t d = task.direction;
    const std::int64_t t = Time(d, step);
    const PackedMatrix<T> weights = Projection(d);
    const MatrixView<const T> d_projected =
        Constant(Steps(ProjectedGradients(d), t, 1));
    task.ForEachPanelGroup(group_size_, [&](auto panel, auto num_panels) {
      const MatrixView<T> product = Product(task, num_panels, worker);
      MultiplyPanels(d_projected.Rows(task.row, task.rows),
                     weights.Panel(panel), weights.panel_size(), NoMatrix<T>(),
                     product);
      task.ForEachRun<T>(
          panel, num_panels, units_, step, t, [&](const StepRun& run) {
            if (!a_.lengths.IsValid(t, run.sample)) {
              SkipCell(run);
              return;
            }
            const T* d_h = product.At(run.sample - task.row,
                                      run.unit - panel * kPanelCols<T>);
            RunCell(run, Load(d_h, run.count));
          });
    });
  }

  // The row of a matrix [T * B, ...].
  std::int64_t Row(const StepRun& at) const {
    return at.time * batch_ + at.sample;
  }

  Lanes<T> RunCell(const StepRun& at, const Lanes<T>& d_h) const {
    constexpr bool kIsLstm = Cell::kGates == 4;
    constexpr bool kIsGru = Cell::kGates == 3;
    const std::int64_t d = at.direction;
    const std::int64_t previous_time = PreviousTime(d, at.time);
    const bool has_previous = a_.lengths.IsValid(previous_time, at.sample);
    const std::int64_t previous_row = previous_time * batch_ + at.sample;
    const MatrixView<const T> kept =
        AllSteps(a_.kept, d, NumKeptBlocks(a_.config.mode) * units_);

    BackwardRun<T> run{};
    run.num_units = units_;
    run.count = at.count;
    run.d_h = d_h;
    run.d_gates = CellGradients(d).At(Row(at), at.unit);
    if (kIsLstm || kIsGru) run.kept = kept.At(Row(at), at.unit);
    if (kIsLstm) {
      run.c_prev =
          has_previous
              ? kept.At(previous_row, 4 * units_ + at.unit)
              : OfDirection(a_.input_c, d, units_).At(at.sample, at.unit);
      run.d_c = OfDirection(a_.d_c, d, units_).At(at.sample, at.unit);
      if (is_projected_) run.cell_output = CellOutputs(d).At(Row(at), at.unit);
    } else if (kIsGru) {
      run.h_prev =
          has_previous
              ? Outputs(a_.output, d).At(previous_row, at.unit)
              : OfDirection(a_.input_h, d, units_).At(at.sample, at.unit);
    } else {
      run.h = Outputs(a_.output, d).At(Row(at), at.unit);
    }
    return Cell::Backward(run);
  }

  // Past a sequence's end.
  void SkipCell(const StepRun& at) const {
    T* d_gates = CellGradients(at.direction).At(Row(at), at.unit);
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      std::fill_n(d_gates + block * units_, at.count, T(0));
    }
    if (is_projected_) {
      std::fill_n(CellOutputs(at.direction).At(Row(at), at.unit), at.count,
                  T(0));
    }
  }

  // Calls body(first_column, first_row, num_gates) for the neighbouring gates
  // among InputGates that are neighbours in the input matrix too: from the
  // column of the former, and from the row of the latter.
  template <typename Body>
  void ForEachInputGates(const Body& body) const {
    constexpr std::int64_t kWrapped = Cell::kGates - Cell::kFirstInputGate;
    body(0, Cell::kFirstInputGate * units_, kWrapped * units_);
    if (Cell::kFirstInputGate > 0) {
      body(kWrapped * units_, 0, Cell::kFirstInputGate * units_);
    }
  }

  // dW = (d gates)^T x
  void InputWeightGradient(std::int64_t direction) const {
    if (skips_input_) return;
    const MatrixView<const T> input(a_.input, time_ * batch_, fan_in_);
    const MatrixView<T> gradient =
        ParamGradient(layout_.InputMatrix(PseudoLayer(direction)));
    ForEachInputGates([&](auto col, auto row, auto count) {
      ParallelMultiplyTransposed(
          Constant(InputGates(direction)).Cols(col, count), input,
          /*add=*/false, scratch_.transposed, gradient.Rows(row, count),
          executor_);
    });
  }

  // dR = (d gates)^T h_prev. Where the previous time is not valid, the output
  // is zero: what the initial state contributes is added apart.
  void RecurrentWeightGradient(std::int64_t direction) const {
    const MatrixView<const T> gates = Constant(RecurrentGates(direction));
    const MatrixView<const T> states = Outputs(a_.output, direction);
    const MatrixView<T> gradient =
        ParamGradient(layout_.RecurrentMatrix(PseudoLayer(direction)));
    const std::int64_t pairs = std::max<std::int64_t>(time_ - 1, 0);
    const std::int64_t shift = Min(time_, 1);
    ParallelMultiplyTransposed(Steps(gates, direction == 0 ? shift : 0, pairs),
                               Steps(states, direction == 0 ? 0 : shift, pairs),
                               /*add=*/false, scratch_.transposed, gradient,
                               executor_);
    if (time_ == 0) return;
    ParallelMultiplyTransposed(
        FirstGates(direction),
        Constant(OfDirection(a_.input_h, direction, output_size_)),
        /*add=*/true, scratch_.transposed, gradient, executor_);
  }

  // The gradients of R h_prev at the first step of each sample, [B, G * U].
  MatrixView<const T> FirstGates(std::int64_t direction) const {
    const MatrixView<T> gates = RecurrentGates(direction);
    if (direction == 0) return Constant(Steps(gates, 0, 1));
    if (a_.lengths.all_equal()) return Constant(Steps(gates, time_ - 1, 1));
    const MatrixView<T> first(scratch_.first_gates, batch_, Gates());
    for (std::int64_t sample = 0; sample < batch_; ++sample) {
      const std::int64_t length = a_.lengths.of(sample);
      if (length == 0) {
        std::fill_n(first.At(sample, 0), Gates(), T(0));
      } else {
        std::copy_n(gates.At((length - 1) * batch_ + sample, 0), Gates(),
                    first.At(sample, 0));
      }
    }
    return Constant(first);
  }

  void BiasGradients(std::int64_t direction) const {
    T* const sums = scratch_.d_biases;
    ParallelColumnSums(Constant(CellGradients(direction)), sums, executor_);
    T* const input =
        ParamGradient(layout_.InputBias(PseudoLayer(direction))).data;
    ForEachInputGates([&](auto col, auto row, auto count) {
      std::copy_n(sums + col, count, input + row);
    });
    std::copy_n(
        sums + Cell::kFirstRecurrent * units_, Gates(),
        ParamGradient(layout_.RecurrentBias(PseudoLayer(direction))).data);
  }

  // dP = (d h)^T (o ∘ tanh(c))
  void ProjectionGradient(std::int64_t direction) const {
    ParallelMultiplyTransposed(
        Constant(ProjectedGradients(direction)),
        Constant(CellOutputs(direction)), /*add=*/false, scratch_.transposed,
        ParamGradient(layout_.Projection(PseudoLayer(direction))), executor_);
  }

  // dx = (d gates) W, summed over the directions.
  void InputGradient(std::int64_t direction) const {
    const MatrixView<T> gradient(a_.d_input, time_ * batch_, fan_in_);
    const MatrixView<const T> gates = Constant(InputGates(direction));
    const bool add = direction > 0;
    if (skips_input_) {
      SumGates(gates, add, gradient);
      return;
    }
    const PackedMatrix<T> weights{scratch_.input_weights, Gates(), fan_in_};
    const MatrixView<const T> matrix =
        Param(layout_.InputMatrix(PseudoLayer(direction)));
    ForEachInputGates([&](auto col, auto row, auto count) {
      ParallelPack(matrix.Rows(row, count), col, weights, executor_);
    });
    ParallelMultiply(gates, weights, add ? Constant(gradient) : NoMatrix<T>(),
                     gradient, executor_);
  }

  // sum = the sum of the gates, or sum += that.
  void SumGates(const MatrixView<const T>& gates, bool add,
                const MatrixView<T>& sum) const {
    executor_.ParallelFor(sum.rows, [&](std::int64_t row) {
      for (std::int64_t i = 0; i < units_; ++i) {
        T total = add ? *sum.At(row, i) : T(0);
        for (std::int64_t gate = 0; gate < Cell::kGates; ++gate) {
          total += *gates.At(row, gate * units_ + i);
        }
        *sum.At(row, i) = total;
      }
    });
  }

  const LayerBackwardArguments<T> a_;
  const LayerBackwardScratch<T> scratch_;
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
  const StepTasks state_tasks_;  // the hidden state's columns
  const StepTasks cell_tasks_;   // the cell's units, with a projection
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_BACKWARD_H_
