// How many CPUs there are for a call.

#ifndef TF_RNN_OPS_CC_CALLS_CPU_NUM_CPUS_H_
#define TF_RNN_OPS_CC_CALLS_CPU_NUM_CPUS_H_

#include <sched.h>

#include <limits>

namespace tf_rnn_ops {

// The CPUs that the calling thread may run on: more threads would wait for one
// another's.
inline int NumCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    return std::numeric_limits<int>::max();  // more than fit into the set
  }
  return CPU_COUNT(&cpus);
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CPU_NUM_CPUS_H_
