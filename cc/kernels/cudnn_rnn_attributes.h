// What the attributes of the CudnnRNN ops say of a network.

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_ATTRIBUTES_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_ATTRIBUTES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/rnn/rnn_config.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tf_rnn_ops {

class CudnnRnnAttributes {
 public:
  // Reads those that the op has, and refuses those that no network has.
  absl::Status Read(tensorflow::OpKernelConstruction* ctx);

  rnn::RnnMode rnn_mode() const { return rnn_mode_; }
  std::int64_t num_directions() const { return num_directions_; }
  // As the attribute says: 0, or what may be num_units.
  std::int64_t num_proj() const { return num_proj_; }
  float dropout() const { return dropout_; }
  bool time_major() const { return time_major_; }

  // The network of these sizes. Refuses sizes that do not fit the attributes or
  // one another, and networks whose params cannot be counted.
  absl::Status MakeConfig(std::int64_t num_layers, std::int64_t num_units,
                          std::int64_t input_size,
                          rnn::RnnConfig* config) const;

 private:
  absl::Status Check() const;

  rnn::RnnMode rnn_mode_ = rnn::RnnMode::kLstm;
  std::string rnn_mode_name_;
  std::string input_mode_;
  std::int64_t num_directions_ = 1;
  std::int64_t num_proj_ = 0;
  float dropout_ = 0;
  bool time_major_ = true;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_ATTRIBUTES_H_
