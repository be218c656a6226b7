#include "cc/rnn/sample_order.h"

#include <algorithm>
#include <numeric>

#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::rnn {

double ComputedSteps(const std::int32_t* lengths, std::int64_t count) {
  double steps = 0;
  std::int32_t longest = 0;
  for (; count > 0; --count) {
    longest = std::max(longest, lengths[count - 1]);
    steps += longest;
  }
  return steps;
}

bool IsWorthSorting(const std::int32_t* lengths, const RnnConfig& config,
                    const RnnSize& size, bool is_training) {
  if (lengths == nullptr) return false;
  // Number of multiply-adds that take as long as copying an element. The
  // backward pass copies twice as many elements and saves half as much.
  const double copy_work = is_training ? 256 : 128;
  const double unsorted_steps = ComputedSteps(lengths, size.batch);
  const double sorted_steps =
      std::accumulate(lengths, lengths + size.batch, 0.0);
  const double copied = static_cast<double>(size.time) *
                        static_cast<double>(size.batch) *
                        (static_cast<double>(config.input_size) +
                         static_cast<double>(config.num_directions) *
                             static_cast<double>(config.output_size()));
  // One step of one sample uses each weight once.
  const double step_work = static_cast<double>(CudnnRnnParamsSize(config));
  return (unsorted_steps - sorted_steps) * step_work > copied * copy_work;
}

void SortSamples(const std::int32_t* lengths, std::int64_t batch,
                 std::int64_t* samples) {
  std::iota(samples, samples + batch, std::int64_t{0});
  // std::stable_sort would allocate memory.
  std::sort(samples, samples + batch,
            [lengths](std::int64_t a, std::int64_t b) {
              return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
            });
}

}  // namespace tf_rnn_ops::rnn
