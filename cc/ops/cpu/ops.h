// All CPU ops: the interface of the engine library.

#ifndef TF_RNN_OPS_CC_OPS_CPU_OPS_H_
#define TF_RNN_OPS_CC_OPS_CPU_OPS_H_

#include <vector>

#include "cc/ops/op.h"

namespace tf_rnn_ops {

// Created once and never destroyed. Only for code that is built together with
// the library: the classes in these headers may change in any version.
extern "C" __attribute__((visibility("default"))) const std::vector<OpEntry>&
TfRnnOps_CpuOps();

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_OPS_H_
