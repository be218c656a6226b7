#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/ops/cudnn_rnn_network.h"
#include "cc/ops/merge_shape.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// What the shapes of an op's inputs say of a network and a sequence. Unknown
// sizes stay so.
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
          name, " must be a multiple of num_directions = ",
          network_.num_directions(), " wide, but is ", DebugString(name)));
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

  // Reads an input of the cell state's shape. Any shape will do if the network
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

  // To be called after all inputs above are read: completes the sizes, and
  // reads params, whose size follows from them.
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
  // Of what the input of each layer but the first is multiplied by.
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
  // Of output_c.
  ShapeHandle CellState() const {
    return network_.has_cell_state()
               ? Sequence(pseudo_layers_, network_.num_units())
               : c_->Scalar();
  }
  // Of the gradient with respect to an input of the cell state's shape.
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
        name,
        " must be of num_layers * num_directions, a positive multiple of ",
        network_.num_directions(), ", pseudo-layers, but is ",
        DebugString(name)));
  }

  // Merges an input's shape with that of Sequence(*steps, *size), and these
  // with it.
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

  // The shape of what has a vector for each step, or pseudo-layer, and entry of
  // the batch.
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
    i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), f and o alike
    g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
    c = f . c_prev + i . g
    h = o . tanh(c), or with a projection h = P (o . tanh(c))
  gru:
    r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), u alike
    n = tanh(W_n x + bW_n + r . (R_n h_prev + bR_n))
    h = (1 - u) . n + u . h_prev

where `.` is the product of elements. The hidden states of both directions,
forward first, joined along the last axis, are the output of a layer, and after
dropout the input of the next. Dropout zeroes each element with probability
`dropout` and divides the others by 1 - dropout. Source: NVIDIA's documentation
of cuDNN, cudnnRNNMode_t. half and bfloat16 are computed in float.

output_size is num_proj, or num_units where there is no projection.
)doc";

constexpr char kAttributesDoc[] = R"doc(
rnn_mode: What each step computes: rnn_relu, rnn_tanh, lstm or gru.
input_mode: linear_input multiplies the input by layer 0's matrices W;
  skip_input adds it to every gate instead, and input_size must be num_units;
  auto_select is skip_input where these are equal and linear_input elsewhere.
direction: Whether layers go over the sequence forward alone, or backward too.
dropout: The probability that an element of the input of a layer other than the
  first is set to 0, if is_training.
seed: With seed2, fixes the random numbers of dropout. If both are 0, they are
  seeded at random.
seed2: See seed.
)doc";

constexpr char kForwardArgumentsDoc[] = R"doc(
input: The sequence, [time, batch, input_size].
input_h: Hidden states before the first step,
  [num_layers * num_directions, batch, output_size].
input_c: Cell states before the first step, lstm only,
  [num_layers * num_directions, batch, num_units]. Ignored elsewhere.
params: All weights and biases, [params_size]. First all matrices,
  pseudo-layer by pseudo-layer: W, R and P if there is one, each gate by gate,
  [num_units, fan_in] row-major. Then all biases, pseudo-layer by pseudo-layer:
  bW, then bR, gate by gate. Gates: lstm i, f, g, o; gru r, u, n.
output: Hidden states of the last layer at each step,
  [time, batch, num_directions * output_size].
output_h: Hidden states after the last step, of the shape of input_h.
output_c: Cell states after the last step, of the shape of input_c; a scalar 0
  where rnn_mode is not lstm.
reserve_space: What the gradient op needs, a vector; empty unless is_training.
is_training: Whether to apply dropout and fill reserve_space.
)doc";

constexpr char kHostReservedDoc[] = R"doc(
host_reserved: For the gradient op. On a GPU it says what reserve_space is of;
  on the CPU it is of no use.
)doc";

constexpr char kSequenceDoc[] = R"doc(
With time_major = false, the first two dimensions of all sequences and states
are swapped: [batch, time, ...] and [batch, num_layers * num_directions, ...].

Entry b of the batch has sequence_lengths[b] steps. Past its last step its
output is 0; its final states are those of its last step, or the initial ones if
it has none; and the backward direction starts at its last step.
)doc";

constexpr char kSequenceArgumentsDoc[] = R"doc(
sequence_lengths: The number of steps of each entry, from 0 to time, [batch].
num_proj: The size of lstm's projection, less than num_units. 0, or num_units,
  for none.
time_major: Whether time comes before batch.
)doc";

constexpr char kBackpropArgumentsDoc[] = R"doc(
input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
output: As the forward op gave it.
output_h: As the forward op gave it.
output_c: As the forward op gave it.
output_backprop: Gradient with respect to output, of its shape.
output_h_backprop: Gradient with respect to output_h, of its shape.
output_c_backprop: Gradient with respect to output_c, of its shape. Ignored
  where rnn_mode is not lstm.
