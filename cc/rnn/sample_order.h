// The order in which a network takes the samples of a batch.

#ifndef TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_
#define TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// How many samples all steps compute together: each those up to the last one
// that is not over.
// lengths: [count]
double ComputedSteps(const std::int32_t* lengths, std::int64_t count);

// Whether it saves time to sort the samples, the longest first: a step then
// computes only sequences that have not ended, but inputs and outputs must be
// copied. The same for any number of threads. The backward pass takes them as
// the forward pass did: reserve_space says how.
//
// lengths: [batch], or null where all are `time`.
bool IsWorthSorting(const std::int32_t* lengths, const RnnConfig& config,
                    const RnnSize& size, bool is_training);

// samples: [batch], the samples longest first; those of the same length as they
// come.
void SortSamples(const std::int32_t* lengths, std::int64_t batch,
                 std::int64_t* samples);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_SAMPLE_ORDER_H_
