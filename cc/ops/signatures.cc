#include <algorithm>
#include <cassert>
#include <string>
#include <string_view>
#include <vector>

#include "cc/ops/bodies.h"
#include "cc/ops/signature.h"
#include "cc/rnn/join.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {
namespace {

using AttributeList = std::vector<Attribute>;

// Concatenates lists.
template <typename T>
std::vector<T> operator+(std::vector<T> first, const std::vector<T>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Argument OnHost(const char* name, const char* doc, const char* type) {
  return {name, doc, type, /*count=*/nullptr, /*is_on_host=*/true};
}

Argument Opaque(Argument argument) {
  argument.is_opaque = true;
  return argument;
}

// The inputs of an op that packs the named ones.
Arguments WithWeights(Arguments inputs,
                      const std::vector<std::string_view>& names) {
  for (Argument& input : inputs) {
    input.is_weight =
        std::find(names.begin(), names.end(), input.name) != names.end();
  }
  return inputs;
}

constexpr char kUnlessLstm[] = "unless rnn_mode is lstm.";

// The gradients with respect to arguments; their names have the suffix.
Arguments GradientsOf(const Arguments& arguments, const char* suffix) {
  Arguments gradients;
  for (const Argument& argument : arguments) {
    const bool is_of_cell_state =
        argument.doc.find(kUnlessLstm) != std::string::npos;
    gradients.push_back(
        {argument.name + suffix,
         "Gradient with respect to " + argument.name + ", same shape." +
             (is_of_cell_state ? std::string(" Ignored or 0 ") + kUnlessLstm
                               : "")});
  }
  return gradients;
}

// "{'a', 'b'}".
template <typename Names>
std::string OneOf(const Names& names) {
  std::string list;
  for (const auto& name : names) {
    list += rnn::Join(list.empty() ? "{'" : ", '", name, "'");
  }
  return list + "}";
}

// The attribute that lists outputs not to compute.
Attribute SkipOf(const Arguments& outputs) {
  std::vector<std::string> names;
  for (const Argument& output : outputs) names.push_back(output.name);
  return {"skip: list(" + OneOf(names) + ") = []",
          "Names of outputs not to compute. Each is returned as an empty "
          "vector."};
}

Attribute Floats() { return {"T: {bfloat16, half, float, double}", ""}; }

// ---------------------------------------------------------------------------
// GRUBlockCell

Arguments CellInputs() {
  return {
      {"x", "Input, [batch, input_size]."},
      {"h_prev", "State of the previous step, [batch, cell_size]."},
      {"w_ru",
       "Weights of the reset and update gates, reset first,\n"
       "  [input_size + cell_size, 2 * cell_size]."},
      {"w_c", "Weights of the candidate, [input_size + cell_size, cell_size]."},
      {"b_ru", "Biases of the reset and update gates, [2 * cell_size]."},
      {"b_c", "Biases of the candidate, [cell_size]."}};
}

Arguments CellGates() {
  return {{"r", "Reset gate, [batch, cell_size]."},
          {"u", "Update gate, [batch, cell_size]."},
          {"c", "Candidate, [batch, cell_size]."}};
}

Arguments CellGateGradients() {
  return {{"d_r", "Gradient with respect to r, [batch, cell_size]."},
          {"d_u", "Gradient with respect to u, [batch, cell_size]."},
          {"d_c", "Gradient with respect to c, [batch, cell_size]."}};
}

Arguments CellStateGradient() {
  return {{"d_h", "Gradient with respect to h, [batch, cell_size]."}};
}

Arguments CellGradients() {
  return {{"d_x", "Gradient with respect to x, [batch, input_size]."},
          {"d_h_prev", "Gradient with respect to h_prev, [batch, cell_size]."},
          {"d_c_bar", "Gradient with respect to c_bar, [batch, cell_size]."},
          {"d_r_bar_u_bar",
           "Gradient with respect to [r_bar u_bar], [batch, 2 * cell_size]."}};
}

// TensorFlow's op lists the types that it has first.
AttributeList CellAttributes() {
  return {{"T: {float, double, half, bfloat16}", ""}};
}

std::vector<Signature> CellOps() {
  return {{"GRUBlockCell",
           "Computes one time step of a GRU cell with reset before the matrix "
           "product.",
           R"(
  [r_bar u_bar] = [x h_prev] * w_ru + b_ru
  r = sigmoid(r_bar)
  u = sigmoid(u_bar)
  c_bar = [x (h_prev . r)] * w_c + b_c
  c = tanh(c_bar)
  h = u . h_prev + (1 - u) . c

where `*` is the matrix product, `.` the element-wise product and [a b]
concatenation along the last axis. Source: Cho et al., 2014, arXiv:1406.1078.
Same as the GRUBlockCell op of TensorFlow, for more types. half and bfloat16 are
computed in float.
)",
           CellInputs(),
           CellGates() + Arguments{{"h", "New state, [batch, cell_size]."}},
           CellAttributes()},
          {"GRUBlockCellGrad",
           "Computes the gradients of one time step of GRUBlockCell.",
           R"(
  d_c_bar = d_h . (1 - u) . (1 - c . c)
  d_u_bar = d_h . (h_prev - c) . u . (1 - u)
  [d_x_2 d_h_prevr] = d_c_bar * w_c^T
  d_r_bar = d_h_prevr . h_prev . r . (1 - r)
  [d_x_1 d_h_prev_1] = [d_r_bar d_u_bar] * w_ru^T
  d_x = d_x_1 + d_x_2
  d_h_prev = d_h_prev_1 + d_h_prevr . r + d_h . u

in the notation of GRUBlockCell. The gradients of the weights follow from these:

  d_w_ru = [x h_prev]^T * d_r_bar_u_bar
  d_w_c = [x (h_prev . r)]^T * d_c_bar

The gradients of b_ru and b_c are the sums of d_r_bar_u_bar and d_c_bar over the
batch.
)",
           CellInputs() + CellGates() + CellStateGradient(), CellGradients(),
           CellAttributes()}};
}

