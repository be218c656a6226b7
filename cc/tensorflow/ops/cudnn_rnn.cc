#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/tensorflow/ops/cudnn_rnn_network.h"
#include "cc/tensorflow/ops/merge_shape.h"
#include "cc/tensorflow/ops/shape_functions.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// The sizes of a network and its sequence, inferred from the shapes of an op's
// inputs. Sizes that do not follow from these are unknown.
class SequenceShapes {
 public:
  explicit SequenceShapes(InferenceContext* c)
      : c_(c),
        network_(c),
        time_(c->UnknownDim()),
        batch_(c->UnknownDim()),
        pseudo_layers_(c->UnknownDim()) {}

  absl::Status ReadAttributes() {
    if (!c_->GetAttr("time_major", &time_major_).ok()) time_major_ = true;
    return network_.ReadAttributes();
  }

  // Reads input, input_h, input_c and, if the op has them, sequence_lengths.
  absl::Status ReadForwardInputs(bool has_sequence_lengths) {
    TF_RETURN_IF_ERROR(ReadInput("input"));
    TF_RETURN_IF_ERROR(ReadHiddenState("input_h"));
    TF_RETURN_IF_ERROR(ReadCellState("input_c"));
    return has_sequence_lengths ? ReadSequenceLengths() : absl::OkStatus();
  }

  // Reads an input of the shape of the network's input.
  absl::Status ReadInput(const char* name) {
    DimensionHandle size = network_.input_size();
    TF_RETURN_IF_ERROR(
        MergeSequence(name, "time", &time_, "input_size", &size));
    network_.set_input_size(size);
    return absl::OkStatus();
  }

