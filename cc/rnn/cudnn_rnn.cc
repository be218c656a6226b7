#include "cc/rnn/cudnn_rnn.h"

#include "cc/rnn/simd/cudnn_rnn.h"

namespace tf_rnn_ops::rnn {

template <typename T>
CudnnRnnKernels<T> GetCudnnRnnKernels(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(__x86_64__)
    case InstructionSet::kAvx512:
      return avx512::CudnnRnn<T>();
    case InstructionSet::kAvx2:
      return avx2::CudnnRnn<T>();
#endif
    default:
      return baseline::CudnnRnn<T>();
  }
}

#define INSTANTIATE(T) \
  template CudnnRnnKernels<T> GetCudnnRnnKernels<T>(InstructionSet)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
