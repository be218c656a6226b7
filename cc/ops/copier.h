// What the ops on params and the adapters need for copies.

#ifndef TF_RNN_OPS_CC_OPS_COPIER_H_
#define TF_RNN_OPS_CC_OPS_COPIER_H_

#include <cstddef>

#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// Copies within the memory of one device.
class Copier {
 public:
  virtual ~Copier() = default;

  virtual Status Init(CallFrame* frame) = 0;
  virtual Status Copy(const void* source, std::size_t num_bytes,
                      void* target) = 0;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_COPIER_H_