std::vector<Signature> OtherCellOps() {
  return {
      {"GRUBlockCellGradV2",
       "Computes the gradients of GRUBlockCell from the gradients of all its "
       "outputs.",
       R"(
Same as GRUBlockCellGrad, except:

  d_c_bar = (d_c + d_h . (1 - u)) . (1 - c . c)
  d_u_bar = (d_u + d_h . (h_prev - c)) . u . (1 - u)
  d_r_bar = (d_r + d_h_prevr . h_prev) . r . (1 - r)
)",
       CellInputs() + CellGates() + CellGateGradients() + CellStateGradient(),
       CellGradients(), CellAttributes()}};
}

// ---------------------------------------------------------------------------
// LSTMBlockCell and BlockLSTM

constexpr char kLstmDoc[] = R"(
  i  = sigmoid(i_bar + wci . cs_prev)
  f  = sigmoid(f_bar + forget_bias + wcf . cs_prev)
  ci = tanh(ci_bar)
  cs = i . ci + f . cs_prev, clipped to [-cell_clip, cell_clip]
  o  = sigmoid(o_bar + wco . cs)
  co = tanh(cs)
  h  = o . co

where the four sums with the suffix _bar are [x h_prev] * w + b, `*` is the
matrix product, `.` the element-wise product and [a b] concatenation along the
last axis. Source: Hochreiter and Schmidhuber, 1997; peepholes: Gers and
Schmidhuber, 2000. Same as the op of TensorFlow, for more types. half and
bfloat16 are computed in float.
)";

constexpr char kSeqLenMaxDoc[] = R"(
The first seq_len_max steps are those of LSTMBlockCell. The results of the
others are zeros.
)";

// time: "" for the ops of one step, or "time, ".
// gates: in the order of the op.
Arguments LstmInputs(const char* time, const char* gates) {
  const auto shape = [&](const char* sizes) {
    return rnn::Join("[", time, sizes, "].");
  };
  return {
      {"x", "Input, " + shape("batch, input_size")},
      {"cs_prev", "Previous cell state, [batch, cell_size]."},
      {"h_prev", "Previous hidden state, [batch, cell_size]."},
      {"w", rnn::Join("Weights of the gates ", gates,
                      ",\n  [input_size + cell_size, 4 * cell_size].")},
      {"wci", "Peephole weights of i, [cell_size]."},
      {"wcf", "Peephole weights of f, [cell_size]."},
      {"wco", "Peephole weights of o, [cell_size]."},
      {"b", rnn::Join("Biases of the gates ", gates, ", [4 * cell_size].")}};
}