reserve_space: As the forward op gave it, with is_training = true and the same
  attributes.
input_backprop: Gradient with respect to input, of its shape.
input_h_backprop: Gradient with respect to input_h, of its shape.
input_c_backprop: Gradient with respect to input_c, of its shape; 0 where
  rnn_mode is not lstm.
params_backprop: Gradient with respect to params, of its shape.
)doc";

constexpr char kBackpropHostReservedDoc[] = R"doc(
host_reserved: That of the forward op. Ignored on the CPU.
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
    .SetShapeFn([](InferenceContext* c) { return ForwardShape(c, 1); })
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
    .SetShapeFn([](InferenceContext* c) { return ForwardShape(c, 2); })
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
    .SetShapeFn([](InferenceContext* c) { return ForwardShape(c, 3); })
    .Doc(absl::StrCat(
        "Runs a stack of recurrent layers over sequences of any lengths.\n",
        kForwardDoc, kSequenceDoc, kForwardArgumentsDoc, kHostReservedDoc,
        kAttributesDoc, kSequenceArgumentsDoc));

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
    .SetShapeFn([](InferenceContext* c) { return BackpropShape(c, 1); })
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
    .SetShapeFn([](InferenceContext* c) { return BackpropShape(c, 2); })
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
    .SetShapeFn([](InferenceContext* c) { return BackpropShape(c, 3); })
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
    .SetShapeFn(BackpropGradShape)
    .Doc(R"doc(
Computes the gradients of CudnnRNNBackprop, V2 and V3.

With z = (input, input_h, input_c, params), F(z) = (output, output_h, output_c),
J the derivative of F, and d the gradients with respect to its results, the
gradient op computes B(z, d) = J(z)^T d. With v the gradients with respect to
what that gives, those of <v, B(z, d)> are

  with respect to d: J(z) v
  with respect to z: the derivative of B(z, d) in the direction v.

The latter are total: output and reserve_space follow from z, and there are no
gradients with respect to them. Parts of v that are all zeros cost next to
nothing. Dropout has the mask of the forward op.

input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
sequence_lengths: As in the forward op; time for each entry of the batch where
  that has none.
output: As the forward op gave it.
output_backprop: As in the gradient op.
output_h_backprop: As in the gradient op.
output_c_backprop: As in the gradient op.
reserve_space: As the forward op gave it, with is_training = true and the same
  attributes, on any device.
input_backprop_grad: Gradient with respect to input_backprop, of its shape.
input_h_backprop_grad: Gradient with respect to input_h_backprop, of its shape.
input_c_backprop_grad: Gradient with respect to input_c_backprop, of its shape.
  Ignored where rnn_mode is not lstm.
params_backprop_grad: Gradient with respect to params_backprop, of its shape.
input_grad: Gradient with respect to input, of its shape.
input_h_grad: Gradient with respect to input_h, of its shape.
input_c_grad: Gradient with respect to input_c, of its shape; 0 where rnn_mode
  is not lstm.
params_grad: Gradient with respect to params, of its shape.
output_backprop_grad: Gradient with respect to output_backprop, of its shape.
output_h_backprop_grad: Gradient with respect to output_h_backprop, of its
  shape.
output_c_backprop_grad: Gradient with respect to output_c_backprop, of its
  shape; 0 where rnn_mode is not lstm.
rnn_mode: As in the forward op.
input_mode: As in the forward op.
direction: As in the forward op.
dropout: As in the forward op.
num_proj: As in the forward op.
time_major: As in the forward op.
skip: Results that are not wanted, and are vectors of no elements.
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
    .SetShapeFn(DropoutMasksShape)
    .Doc(R"doc(
Draws the dropout masks of a run of CudnnRNN, V2 or V3 again.

input: As in the forward op.
input_h: As in the forward op.
input_c: As in the forward op.
params: As in the forward op.
sequence_lengths: As in the forward op; time for each entry of the batch where
  that has none.
reserve_space: As the forward op gave it, with is_training = true and the same
  attributes, on any device.
masks: What the input of each layer but the first was multiplied by,
  [num_layers - 1, time, batch, num_directions * output_size] whatever
  time_major is: 0, or 1 / (1 - dropout).
rnn_mode: As in the forward op.
input_mode: As in the forward op.
direction: As in the forward op.
dropout: As in the forward op.
num_proj: As in the forward op.
time_major: As in the forward op.
masks_type: The type of masks, whatever T is.
)doc");

}  // namespace
}  // namespace tf_rnn_ops
