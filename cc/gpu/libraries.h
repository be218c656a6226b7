// The libraries that the engine opens at run time.

#ifndef TF_RNN_OPS_CC_GPU_LIBRARIES_H_
#define TF_RNN_OPS_CC_GPU_LIBRARIES_H_

namespace tf_rnn_ops::gpu {

// Opens the driver, cuDNN and cuBLAS. Returns a line for each: its version and
// file, or the error. The string is valid until the program ends.
const char* DescribeLibraries();

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_LIBRARIES_H_