Arguments LstmOutputs(const char* time) {
  const std::string shape = rnn::Join(", [", time, "batch, cell_size].");
  return {
      {"i", "Input gate" + shape},  {"cs", "Cell state" + shape},
      {"f", "Forget gate" + shape}, {"o", "Output gate" + shape},
      {"ci", "New cell" + shape},   {"co", "Tanh of the cell state" + shape},
      {"h", "Hidden state" + shape}};
}

Arguments LstmOutputGradients() {
  return {{"cs_grad", "Gradient with respect to cs, same shape."},
          {"h_grad", "Gradient with respect to h, same shape."}};
}

Arguments PeepholeGradients() {
  return {{"wci_grad", "Gradient with respect to wci; 0 unless use_peephole."},
          {"wcf_grad", "Gradient with respect to wcf; 0 unless use_peephole."},
          {"wco_grad", "Gradient with respect to wco; 0 unless use_peephole."}};
}

Arguments SeqLenMax() {
  return {OnHost("seq_len_max",
                 "The number of steps to run, from 0 to time, a scalar.",
                 "int64")};
}

// TensorFlow's ops list the types that they have first.
Attribute LstmTypes() { return {"T: {half, float, double, bfloat16}", ""}; }
Attribute UsePeephole(const char* default_value) {
  return {rnn::Join("use_peephole: bool", default_value),
          "Whether to use wci, wcf and wco."};
}
AttributeList LstmAttributes(const char* cell_clip) {
  return {{rnn::Join("cell_clip: float = ", cell_clip),
           "The bound of the cell state; none if it is not positive."},
          UsePeephole(" = false"),
          LstmTypes()};
}
AttributeList ForgetBias() {
  return {{"forget_bias: float = 1.0", "Added to the biases of f."}};
}

constexpr char kIcfo[] = "i, ci, f, o", kIfco[] = "i, f, ci, o";
constexpr char kTime[] = "time, ";

Arguments BlockLstmGradInputs(const char* gates) {
  return SeqLenMax() + LstmInputs(kTime, gates) + LstmOutputs(kTime);
}
Arguments BlockLstmGradOutputs() {
  return GradientsOf(LstmInputs(kTime, ""), "_grad");
}

std::vector<Signature> LstmOps() {
  Arguments step_results = LstmOutputs("");
  step_results.pop_back();  // h
  return {
      {"LSTMBlockCell", "Computes one time step of an LSTM cell.", kLstmDoc,
       LstmInputs("", kIcfo), LstmOutputs(""),
       ForgetBias() + LstmAttributes("3.0")},
      {"LSTMBlockCellGrad",
       "Computes the gradients of one time step of LSTMBlockCell.",
       R"(
The gradients of x, h_prev, w and b follow from dicfo:

  [x_grad h_prev_grad] = dicfo * w^T
  w_grad = [x h_prev]^T * dicfo

and b_grad is the sum of dicfo over the batch.
)",
       LstmInputs("", kIcfo) + step_results + LstmOutputGradients(),
       Arguments{{"cs_prev_grad", "Gradient with respect to cs_prev."},
                 {"dicfo",
                  "Gradient with respect to [x h_prev] * w + b,\n"
                  "  [batch, 4 * cell_size]."}} +
           PeepholeGradients(),
       AttributeList{UsePeephole(""), LstmTypes()}},
      {"BlockLSTM", "Computes the steps of an LSTM over a sequence.",
       std::string(kLstmDoc) + kSeqLenMaxDoc,
       SeqLenMax() + LstmInputs(kTime, kIcfo), LstmOutputs(kTime),
       ForgetBias() + LstmAttributes("3.0")},
      {"BlockLSTMV2", "Computes the steps of an LSTM over a sequence.",
       std::string(kLstmDoc) + kSeqLenMaxDoc + "There is no forget_bias.\n",
       SeqLenMax() + LstmInputs(kTime, kIfco), LstmOutputs(kTime),
       LstmAttributes("0.0")},
      {"BlockLSTMGrad", "Computes the gradients of BlockLSTM.", "",
       BlockLstmGradInputs(kIcfo) + LstmOutputGradients(),
       BlockLstmGradOutputs(), AttributeList{UsePeephole(""), LstmTypes()}},
      {"BlockLSTMGradV2", "Computes the gradients of BlockLSTMV2.", "",
       BlockLstmGradInputs(kIfco) + LstmOutputGradients(),
       BlockLstmGradOutputs(), AttributeList{UsePeephole(""), LstmTypes()}}};
}

