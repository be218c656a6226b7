// The order in which a network processes the samples of a batch.

#ifndef TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_
#define TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// Number of samples processed, summed over all steps. Each step processes the
// samples up to the last one that has not ended.
// lengths: [count]
double ComputedSteps(const std::int32_t* lengths, std::int64_t count);

// Whether sorting the samples by decreasing length saves time. A step then
// processes only sequences that have not ended, but inputs and outputs must be
// copied. The result does not depend on the number of threads. The backward
// pass uses the order of the forward pass, which reserve_space records.
//
// lengths: [batch], or null if all are `time`.
bool IsWorthSorting(const std::int32_t* lengths, const RnnConfig& config,
                    const RnnSize& size, bool is_training);

// samples: [batch], the sample indices by decreasing length; samples of equal
// length keep their order.
void SortSamples(const std::int32_t* lengths, std::int64_t batch,
                 std::int64_t* samples);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_
