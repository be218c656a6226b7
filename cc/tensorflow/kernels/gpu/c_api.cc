// The C functions that the GPU library exports.

#include "cc/gpu/libraries.h"

#define TF_RNN_OPS_EXPORT extern "C" __attribute__((visibility("default")))

// Opens the libraries that the GPU kernels call, and describes each in a line:
// its version and file, or why it cannot be opened. The string lives as long as
// the library.
TF_RNN_OPS_EXPORT const char* TfRnnOps_GpuLibraries() {
  return tf_rnn_ops::gpu::DescribeLibraries();
}
