// GRUBlockCell and its gradients, for any device.

#ifndef TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_
#define TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_

#include "cc/ops/arguments.h"
#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/sizes.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The inputs of a forward or backward step. Finds them by name and checks that
// they fit one another.
class GruBlockCellInputs {
 public:
  explicit GruBlockCellInputs(CallFrame* frame) : frame_(frame) {}
  // Dimensions refer to sizes.
  GruBlockCellInputs(const GruBlockCellInputs&) = delete;

  // Reads x, h_prev, w_ru, w_c, b_ru and b_c.
  Status ReadForwardInputs() {
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "x", {batch_, input_size_}, &x));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "h_prev", {batch_, cell_size_}, &h_prev));
    TF_RNN_OPS_RETURN_IF_ERROR(CheckOverflow());
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "w_ru", {fan_in_, gates_}, &w_ru));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, "w_c", {fan_in_, cell_size_}, &w_c));
    TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame_, "b_ru", {gates_}, &b_ru));
    return ReadInput(frame_, "b_c", {cell_size_}, &b_c);
  }

  // Reads an input of the state's shape.
  template <typename E>
  Status ReadState(const char* name, const E** data) {
    Array array;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadInput(frame_, name, {batch_, cell_size_}, &array));
    *data = array.As<E>();
    return Status();
  }

  // The error for sizes that overflow.
  Status TooLarge() const {
    return InvalidArgument(
        "x and h_prev must be smaller: the memory size of the op overflows "
        "int64 for x of shape ",
        x.shape.ToString(), " and h_prev of shape ", h_prev.shape.ToString());
  }

  rnn::BlockCellSize size() const {
    return {batch_.value(), input_size_.value(), cell_size_.value()};
  }
  Shape input_shape() { return ShapeOf({batch_, input_size_}); }
  Shape state_shape() { return ShapeOf({batch_, cell_size_}); }
  Shape gates_shape() { return ShapeOf({batch_, gates_}); }

  Array x, h_prev, w_ru, w_c, b_ru, b_c;

 private:
  Status CheckOverflow() const {
    if (fan_in_.value() != Dimension::kTooLarge &&
        gates_.value() != Dimension::kTooLarge) {
      return Status();
    }
    return InvalidArgument(
        "x and h_prev must have fewer columns: ", fan_in_.name(), " or ",
        gates_.name(), " overflows int64 for x of shape ", x.shape.ToString(),
        " and h_prev of shape ", h_prev.shape.ToString());
  }

  CallFrame* const frame_;
  Size batch_{"batch"}, input_size_{"input_size"}, cell_size_{"cell_size"};
  Dimension fan_in_{input_size_, cell_size_};
  Dimension gates_{2, cell_size_};
};

// The engine of a device is the class Engines::GruBlockCell<E>. It has the
// lifetime of the op, and like the op several threads may use it at once. Its
// members run a step, and provide the workspace:
//
//   Status Forward(CallFrame*, const GruBlockCellInputs&,
//                  rnn::GruBlockCellForward<E>*) const;
//   Status Backward(CallFrame*, const GruBlockCellInputs&,
//                   rnn::GruBlockCellBackward<E>*) const;
template <typename Engines, typename E>
class GruBlockCellForwardOp {
 public:
  Status Init(const Attributes&) { return Status(); }

  Status Run(CallFrame* frame) {
    GruBlockCellInputs inputs(frame);
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return inputs.ReadForwardInputs(); }));

    rnn::GruBlockCellForward<E> step{};
    const Shape state = inputs.state_shape();
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
  typename Engines::template GruBlockCell<E> engine_;
};

// GRUBlockCellGrad and, with gradients of r, u and c, GRUBlockCellGradV2.
template <typename Engines, typename E, bool with_gate_gradients>
class GruBlockCellBackwardOp {
 public:
  Status Init(const Attributes&) { return Status(); }

  Status Run(CallFrame* frame) {
    GruBlockCellInputs inputs(frame);
    rnn::GruBlockCellBackward<E> step{};
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadAll(*frame, [&] { return Read(&inputs, &step); }));

    const Shape state = inputs.state_shape();
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_x", inputs.input_shape(), &step.d_x));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_h_prev", state, &step.d_h_prev));
    TF_RNN_OPS_RETURN_IF_ERROR(
        MakeOutput(frame, "d_c_bar", state, &step.d_c_bar));
    TF_RNN_OPS_RETURN_IF_ERROR(MakeOutput(
        frame, "d_r_bar_u_bar", inputs.gates_shape(), &step.d_r_bar_u_bar));
    if (!frame->has_values()) return Status();

    step.size = inputs.size();
    step.h_prev = inputs.h_prev.As<E>();
    step.w_ru = inputs.w_ru.As<E>();
    step.w_c = inputs.w_c.As<E>();
    return engine_.Backward(frame, inputs, &step);
  }

 private:
  static Status Read(GruBlockCellInputs* inputs,
                     rnn::GruBlockCellBackward<E>* step) {
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadForwardInputs());
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("r", &step->r));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("u", &step->u));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("c", &step->c));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("d_h", &step->d_h));
    if (!with_gate_gradients) return Status();
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("d_r", &step->d_r));
    TF_RNN_OPS_RETURN_IF_ERROR(inputs->ReadState("d_u", &step->d_u));
    return inputs->ReadState("d_c", &step->d_c);
  }

  typename Engines::template GruBlockCell<E> engine_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_GRU_BLOCK_CELL_H_