std::vector<Signature> OtherLstmOps() {
  return {{"BlockLSTMGradV3",
           "Computes the gradients of BlockLSTM or BlockLSTMV2 from the "
           "gradients of all outputs.",
           "",
           BlockLstmGradInputs("of the forward op") +
               GradientsOf(LstmOutputs(kTime), "_grad"),
           BlockLstmGradOutputs(),
           AttributeList{
               {"new_cell_second: bool",
                "Whether the gates of w are in the order of BlockLSTM, i, ci, "
                "f, o, instead of\n  that of BlockLSTMV2, i, f, ci, o."},
               UsePeephole(""),
               LstmTypes()}}};
}

// ---------------------------------------------------------------------------
// CudnnRNN

constexpr char kNetworkDoc[] = R"(
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
)";

constexpr char kSequenceDoc[] = R"(
With time_major = false, the first two dimensions of all sequences and states
are swapped: [batch, time, ...] and [batch, num_layers * num_directions, ...].

Sample b has sequence_lengths[b] steps. Its output is 0 after its last step. Its
final states are the states at its last step, or its initial states if it has no
steps. The backward direction starts at its last step.
)";

Arguments NetworkInputs() {
  return {
      {"input", "The sequence, [time, batch, input_size]."},
      {"input_h",
       "Initial hidden states,\n"
       "  [num_layers * num_directions, batch, output_size]."},
      {"input_c",
       "Initial cell states,\n"
       "  [num_layers * num_directions, batch, num_units]. Ignored\n"
       "  unless rnn_mode is lstm."},
      {"params",
       "All weights and biases, [params_size]. First the matrices of each\n"
       "  pseudo-layer: W, R and, with a projection, P, gate by gate, each\n"
       "  [num_units, fan_in] row-major. Then the biases of each\n"
       "  pseudo-layer: bW, then bR, gate by gate. Gates: lstm i, f, g, o;\n"
       "  gru r, u, n."}};
}

Arguments SequenceLengths() {
  return {OnHost("sequence_lengths",
                 "The number of steps of each sample, from 0 to time, [batch].",
                 "int32")};
}

Arguments NetworkOutputs() {
  return {{"output",
           "Hidden states of the last layer at each step,\n"
           "  [time, batch, num_directions * output_size]."},
          {"output_h", "Final hidden states, same shape as input_h."},
          {"output_c",
           "Final cell states, same shape as input_c; the scalar 0\n"
           "  unless rnn_mode is lstm."}};
}

Arguments ReserveSpace() {
  return {Opaque(
      {"reserve_space",
       "Data for the gradient op, a vector. The forward op makes it from\n"
       "  the same inputs and attributes; empty unless is_training."})};
}

Arguments HostReserved() {
  return {Opaque(OnHost(
      "host_reserved",
      "Made by the forward op for the gradient op. On a GPU it\n"
      "  describes the contents of reserve_space; if it is empty, the\n"
      "  gradient op reads them, which takes longer. The CPU ignores it.",
      "int8"))};
}

Arguments OutputGradients() {
  return GradientsOf(NetworkOutputs(), "_backprop");
}
Arguments InputGradients() { return GradientsOf(NetworkInputs(), "_backprop"); }

Arguments BackpropInputs() {
  return NetworkOutputs() + OutputGradients() + ReserveSpace();
}

Arguments BackpropGradInputs() {
  return NetworkInputs() + SequenceLengths() +
         Arguments{NetworkOutputs().front()} + OutputGradients() +
         ReserveSpace() + GradientsOf(InputGradients(), "_grad");
}
Arguments BackpropGradOutputs() {
  return GradientsOf(NetworkInputs(), "_grad") +
         GradientsOf(OutputGradients(), "_grad");
}

