// How a time step is cut into tasks, and what its rows and columns are.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_STEP_TASKS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_STEP_TASKS_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/lanes.h"
#include "cc/rnn/simd/panel_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// `count` <= kLanes neighbouring units of one sample in a step of a direction.
struct StepRun {
  std::int64_t direction;
  std::int64_t step;  // counted in the order of the pass
  std::int64_t time;
  std::int64_t sample;
  std::int64_t unit;  // the first
  std::int64_t count;
};

// What one task of a step computes: some rows of some panels of one direction.
struct StepTask {
  std::int64_t direction;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t first_panel;
  std::int64_t last_panel;  // not among them

  // Calls body(panel, num_panels) for groups of at most `panels_at_once`.
  template <typename Body>
  void ForEachPanelGroup(std::int64_t panels_at_once, const Body& body) const {
    for (std::int64_t panel = first_panel; panel < last_panel;
         panel += panels_at_once) {
      body(panel, Min(panels_at_once, last_panel - panel));
    }
  }

  // Calls body(run) for the runs of `num_panels` panels of `num_units` units,
  // row by row: rows may lie pages apart.
  template <typename T, typename Body>
  void ForEachRun(std::int64_t panel, std::int64_t num_panels,
                  std::int64_t num_units, std::int64_t step, std::int64_t time,
                  const Body& body) const {
    const std::int64_t begin = panel * kPanelCols<T>;
    const std::int64_t end = Min(begin + num_panels * kPanelCols<T>, num_units);
    for (std::int64_t i = row; i < row + rows; ++i) {
      for (std::int64_t j = begin; j < end; j += kLanes<T>) {
        body(StepRun{direction, step, time, i, j, Min(kLanes<T>, end - j)});
      }
    }
  }
};

// How many panels, each for `gates` gates, a task multiplies before it goes on
// with the products' elements: as many as leave them in the second-level cache.
template <typename T>
std::int64_t GroupSize(std::int64_t rows, std::int64_t gates) {
  constexpr std::int64_t kMostPanels = 8;
  constexpr std::int64_t kMostElements = (512 << 10) / sizeof(T);
  if (rows >= kMostElements) return 1;
  const std::int64_t panel_elements = rows * gates * kPanelCols<T>;
  const std::int64_t panels = kMostElements / (panel_elements + 1);
  return panels < 1 ? 1 : Min(panels, kMostPanels);
}

// Cuts a step whose result is [directions, rows, panels] into tasks. Bits do
// not depend on the cut, so it follows the number of threads.
class StepTasks {
 public:
  // panel_work: the multiply-adds of one row of one panel.
  StepTasks(std::int64_t directions, std::int64_t rows, std::int64_t panels,
            std::int64_t panel_work, int num_threads)
      : directions_(directions), rows_(rows), panels_(panels) {
    // A task is worth the hand-over to another thread; there are enough that
    // threads which are slower take fewer.
    constexpr double kLeastWork = 1 << 15;
    constexpr std::int64_t kTasksPerThread = 2;
    const double work = static_cast<double>(rows) *
                        static_cast<double>(panels) *
                        static_cast<double>(panel_work);
    const std::int64_t most =
        num_threads == 1 ? 1
                         : CeilDiv(kTasksPerThread * num_threads, directions);
    const std::int64_t wanted =
        work < kLeastWork * static_cast<double>(most)
            ? static_cast<std::int64_t>(work / kLeastWork) + 1
            : most;
    panel_groups_ = Min(panels, wanted);
    row_groups_ = panels == 0 ? 0
                              : Min(CeilDiv(rows, kMaxTileRows),
                                    CeilDiv(wanted, panel_groups_));
  }

  std::int64_t size() const {
    return directions_ * panel_groups_ * row_groups_;
  }

  StepTask operator[](std::int64_t index) const {
    const std::int64_t rows = index % row_groups_;
    const std::int64_t panels = index / row_groups_ % panel_groups_;
    const std::int64_t row = rows * rows_ / row_groups_;
    return {index / row_groups_ / panel_groups_, row,
            (rows + 1) * rows_ / row_groups_ - row,
            panels * panels_ / panel_groups_,
            (panels + 1) * panels_ / panel_groups_};
  }

 private:
  std::int64_t directions_;
  std::int64_t rows_;
  std::int64_t panels_;
  std::int64_t panel_groups_;
  std::int64_t row_groups_;
};

// The valid steps of a batch of sequences of different lengths.
class SequenceLengths {
 public:
  // lengths: [batch], or null where all are `time`.
  SequenceLengths(const std::int32_t* lengths, std::int64_t time)
      : lengths_(lengths), time_(time) {}

  bool all_equal() const { return lengths_ == nullptr; }
  std::int64_t of(std::int64_t sample) const {
    return lengths_ == nullptr ? time_ : lengths_[sample];
  }
  bool IsValid(std::int64_t t, std::int64_t sample) const {
    return t >= 0 && t < of(sample);
  }

 private:
  const std::int32_t* lengths_;
  std::int64_t time_;
};

// The time of a direction's step `step`, forward (0) or backward (1).
inline std::int64_t TimeOfStep(std::int64_t direction, std::int64_t step,
                               std::int64_t time) {
  return direction == 0 ? step : time - 1 - step;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_STEP_TASKS_H_
