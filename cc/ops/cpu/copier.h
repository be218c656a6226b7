// Copies between arrays, for ops on params and for adapters.

#ifndef TF_RNN_OPS_CC_OPS_CPU_COPIER_H_
#define TF_RNN_OPS_CC_OPS_CPU_COPIER_H_

#include <algorithm>
#include <cstddef>

#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// Copies within CPU memory.
class CpuCopier {
 public:
  Status Init(CallFrame*) { return Status(); }

  Status Copy(const void* source, std::size_t num_bytes, void* target) {
    std::copy_n(static_cast<const char*>(source), num_bytes,
                static_cast<char*>(target));
    return Status();
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_COPIER_H_