Attribute RnnMode() {
  return {"rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru'} = 'lstm'",
          "The cell type: rnn_relu, rnn_tanh, lstm or gru."};
}
Attribute InputMode() {
  return {
      "input_mode: {'linear_input', 'skip_input', 'auto_select'} = "
      "'linear_input'",
      "linear_input multiplies the input by the matrices W of layer 0.\n"
      "  skip_input adds it to every gate instead, has no matrices W in layer "
      "0\n"
      "  and requires input_size = num_units. auto_select is skip_input if "
      "the\n"
      "  two are equal, else linear_input."};
}
Attribute Direction() {
  return {"direction: {'unidirectional', 'bidirectional'} = 'unidirectional'",
          "unidirectional, or bidirectional to also run each layer backward."};
}
Attribute Dropout() {
  return {
      "dropout: float = 0.0",
      "The probability of setting an element of a layer's input to 0. Applies\n"
      "  to all layers except the first, and only if is_training."};
}
Attribute NumProj() {
  return {"num_proj: int = 0",
          "The size of the projection of an lstm, less than num_units. 0 or\n"
          "  num_units means no projection."};
}
Attribute IsTraining() {
  return {"is_training: bool = true",
          "Whether to fill reserve_space, which the "
          "gradient op requires, and to apply dropout."};
}
Attribute TimeMajor() {
  return {"time_major: bool = true",
          "Whether the time dimension comes before the batch dimension."};
}

// The attributes that all ops on networks have.
AttributeList Network() {
  return {Floats(), RnnMode(), InputMode(), Direction(), Dropout()};
}
AttributeList Seeds() {
  return {
      {"seed: int = 0",
       "Together with seed2, the seed of dropout. If both are 0, the seed is\n"
       "  random."},
      {"seed2: int = 0", "See seed."}};
}
AttributeList NumProjAndTimeMajor() { return {NumProj(), TimeMajor()}; }

std::vector<Signature> NetworkOps() {
  constexpr char kForward[] =
      "Runs a stack of recurrent layers over a sequence.";
  const Arguments outputs = NetworkOutputs() + ReserveSpace();
  const Arguments outputs_of_v2 = outputs + HostReserved();
  const Arguments inputs = WithWeights(NetworkInputs(), {"params"});
  const Arguments gradients = InputGradients();
  return {
      {"CudnnRNN", kForward, kNetworkDoc, inputs, outputs,
       Network() + Seeds() + AttributeList{IsTraining()}},
      {"CudnnRNNV2", kForward, kNetworkDoc, inputs, outputs_of_v2,
       Network() + Seeds() + AttributeList{IsTraining()}},
      {"CudnnRNNV3",
       "Runs a stack of recurrent layers over sequences of variable length.",
       std::string(kNetworkDoc) + kSequenceDoc, inputs + SequenceLengths(),
       outputs_of_v2,
       Network() + Seeds() +
           AttributeList{NumProj(), IsTraining(), TimeMajor()}},
      {"CudnnRNNBackprop", "Computes the gradients of CudnnRNN.", "",
       NetworkInputs() + BackpropInputs(), gradients, Network() + Seeds()},
      {"CudnnRNNBackpropV2", "Computes the gradients of CudnnRNNV2.", "",
       NetworkInputs() + BackpropInputs() + HostReserved(), gradients,
       Network() + Seeds()},
      {"CudnnRNNBackpropV3", "Computes the gradients of CudnnRNNV3.", "",
       NetworkInputs() + SequenceLengths() + BackpropInputs() + HostReserved(),
       gradients, Network() + Seeds() + NumProjAndTimeMajor()}};
}

