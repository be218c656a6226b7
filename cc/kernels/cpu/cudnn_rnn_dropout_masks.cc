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
#include "cc/rnn/float16.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/simd/dropout_masks.h"
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
    OP_REQUIRES_OK(ctx, inputs.ReadReserveSpace(
                            [&](Tensor* tensor, std::string* mismatch) {
                              *mismatch = FindMismatch(inputs, *tensor);
                              return absl::OkStatus();
                            },
                            &reserve_space));
    const TensorShape& output = inputs.output_shape();
    const TensorShape shape({inputs.config().num_layers - 1, inputs.size().time,
                             inputs.size().batch, output.dim_size(2)});
    Tensor* masks;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("masks", shape, &masks));
    Tensor computed;
    OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DataTypeToEnum<C>::value,
                                           shape, &computed));
    rnn::PoolExecutor executor = IntraOpExecutor(ctx);
    rnn::FillDropoutMasks(inputs.config(), inputs.size(), attributes_.dropout(),
                          rnn::ReserveSpaceStream(EngineData<T>(reserve_space)),
                          computed.flat<C>().data(), executor);
    masks->flat<T>() = computed.flat<C>().template cast<T>();
  }

 private:
  using C = rnn::ComputeType<EngineType<T>>;

  std::string FindMismatch(const CudnnRnnInputs& inputs,
                           const Tensor& reserve_space) const {
    const rnn::ReserveSpaceKey key = {
        inputs.config(), inputs.size(), attributes_.time_major(),
        inputs.sequence_lengths(), attributes_.dropout()};
    return rnn::ReserveSpaceMismatch(key, EngineData<T>(reserve_space),
                                     reserve_space.NumElements());
  }

  CudnnRnnAttributes attributes_;
};

}  // namespace

void AddCudnnRnnDropoutMasksKernels(const DeviceKernels& kernels) {
  kernels.AddForEachFloat<CudnnRNNDropoutMasksOp>("CudnnRNNDropoutMasks");
}

}  // namespace tf_rnn_ops
