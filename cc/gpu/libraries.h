// The libraries that the engine opens at run time.

#ifndef TF_RNN_OPS_CC_GPU_LIBRARIES_H_
#define TF_RNN_OPS_CC_GPU_LIBRARIES_H_

namespace tf_rnn_ops::gpu {

// The driver, cuDNN and cuBLAS, each in a line: its version and file, or why it
// cannot be opened. Opens them. The string lives as long as the program.
const char* DescribeLibraries();

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_LIBRARIES_H_