// Ops on networks that TensorFlow does not have.
std::vector<Signature> OtherNetworkOps() {
  const Arguments inputs = NetworkInputs() + SequenceLengths();
  return {
      {"StatelessCudnnRNN",
       "Runs CudnnRNNV3 with seeds as an input: equal inputs give equal "
       "dropout masks.",
       "",
       WithWeights(inputs, {"params"}) +
           Arguments{OnHost("seed", "The two seeds of dropout, [2].", "int64")},
       NetworkOutputs() + ReserveSpace() + HostReserved(),
       Network() + AttributeList{NumProj(), IsTraining(), TimeMajor()}},
      {"CudnnRNNBackpropGrad",
       "Computes the gradients of CudnnRNNBackprop, V2 and V3.",
       R"(
Let z = (input, input_h, input_c, params), F(z) = (output, output_h, output_c)
with Jacobian J, and d the gradients with respect to the outputs of F. The
gradient op computes B(z, d) = J(z)^T d. Let v be the gradients with respect to
the outputs of B. The gradients of <v, B(z, d)> are

  with respect to d: J(z) v
  with respect to z: the derivative of B(z, d) in the direction v.

The latter are total derivatives: output and reserve_space are functions of z
and have no gradients of their own. Parts of v that are all zeros cost almost
nothing. Dropout uses the mask of the forward op, which may have run on any
device. If it has no sequence_lengths, these are time for each sample.
)",
       BackpropGradInputs(), BackpropGradOutputs(),
       Network() + NumProjAndTimeMajor() +
           AttributeList{SkipOf(BackpropGradOutputs())}},
      {"CudnnRNNDropoutMasks",
       "Recomputes the dropout masks of a run of CudnnRNN, V2 or V3, on any "
       "device.",
       R"(
If the forward op has no sequence_lengths, these are time for each sample.
)",
       inputs + ReserveSpace(),
       Arguments{
           {"masks",
            "The factors, 0 or 1 / (1 - dropout), that the inputs of all\n"
            "  layers except the first were multiplied by,\n"
            "  [num_layers - 1, time, batch, num_directions * output_size] "
            "for\n"
            "  any time_major.",
            "masks_type"}},
       Network() + NumProjAndTimeMajor() +
           AttributeList{{"masks_type: {float, double} = DT_FLOAT",
                          "The type of masks. Independent of T."}}}};
}

// ---------------------------------------------------------------------------
// The params buffer of CudnnRNN

Arguments NetworkSizes() {
  Arguments sizes = {
      OnHost("num_layers", "The number of layers, a scalar, at least 1.",
             "int32"),
      OnHost("num_units", "The number of units of each cell, a scalar.",
             "int32"),
      OnHost("input_size", "The size of the input of layer 0, a scalar.",
             "int32")};
  for (Argument& size : sizes) size.is_size = true;
  return sizes;
}

Arguments Params() {
  return {{"params",
           "The params buffer, [params_size]: all weights, each row-major,\n"
           "  then all biases."}};
}

// num_weights, num_biases: attributes.
Arguments CanonicalParams(const char* num_weights, const char* num_biases) {
  return {
      {"weights",
       "The matrices of each pseudo-layer, in the order layer 0 forward,\n"
       "  layer 0 backward, layer 1 forward, ... First W of each gate,\n"
       "  [num_units, input_size] in layer 0 ([num_units, 0] with skip_input)\n"
       "  and [num_units, num_directions * output_size] above; then R of each\n"
       "  gate, [num_units, output_size]; then, with a projection, P,\n"
       "  [output_size, num_units]. output_size is num_proj with a "
       "projection,\n"
       "  else num_units. Gates: lstm i, f, g, o; gru r, u, n.",
       "T", num_weights},
      {"biases",
       "The biases of each pseudo-layer in the same order: bW of each gate,\n"
       "  then bR of each gate, each [num_units].",
       "T", num_biases}};
}

std::vector<Signature> ParamsOps() {
  const AttributeList network = {RnnMode(),
                                 InputMode(),
                                 Direction(),
                                 {"dropout: float = 0.0", "Ignored."},
                                 {"seed: int = 0", "Ignored."},
                                 {"seed2: int = 0", "Ignored."}};
  const AttributeList with_projection = network + AttributeList{NumProj()};
  const AttributeList count = {
      Floats(),
      {"num_params: int >= 1", "The number of weights, and of biases."}};
  const AttributeList counts = {
      Floats(),
      {"num_params_weights: int >= 1", "The number of weights."},
      {"num_params_biases: int >= 1", "The number of biases."}};
  const Arguments lists = CanonicalParams("num_params", "num_params");
  const Arguments lists_of_v2 =
      CanonicalParams("num_params_weights", "num_params_biases");
  constexpr char kJoins[] = "Joins weights and biases into a params buffer.";
  constexpr char kSplits[] = "Splits a params buffer into weights and biases.";
  return {
      {"CudnnRNNParamsSize",
       "Computes the number of elements of a network's params buffer.",
       R"(
A pseudo-layer, which is one direction of one layer, has
num_units * (fan_in + output_size + 2) elements for each gate and, with a
projection, num_proj * num_units more. fan_in is input_size in layer 0, or 0
with skip_input, and num_directions * output_size above. output_size is num_proj
with a projection, else num_units.
)",
       NetworkSizes(),
       Arguments{OnHost("params_size", "The number of elements, [1].", "S")},
       AttributeList{Floats(), {"S: {int32, int64}", ""}} + with_projection,
       // The size does not depend on T, the type of the params.
       /*type_attribute=*/"S"},
      {"CudnnRNNCanonicalToParams", kJoins, "", NetworkSizes() + lists,
       Params(), count + network},
      {"CudnnRNNCanonicalToParamsV2", kJoins, "", NetworkSizes() + lists_of_v2,
       Params(), counts + with_projection},
      {"CudnnRNNParamsToCanonical", kSplits, "", NetworkSizes() + Params(),
       lists, count + network},
      {"CudnnRNNParamsToCanonicalV2", kSplits, "", NetworkSizes() + Params(),
       lists_of_v2, counts + with_projection}};
}

