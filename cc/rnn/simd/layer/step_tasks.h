// Splits a time step into tasks over rows and columns.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_TASKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_TASKS_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/sample_order.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/cache.h"
#include "cc/rnn/simd/vector/lanes.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A task of a step: some rows of some panels of one direction. A panel is
// kTileCols units.
struct StepTask {
  std::int64_t direction;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t first_panel;
  std::int64_t last_panel;  // exclusive

  // The panel that follows, in this step or the next.
  std::int64_t PanelAfter(std::int64_t panel) const {
    return panel + 1 < last_panel ? panel + 1 : first_panel;
  }

  // Calls body(panel, num_panels) for groups of at most `panels_at_once`.
  template <typename Body>
  void ForEachPanelGroup(std::int64_t panels_at_once, const Body& body) const {
    for (std::int64_t panel = first_panel; panel < last_panel;
         panel += panels_at_once) {
      body(panel, Min(panels_at_once, last_panel - panel));
    }
  }

  // Calls body(unit, units) for the vectors of `num_panels` panels of
  // `num_units` units, where `units` is a WholeVector or a PartialVector.
  template <typename T, typename Body>
  static void ForEachVector(std::int64_t panel, std::int64_t num_panels,
                            std::int64_t num_units, const Body& body) {
    constexpr std::int64_t kElements = kVectorElements<T>;
    const std::int64_t end =
        Min((panel + num_panels) * kTileCols<T>, num_units);
    std::int64_t unit = panel * kTileCols<T>;
    for (; unit + kElements <= end; unit += kElements) {
      body(unit, WholeVector<T>());
    }
    if (unit < end) body(unit, PartialVector<T>{end - unit});
  }
};

// Number of panels, of `blocks` blocks each, that a task multiplies before it
// runs their cells: few enough that the products stay in the first-level cache,
// but enough for the widest tiles.
template <typename T>
std::int64_t GroupSize(std::int64_t rows, std::int64_t blocks) {
  constexpr std::int64_t kMostElements = (64 << 10) / sizeof(T);
  const std::int64_t panels =
      kMostElements / (Min(rows, kMostElements) * blocks * kTileCols<T> + 1);
  return Max(1, Min(panels, 2 * kWidest));
}

// The valid steps of a batch of sequences of different lengths.
class SequenceLengths {
 public:
  SequenceLengths() = default;
  // lengths: [batch], or null if all are `time`.
  SequenceLengths(const std::int32_t* lengths, std::int64_t time)
      : lengths_(lengths), time_(time) {}

  std::int64_t of(std::int64_t sample) const {
    if (lengths_ == nullptr) return time_;
    assert(lengths_[sample] >= 0 && lengths_[sample] <= time_);
    return lengths_[sample];
  }
  bool IsValid(std::int64_t t, std::int64_t sample) const {
    return t >= 0 && t < of(sample);
  }

  // Number of samples in [first, first + count) up to the last one that is
  // valid at time t.
  std::int64_t ValidSamples(std::int64_t t, std::int64_t first,
                            std::int64_t count) const {
    while (count > 0 && !IsValid(t, first + count - 1)) --count;
    return count;
  }
  // The sum of ValidSamples over all times.
  double ValidSteps(std::int64_t first, std::int64_t count) const {
    return lengths_ == nullptr
               ? static_cast<double>(count) * static_cast<double>(time_)
               : ComputedSteps(lengths_ + first, count);
  }

 private:
  const std::int32_t* lengths_ = nullptr;
  std::int64_t time_ = 0;
};

// The work of a step, or of one of its halves, for each direction. Its result
// is [rows, panels]. Each panel has `panel_weights` weights, with one
// multiply-add per weight and row.
struct StepWork {
  std::int64_t panels;
  std::int64_t panel_weights;

  double weights() const {
    return static_cast<double>(panels) * static_cast<double>(panel_weights);
  }
};

// Splits steps into tasks. The bits of the results do not depend on the split,
// so it may depend on the number of threads.
class StepTasks {
 public:
  // second: the second half of a step, if it has two, which run one after the
  // other.
  StepTasks(std::int64_t directions, std::int64_t rows,
            std::int64_t weight_bytes, const SequenceLengths& lengths,
            int num_threads, const StepWork& first, const StepWork& second = {})
      : directions_(directions), rows_(rows), has_halves_(second.panels > 0) {
    const double weights =
        first.weights() > second.weights() ? first.weights() : second.weights();
    const std::int64_t threads = CeilDiv(num_threads, directions);
    // A single thread runs a sequence to its end.
    const std::int64_t row_groups =
        num_threads == 1
            ? 1
            : threads * LeastTasks<float>(weights * static_cast<double>(rows) /
                                          static_cast<double>(threads));
    // Fewer rows keep the multipliers less busy, and more weights do not stay
    // in a thread's second-level cache from step to step.
    constexpr std::int64_t kLeastRows = 16;
    are_sequences_ =
        row_groups == 1 ||
        (rows / threads >= kLeastRows &&
         weights * static_cast<double>(weight_bytes) <= kSecondLevelBytes &&
         HaveEqualWork(lengths, threads));
    if (are_sequences_) {
      first_ = {first.panels, 1, row_groups};
      second_ = {second.panels, 1, row_groups};
    } else {
      first_ = CutOfPanels(first, num_threads);
      second_ = CutOfPanels(second, num_threads);
    }
  }

