#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/tensorflow/ops/cudnn_rnn_network.h"
#include "cc/tensorflow/ops/merge_shape.h"
#include "tensorflow/core/framework/op.h"
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

// ---------------------------------------------------------------------------
// Documentation that the versions of an op share.

constexpr char kForwardDoc[] = R"doc(
At each step a pseudo-layer, which is one direction of one layer, computes its
hidden state h from its input x and the step before it:

  rnn_relu: h = max(0, W x + bW + R h_prev + bR)
  rnn_tanh: h = tanh(W x + bW + R h_prev + bR)
  lstm:
    i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), likewise f and o
    g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
    c = f . c_prev + i . g
    h = o . tanh(c); with a projection, h = P (o . tanh(c))
  gru:
    r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), likewise u
    n = tanh(W_n x + bW_n + r . (R_n h_prev + bR_n))
    h = (1 - u) . n + u . h_prev

where `.` is the element-wise product. The output of a layer is the hidden
states of its directions, forward first, concatenated along the last axis. With
dropout applied, it is the input of the next layer. Dropout zeroes each element
with probability `dropout` and divides the others by 1 - dropout. Source: NVIDIA
cuDNN documentation, cudnnRNNMode_t. half and bfloat16 are computed in float.

output_size is num_proj with a projection, else num_units.
)doc";

constexpr char kAttributesDoc[] = R"doc(
rnn_mode: The cell type: rnn_relu, rnn_tanh, lstm or gru.
input_mode: linear_input multiplies the input by the matrices W of layer 0.
  skip_input adds it to every gate instead and requires input_size = num_units.
  auto_select is skip_input if the two are equal, else linear_input.
direction: unidirectional, or bidirectional to also run each layer backward.
dropout: The probability of setting an element of a layer's input to 0. Applies
  to all layers except the first, and only if is_training.
seed: Together with seed2, the seed of dropout. If both are 0, the seed is
  random.
seed2: See seed.
)doc";

constexpr char kForwardArgumentsDoc[] = R"doc(
input: The sequence, [time, batch, input_size].
input_h: Initial hidden states,
  [num_layers * num_directions, batch, output_size].
input_c: Initial cell states, [num_layers * num_directions, batch, num_units].
  Ignored unless rnn_mode is lstm.
params: All weights and biases, [params_size]. First the matrices of each
  pseudo-layer: W, R and, with a projection, P, gate by gate, each
  [num_units, fan_in] row-major. Then the biases of each pseudo-layer: bW, then
  bR, gate by gate. Gates: lstm i, f, g, o; gru r, u, n.
output: Hidden states of the last layer at each step,
  [time, batch, num_directions * output_size].
output_h: Final hidden states, same shape as input_h.
output_c: Final cell states, same shape as input_c; the scalar 0 unless rnn_mode
  is lstm.
reserve_space: Data for the gradient op, a vector; empty unless is_training.
is_training: Whether to apply dropout and fill reserve_space.
)doc";

constexpr char kHostReservedDoc[] = R"doc(
host_reserved: An input of the gradient op. On a GPU it describes the contents
  of reserve_space; the CPU ignores it.
)doc";

constexpr char kSequenceDoc[] = R"doc(
With time_major = false, the first two dimensions of all sequences and states
are swapped: [batch, time, ...] and [batch, num_layers * num_directions, ...].

Sample b has sequence_lengths[b] steps. Its output is 0 after its last step. Its
final states are the states at its last step, or its initial states if it has no
steps. The backward direction starts at its last step.
)doc";

constexpr char kSequenceArgumentsDoc[] = R"doc(
sequence_lengths: The number of steps of each sample, from 0 to time, [batch].
num_proj: The size of the projection of an lstm, less than num_units. 0 or
  num_units means no projection.
time_major: Whether the time dimension comes before the batch dimension.
)doc";

constexpr char kBackpropArgumentsDoc[] = R"doc(
input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
output: Output of the forward op.
output_h: Output of the forward op.
output_c: Output of the forward op.
output_backprop: Gradient with respect to output.
output_h_backprop: Gradient with respect to output_h.
output_c_backprop: Gradient with respect to output_c. Ignored unless rnn_mode is
  lstm.
reserve_space: Output of the forward op with is_training = true and the same
  attributes.
input_backprop: Gradient with respect to input.
input_h_backprop: Gradient with respect to input_h.
input_c_backprop: Gradient with respect to input_c; 0 unless rnn_mode is lstm.
params_backprop: Gradient with respect to params.
)doc";

constexpr char kBackpropHostReservedDoc[] = R"doc(
host_reserved: Output of the forward op. Ignored on the CPU.
)doc";

REGISTER_OP("TfRnnOps>CudnnRNN")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Output("output: T")
    .Output("output_h: T")
    .Output("output_c: T")
    .Output("reserve_space: T")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .Attr("is_training: bool = true")
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return ForwardShape(c, 1);
    }))
    .Doc(absl::StrCat("Runs a stack of recurrent layers over a sequence.\n",
                      kForwardDoc, kForwardArgumentsDoc, kAttributesDoc));

