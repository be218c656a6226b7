// The kernel of CudnnRNNDropoutMasks, for any device.
//
// An engine draws masks on one device. Its members:
//
//   // As that of an engine of CudnnRNNBackpropGrad.
//   absl::Status ReadHeader(OpKernelContext*, Tensor* reserve_space,
//                           rnn::ReserveSpaceHeader*);
//   // Fills the masks, [num_layers - 1, time, batch, output width], of the
//   // type M.
//   template <typename M>
//   absl::Status Fill(OpKernelContext*, const CudnnRnnInputs&, float dropout,
//                     const rnn::RandomStream&, Tensor* masks);

#ifndef TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_DROPOUT_MASKS_H_
#define TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_DROPOUT_MASKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cc/kernels/cudnn_rnn_attributes.h"
#include "cc/kernels/cudnn_rnn_inputs.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {

template <typename Engine, typename T>
class CudnnRNNDropoutMasksOp : public tensorflow::OpKernel {
 public:
  explicit CudnnRNNDropoutMasksOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    CudnnRnnInputs inputs(ctx, attributes_);
    OP_REQUIRES_OK(ctx,
                   inputs.ReadForwardInputs(/*has_sequence_lengths=*/true));
    tensorflow::Tensor reserve_space;
    rnn::ReserveSpaceHeader header;
    OP_REQUIRES_OK(ctx, inputs.ReadReserveSpaceOfAnyDevice<EngineType<T>>(
                            [&](tensorflow::Tensor* tensor) {
                              return engine_.ReadHeader(ctx, tensor, &header);
                            },
                            header, &reserve_space));
    const std::int64_t sizes[] = {inputs.config().num_layers - 1,
                                  inputs.size().time, inputs.size().batch,
                                  inputs.output_width()};
    tensorflow::TensorShape shape;
    OP_REQUIRES(ctx,
                tensorflow::TensorShape::BuildTensorShape(sizes, &shape).ok(),
                inputs.TooLarge());
    tensorflow::Tensor* masks;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("masks", shape, &masks));
    const auto stream = rnn::ReserveSpaceStream(header);
    const float dropout = attributes_.dropout();
    OP_REQUIRES_OK(ctx, masks->dtype() == tensorflow::DT_DOUBLE
                            ? engine_.template Fill<double>(
                                  ctx, inputs, dropout, stream, masks)
                            : engine_.template Fill<float>(ctx, inputs, dropout,
                                                           stream, masks));
  }

 private:
  CudnnRnnAttributes attributes_;
  Engine engine_;
};

// Registers the kernels that run on an engine.
template <typename Engine>
struct CudnnRnnDropoutMasksKernelsOn {
  template <typename T>
  using Kernel = CudnnRNNDropoutMasksOp<Engine, T>;

  static void Add(const DeviceKernels& kernels) {
    kernels.AddForEachFloat<Kernel>("CudnnRNNDropoutMasks",
                                    {"sequence_lengths"});
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CUDNN_RNN_DROPOUT_MASKS_H_
