// The kernels of GRUBlockCell and its gradients, for any device.

#ifndef TF_RNN_OPS_CC_KERNELS_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_KERNELS_GRU_BLOCK_CELL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/device_kernels.h"
#include "cc/kernels/engine_type.h"
#include "cc/kernels/make_output.h"
#include "cc/kernels/read_input.h"
#include "cc/rnn/gru_block_cell.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/util/overflow.h"

namespace tf_rnn_ops {

// The inputs of a step, forward or backward, found by their names and checked
// against one another.
class GruBlockCellInputs {
 public:
  explicit GruBlockCellInputs(tensorflow::OpKernelContext* ctx) : ctx_(ctx) {}

  // Reads x, h_prev, w_ru, w_c, b_ru and b_c.
  absl::Status ReadForwardInputs() {
    TF_RETURN_IF_ERROR(ReadSize());
    const std::int64_t fan_in =
        tensorflow::AddWithoutOverflow(size_.input_size, size_.cell_size);
    const std::int64_t gates =
        tensorflow::MultiplyWithoutOverflow(2, size_.cell_size);
    if (fan_in < 0 || gates < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "x and h_prev are too wide: input_size is ", size_.input_size,
          " and cell_size is ", size_.cell_size));
    }
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "w_ru",
                                 "[input_size + cell_size, 2 * cell_size]",
                                 {fan_in, gates}, &w_ru));
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "w_c",
                                 "[input_size + cell_size, cell_size]",
                                 {fan_in, size_.cell_size}, &w_c));
    TF_RETURN_IF_ERROR(
        ReadInput(ctx_, "b_ru", "[2 * cell_size]", {gates}, &b_ru));
    return ReadInput(ctx_, "b_c", "[cell_size]", {size_.cell_size}, &b_c);
  }

  // Reads an input of the state's shape.
  absl::Status ReadState(const char* name,
                         const tensorflow::Tensor** tensor) const {
    return ReadInput(ctx_, name, "[batch, cell_size]",
                     {size_.batch, size_.cell_size}, tensor);
  }

  // The error where sizes are larger than what can be counted.
  absl::Status TooLarge() const {
    return absl::InvalidArgumentError(
        absl::StrCat("x and h_prev must take no more memory than can be "
                     "counted, but x is ",
                     x->shape().DebugString(), " and h_prev is ",
                     h_prev->shape().DebugString()));
  }

  const rnn::GruBlockCellSize& size() const { return size_; }

  const tensorflow::Tensor* x = nullptr;
  const tensorflow::Tensor* h_prev = nullptr;
  const tensorflow::Tensor* w_ru = nullptr;
  const tensorflow::Tensor* w_c = nullptr;
  const tensorflow::Tensor* b_ru = nullptr;
  const tensorflow::Tensor* b_c = nullptr;

 private:
  // The sizes of the cell, from x and h_prev.
  absl::Status ReadSize() {
    TF_RETURN_IF_ERROR(
        ReadInput(ctx_, "x", "[batch, input_size]", {kAnySize, kAnySize}, &x));
    TF_RETURN_IF_ERROR(ReadInput(ctx_, "h_prev", "[batch, cell_size]",
                                 {AxisSize(*x, 0), kAnySize}, &h_prev));
    size_ = {AxisSize(*x, 0), AxisSize(*x, 1), AxisSize(*h_prev, 1)};
    return absl::OkStatus();
  }

  tensorflow::OpKernelContext* const ctx_;
  rnn::GruBlockCellSize size_{0, 0, 0};
};

// Engine<T> runs a step on one device: its Forward and Backward are given what
// the step computes from and to, and provide the workspace.

template <template <typename> class Engine, typename T>
class GRUBlockCellOp : public tensorflow::OpKernel {
 public:
  explicit GRUBlockCellOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    GruBlockCellInputs inputs(ctx);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs());

    const tensorflow::TensorShape& state_shape = inputs.h_prev->shape();
    tensorflow::Tensor *r, *u, *c, *h;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("r", state_shape, &r));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("u", state_shape, &u));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("c", state_shape, &c));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("h", state_shape, &h));

    rnn::GruBlockCellForward<E> step{};
    step.size = inputs.size();
    step.x = EngineData<T>(*inputs.x);
    step.h_prev = EngineData<T>(*inputs.h_prev);
    step.w_ru = EngineData<T>(*inputs.w_ru);
    step.w_c = EngineData<T>(*inputs.w_c);
    step.b_ru = EngineData<T>(*inputs.b_ru);
    step.b_c = EngineData<T>(*inputs.b_c);
    step.r = EngineData<T>(r);
    step.u = EngineData<T>(u);
    step.c = EngineData<T>(c);
    step.h = EngineData<T>(h);
    OP_REQUIRES_OK(ctx, engine_.Forward(ctx, inputs, &step));
  }

 private:
  using E = EngineType<T>;

  Engine<T> engine_;
};