  // Reads an input of the output's shape.
  absl::Status ReadOutput(const char* name) {
    DimensionHandle width;
    TF_RETURN_IF_ERROR(network_.OutputWidth(&width));
    TF_RETURN_IF_ERROR(MergeSequence(
        name, "time", &time_,
        absl::StrCat("num_directions * ", network_.output_size_name()),
        &width));
    DimensionHandle output_size;
    if (!c_->Divide(width, network_.num_directions(), true, &output_size)
             .ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " must have a multiple of num_directions = ",
          network_.num_directions(),
          " as its last dimension, but has the shape ", DebugString(name)));
    }
    if (InferenceContext::ValueKnown(output_size)) {
      network_.set_output_size(output_size);
    }
    return absl::OkStatus();
  }

  // Reads an input of the hidden state's shape.
  absl::Status ReadHiddenState(const char* name) {
    DimensionHandle size = network_.output_size();
    TF_RETURN_IF_ERROR(MergeState(name, network_.output_size_name(), &size));
    network_.set_output_size(size);
    return absl::OkStatus();
  }

  // Reads an input of the cell state's shape. Accepts any shape if the network
  // has no cell state.
  absl::Status ReadCellState(const char* name) {
    if (!network_.has_cell_state()) return absl::OkStatus();
    DimensionHandle size = network_.num_units();
    TF_RETURN_IF_ERROR(MergeState(name, "num_units", &size));
    network_.set_num_units(size);
    return absl::OkStatus();
  }

  absl::Status ReadReserveSpace() const {
    ShapeHandle merged;
    return MergeShape(c_, "reserve_space", "[reserve_space_size]",
                      InputShape(c_, "reserve_space"),
                      c_->Vector(c_->UnknownDim()), &merged);
  }

  // Completes the sizes and reads params, whose size follows from them. Call it
  // after reading all inputs above.
  absl::Status Finish() {
    DimensionHandle num_layers;
    TF_RETURN_IF_ERROR(c_->Divide(pseudo_layers_, network_.num_directions(),
                                  true, &num_layers));
    network_.set_num_layers(num_layers);
    TF_RETURN_IF_ERROR(network_.Finish());
    DimensionHandle size;
    TF_RETURN_IF_ERROR(network_.ParamsSize(&size));
    params_ = c_->Vector(size);
    return ReadParams("params");
  }

  // Reads an input of the shape of params, after Finish.
  absl::Status ReadParams(const char* name) {
    return MergeShape(c_, name, "[params_size]", InputShape(c_, name), params_,
                      &params_);
  }

  ShapeHandle Input() const { return Sequence(time_, network_.input_size()); }
  absl::Status Output(ShapeHandle* output) const {
    DimensionHandle width;
    TF_RETURN_IF_ERROR(network_.OutputWidth(&width));
    *output = Sequence(time_, width);
    return absl::OkStatus();
  }
  // The dropout masks of the inputs of all layers except the first.
  absl::Status Masks(ShapeHandle* masks) const {
    DimensionHandle layers, width;
    TF_RETURN_IF_ERROR(c_->Subtract(network_.num_layers(), 1, &layers));
    TF_RETURN_IF_ERROR(network_.OutputWidth(&width));
    *masks = c_->MakeShape({layers, time_, batch_, width});
    return absl::OkStatus();
  }
  ShapeHandle HiddenState() const {
    return Sequence(pseudo_layers_, network_.output_size());
  }
  // The shape of output_c.
  ShapeHandle CellState() const {
    return network_.has_cell_state()
               ? Sequence(pseudo_layers_, network_.num_units())
               : c_->Scalar();
  }
  // The shape of the gradient with respect to an input of the cell state's
  // shape.
  ShapeHandle CellStateOf(const char* name) const {
    return network_.has_cell_state() ? CellState() : InputShape(c_, name);
  }
  ShapeHandle Params() const { return params_; }

 private:
  absl::Status ReadSequenceLengths() {
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(MergeShape(c_, "sequence_lengths", "[batch]",
                                  InputShape(c_, "sequence_lengths"),
                                  c_->Vector(batch_), &merged));
    batch_ = c_->Dim(merged, 0);
    return absl::OkStatus();
  }

  absl::Status MergeState(const char* name, const char* size_name,
                          DimensionHandle* size) {
    TF_RETURN_IF_ERROR(MergeSequence(name, "num_layers * num_directions",
                                     &pseudo_layers_, size_name, size));
    if (!InferenceContext::ValueKnown(pseudo_layers_)) return absl::OkStatus();
    const std::int64_t pseudo_layers = InferenceContext::Value(pseudo_layers_);
    if (pseudo_layers > 0 && pseudo_layers % network_.num_directions() == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have a positive multiple of num_directions = ",
        network_.num_directions(), " as dimension ", time_major_ ? 0 : 1,
        " (num_layers * num_directions), but has the shape ",
        DebugString(name)));
  }

  // Merges an input's shape with Sequence(*steps, *size). Updates *steps,
  // batch_ and *size.
  absl::Status MergeSequence(const char* name, const char* steps_name,
                             DimensionHandle* steps,
                             const std::string& size_name,
                             DimensionHandle* size) {
    const std::string meaning =
        time_major_
            ? absl::StrCat("[", steps_name, ", batch, ", size_name, "]")
            : absl::StrCat("[batch, ", steps_name, ", ", size_name, "]");
    ShapeHandle merged;
    TF_RETURN_IF_ERROR(MergeShape(c_, name, meaning, InputShape(c_, name),
                                  Sequence(*steps, *size), &merged));
    *steps = c_->Dim(merged, time_major_ ? 0 : 1);
    batch_ = c_->Dim(merged, time_major_ ? 1 : 0);
    *size = c_->Dim(merged, 2);
    return absl::OkStatus();
  }

  // The shape of a tensor with a vector for each step, or pseudo-layer, and
  // sample.
  ShapeHandle Sequence(DimensionHandle steps, DimensionHandle size) const {
    return time_major_ ? c_->MakeShape({steps, batch_, size})
                       : c_->MakeShape({batch_, steps, size});
  }

  std::string DebugString(const char* name) const {
    return c_->DebugString(InputShape(c_, name));
  }

  InferenceContext* const c_;
  CudnnRnnNetwork network_;
  bool time_major_ = true;
  DimensionHandle time_;
  DimensionHandle batch_;
  DimensionHandle pseudo_layers_;  // num_layers * num_directions
  ShapeHandle params_;
};

absl::Status ForwardShape(InferenceContext* c, int version) {
  SequenceShapes shapes(c);
  TF_RETURN_IF_ERROR(shapes.ReadAttributes());
  TF_RETURN_IF_ERROR(shapes.ReadForwardInputs(version >= 3));
  TF_RETURN_IF_ERROR(shapes.Finish());
  bool is_training;
  TF_RETURN_IF_ERROR(c->GetAttr("is_training", &is_training));

  ShapeHandle output;
  TF_RETURN_IF_ERROR(shapes.Output(&output));
  c->set_output(0, output);
  c->set_output(1, shapes.HiddenState());
  c->set_output(2, shapes.CellState());
  c->set_output(3, is_training ? c->Vector(c->UnknownDim()) : c->Vector(0));
  if (version >= 2) {
    c->set_output(4, version == 2 && is_training ? c->Vector(2) : c->Scalar());
  }
  return absl::OkStatus();
}