  // Calls first(step, task, worker) for each task of each step and, if a step
  // has two halves, then second(step, task, worker). Tasks see the results of
  // all earlier steps and halves. ends_with_first: whether to run the first
  // half of one more step.
  template <typename First, typename Second>
  void Run(std::int64_t num_steps, bool ends_with_first, Executor& executor,
           const First& first, const Second& second) const {
    RunTasks((has_halves_ ? 2 : 1) * num_steps + (ends_with_first ? 1 : 0),
             Max(size(first_), has_halves_ ? size(second_) : 0), executor,
             [&](std::int64_t half_step, std::int64_t i, int worker) {
               const std::int64_t step =
                   has_halves_ ? half_step / 2 : half_step;
               if (!has_halves_ || half_step % 2 == 0) {
                 if (i < size(first_)) first(step, Task(first_, i), worker);
               } else if (i < size(second_)) {
                 second(step, Task(second_, i), worker);
               }
             });
  }

 private:
  // The split of a step, or half of it, for one direction.
  struct Cut {
    std::int64_t panels;
    std::int64_t panel_groups;
    std::int64_t row_groups;
  };

  template <typename Body>
  void RunTasks(std::int64_t num_steps, std::int64_t num_tasks,
                Executor& executor, const Body& body) const {
    if (are_sequences_) {
      executor.ParallelSequences(num_steps, num_tasks, body);
    } else {
      executor.ParallelSteps(num_steps, num_tasks, body);
    }
  }

  // Whether no thread waits long for another if each has its own rows.
  bool HaveEqualWork(const SequenceLengths& lengths,
                     std::int64_t threads) const {
    constexpr double kMostWork = 1.1;  // of a thread, relative to the mean
    double most = 0;
    for (std::int64_t i = 0; i < threads; ++i) {
      const std::int64_t row = FirstRow(i, threads);
      const std::int64_t rows = FirstRow(i + 1, threads) - row;
      const double steps = lengths.ValidSteps(row, rows);
      most = steps > most ? steps : most;
    }
    return most * static_cast<double>(threads) <=
           kMostWork * lengths.ValidSteps(0, rows_);
  }
  std::int64_t FirstRow(std::int64_t group, std::int64_t groups) const {
    return group * rows_ / groups;
  }

  Cut CutOfPanels(const StepWork& step, int num_threads) const {
    if (step.panels == 0) return {0, 0, 0};
    // A task must take longer than its transfer to another thread. More tasks
    // than threads let slower threads run fewer of them. In short steps,
    // however, waiting costs less than reading weights from another thread's
    // cache.
    constexpr double kLeastWork = 1 << 15;
    constexpr double kShortWork = 1 << 22;
    const double work = step.weights() * static_cast<double>(rows_);
    const std::int64_t threads = CeilDiv(num_threads, directions_);
    const std::int64_t tasks_per_thread =
        work * static_cast<double>(directions_) < kShortWork * num_threads ? 1
                                                                           : 2;
    const std::int64_t most =
        Max(CeilDiv(tasks_per_thread * num_threads, directions_),
            threads * CeilDiv(LeastTasks<float>(work), threads));
    const std::int64_t wanted =
        work < kLeastWork * static_cast<double>(most)
            ? static_cast<std::int64_t>(work / kLeastWork) + 1
            : most;
    const std::int64_t panel_groups = Min(step.panels, wanted);
    return {step.panels, panel_groups,
            Min(CeilDiv(rows_, kMaxTileRows), CeilDiv(wanted, panel_groups))};
  }

  std::int64_t size(const Cut& cut) const {
    return directions_ * cut.panel_groups * cut.row_groups;
  }
  StepTask Task(const Cut& cut, std::int64_t index) const {
    assert(index >= 0 && index < size(cut));
    const std::int64_t rows = index % cut.row_groups;
    const std::int64_t panels = index / cut.row_groups % cut.panel_groups;
    const std::int64_t row = FirstRow(rows, cut.row_groups);
    return {index / cut.row_groups / cut.panel_groups, row,
            FirstRow(rows + 1, cut.row_groups) - row,
            panels * cut.panels / cut.panel_groups,
            (panels + 1) * cut.panels / cut.panel_groups};
  }

  std::int64_t directions_;
  std::int64_t rows_;
  bool has_halves_;
  // Whether tasks do not depend on the tasks of other rows: each has all
  // panels, and both halves are split in the same way.
  bool are_sequences_;
  Cut first_;
  Cut second_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_LAYER_STEP_TASKS_H_