REGISTER_OP("TfRnnOps>CudnnRNNV2")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Output("output: T")
    .Output("output_h: T")
    .Output("output_c: T")
    .Output("reserve_space: T")
    .Output("host_reserved: int8")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .Attr("is_training: bool = true")
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return ForwardShape(c, 2);
    }))
    .Doc(absl::StrCat("Runs a stack of recurrent layers over a sequence.\n",
                      kForwardDoc, kForwardArgumentsDoc, kHostReservedDoc,
                      kAttributesDoc));

REGISTER_OP("TfRnnOps>CudnnRNNV3")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("sequence_lengths: int32")
    .Output("output: T")
    .Output("output_h: T")
    .Output("output_c: T")
    .Output("reserve_space: T")
    .Output("host_reserved: int8")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .Attr(cudnn_rnn_attr::kNumProj)
    .Attr("is_training: bool = true")
    .Attr("time_major: bool = true")
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return ForwardShape(c, 3);
    }))
    .Doc(absl::StrCat(
        "Runs a stack of recurrent layers over sequences of variable length.\n",
        kForwardDoc, kSequenceDoc, kForwardArgumentsDoc, kHostReservedDoc,
        kAttributesDoc, kSequenceArgumentsDoc));

REGISTER_OP("TfRnnOps>StatelessCudnnRNN")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("sequence_lengths: int32")
    .Input("seed: int64")
    .Output("output: T")
    .Output("output_h: T")
    .Output("output_c: T")
    .Output("reserve_space: T")
    .Output("host_reserved: int8")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kNumProj)
    .Attr("is_training: bool = true")
    .Attr("time_major: bool = true")
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ForwardShape(c, 3));
      ShapeHandle seed;
      return MergeShape(c, "seed", "[2]", InputShape(c, "seed"), c->Vector(2),
                        &seed);
    }))
    .Doc(R"doc(
Runs CudnnRNNV3 with seeds as an input: equal inputs give equal dropout masks.

input: As in CudnnRNNV3.
input_h: As in CudnnRNNV3.
input_c: As in CudnnRNNV3.
params: As in CudnnRNNV3.
sequence_lengths: As in CudnnRNNV3.
seed: The two seeds of dropout, [2].
output: As in CudnnRNNV3.
output_h: As in CudnnRNNV3.
output_c: As in CudnnRNNV3.
reserve_space: As in CudnnRNNV3.
host_reserved: As in CudnnRNNV3.
rnn_mode: As in CudnnRNNV3.
input_mode: As in CudnnRNNV3.
direction: As in CudnnRNNV3.
dropout: As in CudnnRNNV3.
num_proj: As in CudnnRNNV3.
is_training: As in CudnnRNNV3.
time_major: As in CudnnRNNV3.
)doc");

REGISTER_OP("TfRnnOps>CudnnRNNBackprop")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("output: T")
    .Input("output_h: T")
    .Input("output_c: T")
    .Input("output_backprop: T")
    .Input("output_h_backprop: T")
    .Input("output_c_backprop: T")
    .Input("reserve_space: T")
    .Output("input_backprop: T")
    .Output("input_h_backprop: T")
    .Output("input_c_backprop: T")
    .Output("params_backprop: T")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return BackpropShape(c, 1);
    }))
    .Doc(absl::StrCat("Computes the gradients of CudnnRNN.\n",
                      kBackpropArgumentsDoc, kAttributesDoc));

REGISTER_OP("TfRnnOps>CudnnRNNBackpropV2")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("output: T")
    .Input("output_h: T")
    .Input("output_c: T")
    .Input("output_backprop: T")
    .Input("output_h_backprop: T")
    .Input("output_c_backprop: T")
    .Input("reserve_space: T")
    .Input("host_reserved: int8")
    .Output("input_backprop: T")
    .Output("input_h_backprop: T")
    .Output("input_c_backprop: T")
    .Output("params_backprop: T")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return BackpropShape(c, 2);
    }))
    .Doc(absl::StrCat("Computes the gradients of CudnnRNNV2.\n",
                      kBackpropArgumentsDoc, kBackpropHostReservedDoc,
                      kAttributesDoc));

REGISTER_OP("TfRnnOps>CudnnRNNBackpropV3")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("sequence_lengths: int32")
    .Input("output: T")
    .Input("output_h: T")
    .Input("output_c: T")
    .Input("output_backprop: T")
    .Input("output_h_backprop: T")
    .Input("output_c_backprop: T")
    .Input("reserve_space: T")
    .Input("host_reserved: int8")
    .Output("input_backprop: T")
    .Output("input_h_backprop: T")
    .Output("input_c_backprop: T")
    .Output("params_backprop: T")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kSeed)
    .Attr(cudnn_rnn_attr::kSeed2)
    .Attr(cudnn_rnn_attr::kNumProj)
    .Attr("time_major: bool = true")
    .SetIsStateful()
    .SetShapeFn(CatchExceptions([](InferenceContext* c) {
      return BackpropShape(c, 3);
    }))
    .Doc(absl::StrCat("Computes the gradients of CudnnRNNV3.\n",
                      kBackpropArgumentsDoc, kBackpropHostReservedDoc,
                      kAttributesDoc, kSequenceArgumentsDoc));