absl::Status BackpropShape(InferenceContext* c, int version) {
  SequenceShapes shapes(c);
  TF_RETURN_IF_ERROR(shapes.ReadAttributes());
  TF_RETURN_IF_ERROR(shapes.ReadForwardInputs(version >= 3));
  TF_RETURN_IF_ERROR(shapes.ReadOutput("output"));
  TF_RETURN_IF_ERROR(shapes.ReadHiddenState("output_h"));
  TF_RETURN_IF_ERROR(shapes.ReadCellState("output_c"));
  TF_RETURN_IF_ERROR(shapes.ReadOutput("output_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadHiddenState("output_h_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadCellState("output_c_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadReserveSpace());
  TF_RETURN_IF_ERROR(shapes.Finish());

  c->set_output(0, shapes.Input());
  c->set_output(1, shapes.HiddenState());
  c->set_output(2, shapes.CellStateOf("input_c"));
  c->set_output(3, shapes.Params());
  return absl::OkStatus();
}

absl::Status BackpropGradShape(InferenceContext* c) {
  SequenceShapes shapes(c);
  TF_RETURN_IF_ERROR(shapes.ReadAttributes());
  TF_RETURN_IF_ERROR(shapes.ReadForwardInputs(/*has_sequence_lengths=*/true));
  TF_RETURN_IF_ERROR(shapes.ReadOutput("output"));
  TF_RETURN_IF_ERROR(shapes.ReadOutput("output_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadHiddenState("output_h_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadCellState("output_c_backprop"));
  TF_RETURN_IF_ERROR(shapes.ReadReserveSpace());
  TF_RETURN_IF_ERROR(shapes.ReadInput("input_backprop_grad"));
  TF_RETURN_IF_ERROR(shapes.ReadHiddenState("input_h_backprop_grad"));
  TF_RETURN_IF_ERROR(shapes.ReadCellState("input_c_backprop_grad"));
  TF_RETURN_IF_ERROR(shapes.Finish());
  TF_RETURN_IF_ERROR(shapes.ReadParams("params_backprop_grad"));

  ShapeHandle output;
  TF_RETURN_IF_ERROR(shapes.Output(&output));
  const std::pair<const char*, ShapeHandle> results[] = {
      {"input_grad", shapes.Input()},
      {"input_h_grad", shapes.HiddenState()},
      {"input_c_grad", shapes.CellStateOf("input_c")},
      {"params_grad", shapes.Params()},
      {"output_backprop_grad", output},
      {"output_h_backprop_grad", shapes.HiddenState()},
      {"output_c_backprop_grad", shapes.CellStateOf("output_c_backprop")},
  };
  std::vector<std::string> skip;
  TF_RETURN_IF_ERROR(c->GetAttr("skip", &skip));
  for (const auto& [name, shape] : results) {
    const bool is_skipped =
        std::find(skip.begin(), skip.end(), name) != skip.end();
    TF_RETURN_IF_ERROR(
        c->set_output(name, {is_skipped ? c->Vector(0) : shape}));
  }
  return absl::OkStatus();
}

absl::Status DropoutMasksShape(InferenceContext* c) {
  SequenceShapes shapes(c);
  TF_RETURN_IF_ERROR(shapes.ReadAttributes());
  TF_RETURN_IF_ERROR(shapes.ReadForwardInputs(/*has_sequence_lengths=*/true));
  TF_RETURN_IF_ERROR(shapes.ReadReserveSpace());
  TF_RETURN_IF_ERROR(shapes.Finish());
  ShapeHandle masks;
  TF_RETURN_IF_ERROR(shapes.Masks(&masks));
  c->set_output(0, masks);
  return absl::OkStatus();
}

}  // namespace

ShapeFunctions CudnnRnnShapes() {
  const auto forward = [](int version) {
    return [version](InferenceContext* c) { return ForwardShape(c, version); };
  };
  const auto backprop = [](int version) {
    return [version](InferenceContext* c) { return BackpropShape(c, version); };
  };
  return {{"CudnnRNN", forward(1)},
          {"CudnnRNNV2", forward(2)},
          {"CudnnRNNV3", forward(3)},
          {"StatelessCudnnRNN",
           [](InferenceContext* c) {
             TF_RETURN_IF_ERROR(ForwardShape(c, 3));
             ShapeHandle seed;
             return MergeShape(c, "seed", "[2]", InputShape(c, "seed"),
                               c->Vector(2), &seed);
           }},
          {"CudnnRNNBackprop", backprop(1)},
          {"CudnnRNNBackpropV2", backprop(2)},
          {"CudnnRNNBackpropV3", backprop(3)},
          {"CudnnRNNBackpropGrad", BackpropGradShape},
          {"CudnnRNNDropoutMasks", DropoutMasksShape}};
}

}  // namespace tf_rnn_ops
