#include "cc/kernels/cudnn_rnn_dropout_masks.h"

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/rnn/random_stream.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class CpuDropoutMasks {
 public:
  absl::Status ReadHeader(OpKernelContext* ctx, Tensor* reserve_space,
                          rnn::ReserveSpaceHeader* header) const {
    return ReadReserveSpaceHeader(ctx, reserve_space, header);
  }

  template <typename M>
  absl::Status Fill(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                    float dropout, const rnn::RandomStream& stream,
                    Tensor* masks) const {
    rnn::PoolExecutor executor = IntraOpExecutor(ctx);
    NetworkKernels<M>(inputs).dropout_masks(inputs.config(), inputs.size(),
                                            dropout, stream,
                                            EngineData<M>(masks), executor);
    return CheckNotCancelled(ctx, executor);
  }
};

}  // namespace

void AddCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels) {
  CudnnRnnDropoutMasksKernelsOn<CpuDropoutMasks>::Add(kernels);
}

}  // namespace tf_rnn_ops
