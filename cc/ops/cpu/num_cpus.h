// The number of CPUs available to a call.

#ifndef TF_RNN_OPS_CC_OPS_CPU_NUM_CPUS_H_
#define TF_RNN_OPS_CC_OPS_CPU_NUM_CPUS_H_

#include <sched.h>

#include <limits>

namespace tf_rnn_ops {

// The number of CPUs that the calling thread may run on. More threads than that
// would wait for one another.
inline int NumCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    return std::numeric_limits<int>::max();  // too many for cpu_set_t
  }
  return CPU_COUNT(&cpus);
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_NUM_CPUS_H_