// GRUBlockCellGrad and, with gradients of r, u and c too, GRUBlockCellGradV2.
template <template <typename> class Engine, typename T,
          bool with_gate_gradients>
class GRUBlockCellGradOp : public tensorflow::OpKernel {
 public:
  explicit GRUBlockCellGradOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::OpKernel(ctx) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    GruBlockCellInputs inputs(ctx);
    OP_REQUIRES_OK(ctx, inputs.ReadForwardInputs());
    const tensorflow::Tensor *r, *u, *c, *d_h;
    OP_REQUIRES_OK(ctx, inputs.ReadState("r", &r));
    OP_REQUIRES_OK(ctx, inputs.ReadState("u", &u));
    OP_REQUIRES_OK(ctx, inputs.ReadState("c", &c));
    OP_REQUIRES_OK(ctx, inputs.ReadState("d_h", &d_h));

    rnn::GruBlockCellBackward<E> step{};
    if (with_gate_gradients) {
      const tensorflow::Tensor *d_r, *d_u, *d_c;
      OP_REQUIRES_OK(ctx, inputs.ReadState("d_r", &d_r));
      OP_REQUIRES_OK(ctx, inputs.ReadState("d_u", &d_u));
      OP_REQUIRES_OK(ctx, inputs.ReadState("d_c", &d_c));
      step.d_r = EngineData<T>(*d_r);
      step.d_u = EngineData<T>(*d_u);
      step.d_c = EngineData<T>(*d_c);
    }

    const tensorflow::TensorShape& state_shape = inputs.h_prev->shape();
    tensorflow::Tensor *d_x, *d_h_prev, *d_c_bar, *d_r_bar_u_bar;
    OP_REQUIRES_OK(ctx, ctx->allocate_output("d_x", inputs.x->shape(), &d_x));
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output("d_h_prev", state_shape, &d_h_prev));
    OP_REQUIRES_OK(ctx, ctx->allocate_output("d_c_bar", state_shape, &d_c_bar));
    OP_REQUIRES_OK(ctx,
                   MakeOutput(ctx, "d_r_bar_u_bar",
                              {inputs.size().batch, AxisSize(*inputs.b_ru, 0)},
                              &d_r_bar_u_bar));

    step.size = inputs.size();
    step.h_prev = EngineData<T>(*inputs.h_prev);
    step.w_ru = EngineData<T>(*inputs.w_ru);
    step.w_c = EngineData<T>(*inputs.w_c);
    step.r = EngineData<T>(*r);
    step.u = EngineData<T>(*u);
    step.c = EngineData<T>(*c);
    step.d_h = EngineData<T>(*d_h);
    step.d_x = EngineData<T>(d_x);
    step.d_h_prev = EngineData<T>(d_h_prev);
    step.d_c_bar = EngineData<T>(d_c_bar);
    step.d_r_bar_u_bar = EngineData<T>(d_r_bar_u_bar);
    OP_REQUIRES_OK(ctx, engine_.Backward(ctx, inputs, &step));
  }

 private:
  using E = EngineType<T>;

  Engine<T> engine_;
};

// Registers the kernels that run on an engine.
template <template <typename> class Engine>
struct GruBlockCellKernelsOn {
  template <typename T>
  using Cell = GRUBlockCellOp<Engine, T>;
  template <typename T>
  using Grad = GRUBlockCellGradOp<Engine, T, false>;
  template <typename T>
  using GradV2 = GRUBlockCellGradOp<Engine, T, true>;

  static void Add(const DeviceKernels& kernels) {
    kernels.AddForEachFloat<Cell>("GRUBlockCell");
    kernels.AddForEachFloat<Grad>("GRUBlockCellGrad");
    kernels.AddForEachFloat<GradV2>("GRUBlockCellGradV2");
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_GRU_BLOCK_CELL_H_