// ---------------------------------------------------------------------------
// KerasRNN

Arguments LayerInputs() {
  return {
      {"sequences", "The input sequences, [batch, time, features]."},
      {"mask",
       "True for the steps to use, [batch, time]; empty to use all. A masked\n"
       "  step keeps the state, and its output is the output of the previous\n"
       "  step, or zeros if there is none.",
       "bool"},
      {"initial_h",
       "The initial hidden state, [batch, units], or [0, units] for zeros."},
      {"initial_c",
       "The initial cell state, [batch, units], or [0, units] for zeros.\n"
       "  Ignored unless rnn_mode is lstm."},
      {"kernel",
       "The weights of the inputs, [features, gates * units]. Gates in Keras\n"
       "  order: lstm input, forget, cell candidate, output; the grus update,\n"
       "  reset, candidate."},
      {"recurrent_kernel",
       "The weights of the hidden state, [units, gates * units]."},
      {"bias",
       "The biases, [gates * units]. For gru [2, gates * units]: the input\n"
       "  bias and the recurrent bias. Empty for no bias."}};
}

// They come after all other inputs, so that calls without them are those of
// before.
Arguments LayerMasks() {
  return {
      {"input_masks",
       "Dropout masks of the sequences: what they are multiplied by before\n"
       "  kernel multiplies them, [batch, features] for all steps, or\n"
       "  [batch, time, features]. One for all gates, one for each gate, or\n"
       "  none for no dropout.",
       "T", "num_input_masks"},
      {"state_masks",
       "Likewise of the hidden state before recurrent_kernel multiplies\n"
       "  it, [batch, units], or [batch, time, units] in processing order.",
       "T", "num_state_masks"}};
}

Arguments LayerOutputs() {
  return {{"outputs",
           "The outputs of all steps, [batch, time, units], or of the last\n"
           "  step, [batch, units], if return_sequences is false."},
          {"final_h", "The final hidden state, [batch, units]."},
          {"final_c",
           "The final cell state, [batch, units]; zeros with the shape of\n"
           "  initial_c unless rnn_mode is lstm."}};
}

Arguments LayerDifferentiableInputs() {
  Arguments inputs = LayerInputs();
  inputs.erase(inputs.begin() + 1);  // mask
  return inputs;
}

Arguments LayerInputGradients() {
  return GradientsOf(LayerDifferentiableInputs(), "_backprop");
}

Arguments LayerBackpropInputs() {
  return LayerInputs() + GradientsOf(LayerOutputs(), "_backprop") +
         ReserveSpace() + LayerMasks();
}

Arguments LayerBackpropGradOutputs() {
  return GradientsOf(LayerDifferentiableInputs(), "_grad") +
         GradientsOf(GradientsOf(LayerOutputs(), "_backprop"), "_grad");
}

