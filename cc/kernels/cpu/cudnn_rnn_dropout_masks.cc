// The kernel of CudnnRNNDropoutMasks.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/kernels/cpu/engine.h"
#include "cc/kernels/cpu/kernels.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/cudnn_rnn_inputs.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

template <typename T>
class CudnnRNNDropoutMasksOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNDropoutMasksOp(OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx,
                   inputs.ReadForwardInputs(/*has_sequence_lengths=*/true));
    Tensor reserve_space;
    rnn::ReserveSpaceHeader header;
    OP_REQUIRES_OK(ctx, inputs.ReadReserveSpace(
                            [&](Tensor* tensor, std::string* mismatch) {
                              *mismatch =
                                  FindReserveSpaceMismatch<EngineType<T>>(
                                      inputs, *tensor, &header);
                              return absl::OkStatus();
                            },
                            &reserve_space));
    const std::int64_t sizes[] = {inputs.config().num_layers - 1,
                                  inputs.size().time, inputs.size().batch,
                                  inputs.output_width()};
    TensorShape shape;
    OP_REQUIRES(ctx, TensorShape::BuildTensorShape(sizes, &shape).ok(),
                inputs.TooLarge());
    Tensor* masks;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("masks", shape, &masks));
    const auto stream = rnn::ReserveSpaceStream(header);
    const bool is_double = masks->dtype() == tensorflow::DT_DOUBLE;
    OP_REQUIRES_OK(ctx, is_double ? Fill<double>(ctx, inputs, stream, masks)
                                  : Fill<float>(ctx, inputs, stream, masks));
  }

 private:
  // M: the type of the masks.
  template <typename M>
  absl::Status Fill(OpKernelContext* ctx, const CudnnRnnInputs& inputs,
                    const rnn::RandomStream& stream, Tensor* masks) const {
    rnn::PoolExecutor executor = IntraOpExecutor(ctx);
    NetworkKernels<M>(inputs).dropout_masks(inputs.config(), inputs.size(),
                                            attributes_.dropout(), stream,
                                            EngineData<M>(masks), executor);
    return CheckNotCancelled(ctx, executor);
  }

  CudnnRnnAttributes attributes_;
};

}  // namespace

void AddCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels) {
  kernels.AddForEachFloat<CudnnRNNDropoutMasksOp>("CudnnRNNDropoutMasks");
}

}  // namespace tf_rnn_ops
