#include "cc/gpu/libraries.h"

#include <string>

#include "cc/gpu/cublas.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/cudnn.h"

namespace tf_rnn_ops::gpu {

const char* DescribeLibraries() {
  static const std::string* const lines =
      new std::string(CudaDriver::Describe() + "\n" + Cudnn::Describe() + "\n" +
                      Cublas::Describe());
  return lines->c_str();
}

}  // namespace tf_rnn_ops::gpu