std::vector<Signature> LayerOps() {
  const std::string activations = OneOf(rnn::ActivationNames());
  const AttributeList attributes = {
      Floats(),
      {"rnn_mode: {'rnn_relu', 'rnn_tanh', 'lstm', 'gru', 'gru_reset_before', "
       "'rnn'} = 'lstm'",
       "The cell type. gru is Keras's GRU with reset_after=True,\n"
       "  gru_reset_before that with reset_after=False; rnn is its SimpleRNN."},
      {"activation: " + activations + " = 'tanh'",
       "The state activation. Only tanh for rnn_relu and rnn_tanh."},
      {"recurrent_activation: " + activations + " = 'sigmoid'",
       "The gate activation. Only sigmoid for cells without gates."},
      {"go_backwards: bool = false",
       "Whether to process the steps from last to first. The outputs are in\n"
       "  processing order."},
      {"return_sequences: bool = false",
       "Whether to return the outputs of all steps or only the last."},
      {"zero_output_for_mask: bool = false",
       "Whether the output of a masked step is zeros."},
      {"num_input_masks: int >= 0 = 0", "The number of input_masks."},
      {"num_state_masks: int >= 0 = 0", "The number of state_masks."}};
  return {
      {"KerasRNN",
       "Computes a Keras LSTM, GRU or SimpleRNN layer from its Keras weights.",
       "",
       WithWeights(LayerInputs(), {"kernel", "recurrent_kernel", "bias"}) +
           LayerMasks(),
       LayerOutputs() + ReserveSpace(),
       attributes + AttributeList{{"is_training: bool = true",
                                   "Whether to fill reserve_space, which the "
                                   "gradient op requires."}}},
      {"KerasRNNBackprop", "Computes the gradients of KerasRNN.", "",
       LayerBackpropInputs(), LayerInputGradients(), attributes},
      {"KerasRNNBackpropGrad", "Computes the gradients of KerasRNNBackprop.",
       R"(
The gradients with respect to the inputs of KerasRNN are total derivatives:
reserve_space is a function of these, and has no gradient of its own.
CudnnRNNBackpropGrad has the formulas.
)",
       LayerBackpropInputs() + GradientsOf(LayerInputGradients(), "_grad"),
       LayerBackpropGradOutputs(),
       attributes + AttributeList{SkipOf(LayerBackpropGradOutputs())}}};
}

// The same ops with weights and gradients of weights in float, beside 16-bit
// sequences: Keras's mixed precision.
std::vector<Signature> MixedLayerOps() {
  std::vector<Signature> ops = LayerOps();
  for (Signature& op : ops) {
    op.name = "Mixed" + op.name;
    op.doc += "\nWeights and their gradients are float, all else is T.\n";
    op.attributes[0].definition = "T: {bfloat16, half}";
    for (auto* arguments : {&op.inputs, &op.outputs}) {
      for (Argument& argument : *arguments) {
        for (const std::string_view weight :
             {"kernel", "recurrent_kernel", "bias"}) {
          if (argument.name.find(weight) == 0) argument.type = "float";
        }
      }
    }
  }
  return ops;
}

// ---------------------------------------------------------------------------

// Finds which ops have GPU kernels, from the list of bodies.
std::vector<Signature> WithDevices(std::vector<Signature> signatures) {
  const std::vector<std::string_view> on_gpus = {
#define TF_RNN_OPS_NAME(name, ...) #name,
#define TF_RNN_OPS_SKIP(...)
      TF_RNN_OPS_FOR_EACH_OP(TF_RNN_OPS_NAME, TF_RNN_OPS_SKIP)
#undef TF_RNN_OPS_SKIP
#undef TF_RNN_OPS_NAME
  };
  for (Signature& signature : signatures) {
    signature.runs_on_gpus = std::find(on_gpus.begin(), on_gpus.end(),
                                       signature.name) != on_gpus.end();
  }
  return signatures;
}

// Sets a field of all signatures.
template <typename Field>
std::vector<Signature> With(Field Signature::* field, Field value,
                            std::vector<Signature> signatures) {
  for (Signature& signature : signatures) signature.*field = value;
  return signatures;
}

}  // namespace

const std::vector<Signature>& Signatures() {
  static const auto* const signatures = new std::vector<Signature>(WithDevices(
      With(&Signature::builtin, BuiltinOp::kRunsOnCpus, CellOps() + LstmOps()) +
      With(&Signature::builtin, BuiltinOp::kRunsOnGpusOnly,
           With(&Signature::is_stateful, true, NetworkOps()) + ParamsOps()) +
      OtherCellOps() + OtherLstmOps() + OtherNetworkOps() + LayerOps() +
      MixedLayerOps()));
  return *signatures;
}

const Signature& FindSignature(std::string_view name) {
  const auto found = std::find_if(
      Signatures().begin(), Signatures().end(),
      [name](const Signature& signature) { return signature.name == name; });
  assert(found != Signatures().end());
  return *found;
}

}  // namespace tf_rnn_ops
