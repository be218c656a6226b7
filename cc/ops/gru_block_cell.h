// GRUBlockCell and its gradients, for any device.

#ifndef TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_

#include <cstdint>

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/status.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/gru_block_cell.h"

namespace tf_rnn_ops {

// The inputs of a forward or backward step. Finds them by name and checks that
// they fit one another.
class GruBlockCellInputs {
 public:
  explicit GruBlockCellInputs(CallFrame* frame) : frame_(frame) {}

  // Reads x, h_prev, w_ru, w_c, b_ru and b_c.
  Status ReadForwardInputs() {
    TF_RNN_OPS_RETURN_IF_ERROR(ReadSize());
    const rnn::CheckedInt fan_in =
        rnn::CheckedInt(size_.input_size) + size_.cell_size;
    const rnn::CheckedInt gates = rnn::CheckedInt(2) * size_.cell_size;
    if (!fan_in.valid() || !gates.valid()) {
      return InvalidArgument(
          "x and h_prev must have fewer columns: input_size + cell_size or 2 * "
          "cell_size overflows int64 for input_size = ",
          size_.input_size, " and cell_size = ", size_.cell_size);
    }
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "w_ru", "[input_size + cell_size, 2 * cell_size]",
                  {fan_in.value(), gates.value()}, &w_ru));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "w_c", "[input_size + cell_size, cell_size]",
                  {fan_in.value(), size_.cell_size}, &w_c));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "b_ru", "[2 * cell_size]", {gates.value()}, &b_ru));
    return ReadInput(frame_, "b_c", "[cell_size]", {size_.cell_size}, &b_c);
  }

  // Reads an input of the state's shape.
  template <typename E>
  Status ReadState(const char* name, const E** data) const {
    return ReadInput(frame_, name, "[batch, cell_size]", h_prev.shape, data);
  }

  // The error for sizes that overflow.
  Status TooLarge() const {
    return InvalidArgument(
        "x and h_prev must be smaller: the memory size of the op overflows "
        "int64 for x of shape ",
        x.shape.ToString(), " and h_prev of shape ", h_prev.shape.ToString());
  }

  const rnn::GruBlockCellSize& size() const { return size_; }

  Array x, h_prev, w_ru, w_c, b_ru, b_c;

 private:
  // Reads the sizes of the cell from x and h_prev.
  Status ReadSize() {
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "x", "[batch, input_size]",
                                         {kAnySize, kAnySize}, &x));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "h_prev", "[batch, cell_size]",
                                         {x.shape[0], kAnySize}, &h_prev));
    size_ = {x.shape[0], x.shape[1], h_prev.shape[1]};
    return Status();
  }

  CallFrame* const frame_;
  rnn::GruBlockCellSize size_{0, 0, 0};
};

// Engine<E> runs a step on one device. Its Forward and Backward take the arrays
// of the step and provide the workspace.

template <template <typename> class Engine, typename E>
class GruBlockCellForwardCall {
 public:
  Status Init(const Attributes&) { return Status(); }

  Status Run(CallFrame* frame) {
    GruBlockCellInputs inputs(frame);
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadForwardInputs());

    rnn::GruBlockCellForward<E> step{};
    const Shape& state = inputs.h_prev.shape;
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "r", state, &step.r));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "u", state, &step.u));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "c", state, &step.c));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(frame, "h", state, &step.h));
    if (!frame->has_values()) return Status();

    step.size = inputs.size();
    step.x = inputs.x.As<E>();
    step.h_prev = inputs.h_prev.As<E>();
    step.w_ru = inputs.w_ru.As<E>();
    step.w_c = inputs.w_c.As<E>();
    step.b_ru = inputs.b_ru.As<E>();
    step.b_c = inputs.b_c.As<E>();
    return engine_.Forward(frame, inputs, &step);
  }

 private:
  Engine<E> engine_;
};

// GRUBlockCellGrad and, with gradients of r, u and c, GRUBlockCellGradV2.
template <template <typename> class Engine, typename E,
          bool with_gate_gradients>
class GruBlockCellBackwardCall {
 public:
  Status Init(const Attributes&) { return Status(); }

  Status Run(CallFrame* frame) {
    GruBlockCellInputs inputs(frame);
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadForwardInputs());
    rnn::GruBlockCellBackward<E> step{};
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("r", &step.r));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("u", &step.u));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("c", &step.c));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("d_h", &step.d_h));
    if (with_gate_gradients) {
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("d_r", &step.d_r));
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("d_u", &step.d_u));
      TF_RNN_OPS_RETURN_IF_ERROR(inputs.ReadState("d_c", &step.d_c));
    }

    const Shape& state = inputs.h_prev.shape;
    const Shape gates = {inputs.size().batch, inputs.b_ru.shape[0]};
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_x", inputs.x.shape, &step.d_x));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_h_prev", state, &step.d_h_prev));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_c_bar", state, &step.d_c_bar));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_r_bar_u_bar", gates, &step.d_r_bar_u_bar));
    if (!frame->has_values()) return Status();

    step.size = inputs.size();
    step.h_prev = inputs.h_prev.As<E>();
    step.w_ru = inputs.w_ru.As<E>();
    step.w_c = inputs.w_c.As<E>();
    return engine_.Backward(frame, inputs, &step);
  }

 private:
  Engine<E> engine_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_