REGISTER_OP("TfRnnOps>CudnnRNNBackpropGrad")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("sequence_lengths: int32")
    .Input("output: T")
    .Input("output_backprop: T")
    .Input("output_h_backprop: T")
    .Input("output_c_backprop: T")
    .Input("reserve_space: T")
    .Input("input_backprop_grad: T")
    .Input("input_h_backprop_grad: T")
    .Input("input_c_backprop_grad: T")
    .Input("params_backprop_grad: T")
    .Output("input_grad: T")
    .Output("input_h_grad: T")
    .Output("input_c_grad: T")
    .Output("params_grad: T")
    .Output("output_backprop_grad: T")
    .Output("output_h_backprop_grad: T")
    .Output("output_c_backprop_grad: T")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kNumProj)
    .Attr("time_major: bool = true")
    .Attr(
        "skip: list({'input_grad', 'input_h_grad', 'input_c_grad', "
        "'params_grad', 'output_backprop_grad', 'output_h_backprop_grad', "
        "'output_c_backprop_grad'}) = []")
    .SetShapeFn(CatchExceptions(BackpropGradShape))
    .Doc(R"doc(
Computes the gradients of CudnnRNNBackprop, V2 and V3.

Let z = (input, input_h, input_c, params), F(z) = (output, output_h, output_c)
with Jacobian J, and d the gradients with respect to the outputs of F. The
gradient op computes B(z, d) = J(z)^T d. Let v be the gradients with respect to
the outputs of B. The gradients of <v, B(z, d)> are

  with respect to d: J(z) v
  with respect to z: the derivative of B(z, d) in the direction v.

The latter are total derivatives: output and reserve_space are functions of z
and have no gradients of their own. Parts of v that are all zeros cost almost
nothing. Dropout uses the mask of the forward op.

input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
sequence_lengths: As in the forward op; time for each sample if the forward op
  has no such input.
output: Output of the forward op.
output_backprop: As in the gradient op.
output_h_backprop: As in the gradient op.
output_c_backprop: As in the gradient op.
reserve_space: Output of the forward op with is_training = true and the same
  attributes, from any device.
input_backprop_grad: Gradient with respect to input_backprop.
input_h_backprop_grad: Gradient with respect to input_h_backprop.
input_c_backprop_grad: Gradient with respect to input_c_backprop. Ignored unless
  rnn_mode is lstm.
params_backprop_grad: Gradient with respect to params_backprop.
input_grad: Gradient with respect to input.
input_h_grad: Gradient with respect to input_h.
input_c_grad: Gradient with respect to input_c; 0 unless rnn_mode is lstm.
params_grad: Gradient with respect to params.
output_backprop_grad: Gradient with respect to output_backprop.
output_h_backprop_grad: Gradient with respect to output_h_backprop.
output_c_backprop_grad: Gradient with respect to output_c_backprop; 0 unless
  rnn_mode is lstm.
rnn_mode: As in the forward op.
input_mode: As in the forward op.
direction: As in the forward op.
dropout: As in the forward op.
num_proj: As in the forward op.
time_major: As in the forward op.
skip: Names of outputs not to compute. Each is returned as an empty vector.
)doc");

REGISTER_OP("TfRnnOps>CudnnRNNDropoutMasks")
    .Attr(cudnn_rnn_attr::kT)
    .Input("input: T")
    .Input("input_h: T")
    .Input("input_c: T")
    .Input("params: T")
    .Input("sequence_lengths: int32")
    .Input("reserve_space: T")
    .Output("masks: masks_type")
    .Attr(cudnn_rnn_attr::kRnnMode)
    .Attr(cudnn_rnn_attr::kInputMode)
    .Attr(cudnn_rnn_attr::kDirection)
    .Attr(cudnn_rnn_attr::kDropout)
    .Attr(cudnn_rnn_attr::kNumProj)
    .Attr("time_major: bool = true")
    .Attr("masks_type: {float, double} = DT_FLOAT")
    .SetShapeFn(CatchExceptions(DropoutMasksShape))
    .Doc(R"doc(
Recomputes the dropout masks of a run of CudnnRNN, V2 or V3.

input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
sequence_lengths: As in the forward op; time for each sample if the forward op
  has no such input.
reserve_space: Output of the forward op with is_training = true and the same
  attributes, from any device.
masks: The factors, 0 or 1 / (1 - dropout), that the inputs of all layers except
  the first were multiplied by,
  [num_layers - 1, time, batch, num_directions * output_size] for any
  time_major.
rnn_mode: As in the forward op.
input_mode: As in the forward op.
direction: As in the forward op.
dropout: As in the forward op.
num_proj: As in the forward op.
time_major: As in the forward op.
masks_type: The type of masks. Independent of T.
)doc");

}  // namespace
}  // namespace tf_rnn_ops
