// All ops of the CPU: the interface of the engine's library.

#ifndef TF_RNN_OPS_CC_CALLS_CPU_OPS_H_
#define TF_RNN_OPS_CC_CALLS_CPU_OPS_H_

#include <vector>

#include "cc/calls/op.h"

namespace tf_rnn_ops {

// Made once, and never destroyed. Only for what is built together with the
// library: the classes of these headers may change from version to version.
extern "C" __attribute__((visibility("default"))) const std::vector<OpEntry>&
TfRnnOps_CpuOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_CPU_OPS_H_
