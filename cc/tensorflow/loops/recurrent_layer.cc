#include "cc/tensorflow/loops/recurrent_layer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Node;

// The inputs of a value in both orders, if it has the op.
using Pair = std::pair<const Value*, const Value*>;
std::vector<Pair> InputsOf(const Value* value, absl::string_view op) {
  if (value->op != op) return {};
  return {{value->inputs[0], value->inputs[1]},
          {value->inputs[1], value->inputs[0]}};
}

// The other input of a value, if it has the op and a number as an input.
const Value* OtherThan(double number, const Value* value,
                       absl::string_view op) {
  for (const auto& [input, other] : InputsOf(value, op)) {
    if (NumberOf(other) == number) return input;
  }
  return nullptr;
}

// The z of Keras's hard_sigmoid(z) = relu6(z + 3) / 6, or null.
const Value* InputOfHardSigmoid(const Value* value) {
  const bool is_divided = value->op == "div" &&
                          NumberOf(value->inputs[1]) == 6 &&
                          value->inputs[0]->op == "Relu6";
  return is_divided ? OtherThan(3, value->inputs[0]->inputs[0], "add")
                    : nullptr;
}

bool IsSelect(const Value* value) {
  return value->op == "Select" || value->op == "SelectV2";
}

// A value as an activation of another value, or of columns of it.
struct Activated {
  std::string activation;
  const Value* input;
  std::optional<Columns> columns{};
};

// The activations of the op KerasRNN, by the operation that computes them.
const std::map<std::string, std::string>& ActivationsByOp() {
  static const auto& activations = *new std::map<std::string, std::string>{
      {"Elu", "elu"},           {"Exp", "exponential"},
      {"Relu", "relu"},         {"Relu6", "relu6"},
      {"Selu", "selu"},         {"Sigmoid", "sigmoid"},
      {"Softplus", "softplus"}, {"Softsign", "softsign"},
      {"Tanh", "tanh"}};
  return activations;
}

Activated ActivatedOf(const Value* value) {
  const auto found = ActivationsByOp().find(value->op);
  if (found != ActivationsByOp().end()) {
    return {found->second, value->inputs[0]};
  }
  if (value->op == "LeakyRelu") {
    float slope = 0;
    tensorflow::TryGetNodeAttr(value->node->attrs(), "alpha", &slope);
    if (slope == 0.2f) return {"leaky_relu", value->inputs[0]};
  }
  const Value* const z = InputOfHardSigmoid(value);
  if (z != nullptr) return {"hard_sigmoid", z};
  // The values of a step are matrices.
  if (value->op == "columns" && value->columns.axis != 0) {
    Activated whole = ActivatedOf(value->inputs[0]);
    if (whole.activation != "linear" && !whole.columns.has_value()) {
      whole.columns = value->columns;
      return whole;
    }
  }
  return {"linear", value};
}

// A term of a sum: a factor times columns of weights, columns of a bias, or a
// product of two values.
struct Term {
  const Value* factor;  // null for a bias; or the product
  Piece piece;          // of the weights or the bias, or of nothing
  double number = 0;
};

// axis: that of the columns in the whole, 1 in a matrix and 0 in a vector.
Piece PieceOf(const Value* whole, const std::optional<Columns>& columns,
              int64_t axis) {
  if (columns.has_value()) return {whole, columns};
  const bool has_columns =
      whole->op == "columns" &&
      (whole->columns.axis == axis || whole->columns.axis == -1);
  if (!has_columns) return {whole, std::nullopt};
  return {whole->inputs[0], whole->columns};
}

// More terms than a gate has. A sum may have very many if it adds the same
// value again and again.
constexpr size_t kMaxTerms = 16;

// How far `IsOfWeights` looks back. Few nodes there have several inputs.
constexpr int kMaxDepth = 8;

// Whether a node's outputs are computed only from TensorFlow variables and
// constants. `loop`: the one whose body has the node, or null.
bool IsOfWeights(const Node* node, const Loop* loop, int max_depth) {
  if (node->IsConstant() || node->IsVariable() ||
      node->type_string() == "ReadVariableOp") {
    return true;
  }
  int argument = -1;
  tensorflow::TryGetNodeAttr(node->attrs(), "index", &argument);
  if (node->IsArg()) {
    return loop != nullptr &&
           IsOfWeights(loop->variables[argument].initial.node, nullptr,
                       max_depth);
  }
  if (max_depth == 0 || node->num_inputs() == 0 || node->num_inputs() > 4) {
    return false;
  }
  for (const tensorflow::Edge* edge : node->in_edges()) {
    if (!edge->IsControlEdge() &&
        !IsOfWeights(edge->src(), loop, max_depth - 1)) {
      return false;
    }
  }
  return true;
}

// Whether a value that no step changes, and is added to matrices, is known to
// be a vector of all columns.
bool IsVector(const Value* value, const Value* sum, const Loop& loop) {
  const auto shape = ShapeOf(*value, loop);
  return sum->node->type_string() == "BiasAdd" ||
         (shape.dims() == 1 && shape.dim_size(0) > 1);
}

// Whether it may be one, or the same for all columns. A value for each sequence
// would be a matrix.
bool MayBeVector(const Value* value, const Loop& loop) {
  const auto shape = ShapeOf(*value, loop);
  return shape.dims() == 1 ||
         (shape.dims() < 0 && IsOfWeights(value->node, &loop, kMaxDepth));
}

// Whether a value consists of the columns of two matrices.
bool IsConcatenation(const Value* value) {
  return value->op == "ConcatV2" && tf_rnn_ops::IsConcatenation(value->node);
}

// Appends the terms of which a value, or its columns, is the sum. Returns
// whether it is such a sum.
bool FindTerms(const Value* value, const std::optional<Columns>& columns,
               const Loop& loop, std::vector<Term>* terms) {
  if (terms->size() > kMaxTerms) return false;
  if (value->op == "add") {
    for (const Value* input : value->inputs) {
      const auto number =
          ShapeOf(*input, loop).dims() == 0 ? NumberOf(input) : std::nullopt;
      if (number.has_value()) {
        terms->push_back({nullptr, {}, *number});
      } else if (input->is_invariant) {
        const bool is_vector = IsVector(input, value, loop);
        if (!is_vector && !MayBeVector(input, loop)) return false;
        Piece piece = PieceOf(input, columns, /*axis=*/0);
        piece.is_vector = is_vector;
        terms->push_back({nullptr, piece});
      } else if (!FindTerms(input, columns, loop, terms)) {
        return false;
      }
    }
    return true;
  }
  if (value->op == "columns") {
    // The values of a step are matrices.
    return value->columns.axis != 0 && !columns.has_value() &&
           FindTerms(value->inputs[0], value->columns, loop, terms);
  }
  if (value->op == "matmul" && value->inputs[1]->is_invariant) {
    const Value* const factor = value->inputs[0];
    Piece piece = PieceOf(value->inputs[1], columns, /*axis=*/1);
    if (!IsConcatenation(factor)) {
      terms->push_back({factor, piece});
      return true;
    }
    piece.first = factor->inputs[0];
    for (const auto rows : {Piece::kFirst, Piece::kLast}) {
      piece.rows = rows;
      terms->push_back({factor->inputs[rows == Piece::kFirst ? 0 : 1], piece});
    }
    return true;
  }
  if (value->op == "mul" && !columns.has_value()) {
    terms->push_back({value, {}});
    return true;
  }
  return false;
}

// Finds the one term with a factor, if any, and removes it.
std::optional<Piece> TakeTerm(const Value* factor, std::vector<Term>* terms) {
  const auto has_factor = [&](const Term& t) { return t.factor == factor; };
  if (std::count_if(terms->begin(), terms->end(), has_factor) != 1) {
    return std::nullopt;
  }
  const auto term = std::find_if(terms->begin(), terms->end(), has_factor);
  const Piece piece = term->piece;
  terms->erase(term);
  return piece;
}

// Takes the biases, if all terms are biases.
bool TakeBiases(const std::vector<Term>& terms, std::vector<Piece>* biases,
                double* number) {
  for (const Term& term : terms) {
    if (term.factor != nullptr) return false;
    if (term.piece.whole != nullptr) biases->push_back(term.piece);
    *number += term.number;
  }
  return true;
}

// Finds the weights that a sum adds a product of with a state c, and removes
// the product.
std::optional<Piece> TakePeephole(const Value* c, const Loop& loop,
                                  std::vector<Term>* terms) {
  for (auto term = terms->begin(); term != terms->end(); ++term) {
    if (term->factor == nullptr || term->piece.whole != nullptr) continue;
    for (const auto& [state, weights] : InputsOf(term->factor, "mul")) {
      if (state != c || !weights->is_invariant) continue;
      const bool is_vector = IsVector(weights, term->factor, loop);
      if (!is_vector && !MayBeVector(weights, loop)) continue;
      Piece piece = PieceOf(weights, std::nullopt, /*axis=*/0);
      piece.is_vector = is_vector;
      terms->erase(term);
      return piece;
    }
  }
  return std::nullopt;
}

// A value within [-bound, bound], or, if `bound` is 0, a value.
struct Clipped {
  const Value* value;
  float bound;
};

// What TensorFlow's clip_by_value does with a value.
Clipped ClippedOf(const Value* value) {
  for (const auto& [at_most, lowest] : InputsOf(value, "Maximum")) {
    for (const auto& [unclipped, highest] : InputsOf(at_most, "Minimum")) {
      const auto bound = NumberOf(highest);
      // The op has a positive number of type float.
      if (bound.has_value() && NumberOf(lowest) == -*bound &&
          *bound >= std::numeric_limits<float>::min() &&
          static_cast<float>(*bound) == *bound) {
        return {unclipped, static_cast<float>(*bound)};
      }
    }
  }
  return {value, 0};
}

// Recognizes a cell whose `h` and `new_h` are known, and `c` of an LSTM.
class CellRecognizer {
 public:
  CellRecognizer(const Loop& loop, Cell* cell)
      : loop_(loop), cell_(cell), h_(loop.values->OfVariable(cell->h)) {}

  bool IsLstm(const Value* new_c);
  bool IsGru();
  bool IsSimpleRnn();

 private:
  bool IsLstmBlockCell(const Value* new_c);
  bool IsGruBlockCell();
  bool IsCellState(const Value* c);
  bool IsCandidate(const Value* value);
  bool IsSumOfCandidate(const Term& term, std::vector<Term> others);
  bool IsRecurrentPart(const Value* value, Gate* gate);
  bool IsGate(const Value* value, Gate* gate, const Value* c = nullptr);
  std::optional<Gate> GateOf(const Activated& activated,
                             const Value* c = nullptr);
  std::optional<Piece> TakeInputs(std::vector<Term>* terms);

  const Loop& loop_;
  Cell* const cell_;
  const Value* const h_;  // before the step, or null if no step uses it
};

// The product of the inputs with weights in a sum, which is removed from it.
std::optional<Piece> CellRecognizer::TakeInputs(std::vector<Term>* terms) {
  for (const Term& term : *terms) {
    const bool is_product =
        term.factor != nullptr && term.piece.whole != nullptr;
    if (!is_product || term.factor == h_) continue;
    // All gates have the same inputs.
    if (cell_->x != nullptr && cell_->x != term.factor) return std::nullopt;
    cell_->x = term.factor;
    return TakeTerm(term.factor, terms);
  }
  return std::nullopt;
}

// What is activated as x W + h R + biases, and, if there is a `c`, perhaps
// + p . c.
std::optional<Gate> CellRecognizer::GateOf(const Activated& activated,
                                           const Value* c) {
  std::vector<Term> terms;
  if (h_ == nullptr ||
      !FindTerms(activated.input, activated.columns, loop_, &terms)) {
    return std::nullopt;
  }
  const auto recurrent_kernel = TakeTerm(h_, &terms);
  const auto kernel = TakeInputs(&terms);
  if (!kernel || !recurrent_kernel) return std::nullopt;
  Gate gate;
  gate.kernel = *kernel;
  gate.recurrent_kernel = *recurrent_kernel;
  if (c != nullptr) gate.peephole = TakePeephole(c, loop_, &terms);
  return TakeBiases(terms, &gate.biases, &gate.number)
             ? std::optional<Gate>(gate)
             : std::nullopt;
}

// Whether a value is the gate activation of a gate, which may look at a `c`.
bool CellRecognizer::IsGate(const Value* value, Gate* gate, const Value* c) {
  const Activated activated = ActivatedOf(value);
  const auto found = GateOf(activated, c);
  if (!found || activated.activation != cell_->recurrent_activation) {
    return false;
  }
  *gate = *found;
  return true;
}

// Whether h = o * act(c), perhaps multiplied by a matrix, and c = f * c + i *
// act(g), perhaps clipped.
bool CellRecognizer::IsLstm(const Value* new_c) {
  cell_->rnn_mode = "lstm";
  cell_->gates.resize(4);
  if (IsLstmBlockCell(new_c)) return true;
  const Value* h = cell_->new_h;
  if (h->op == "matmul" && h->inputs[1]->is_invariant) {
    cell_->projection = PieceOf(h->inputs[1], std::nullopt, /*axis=*/1);
    h = h->inputs[0];
  }
  for (const auto& [o, activated_c] : InputsOf(h, "mul")) {
    const Activated activated = activated_c == new_c
                                    ? Activated{"linear", new_c}
                                    : ActivatedOf(activated_c);
    if (activated.input != new_c || activated.columns.has_value()) continue;
    cell_->activation = activated.activation;
    cell_->recurrent_activation = ActivatedOf(o).activation;
    if (IsGate(o, &cell_->gates[3], new_c) && IsCellState(new_c)) {
      return HasPeepholes(*cell_) ||
             std::none_of(
                 cell_->gates.begin(), cell_->gates.end(),
                 [](const Gate& gate) { return gate.peephole.has_value(); });
    }
  }
  return false;
}

// A gate of a block cell, whose matrix has the rows for x above those for h.
// columns: of the gate in the matrix and the bias, if it shares them
Gate GateOfBlockCell(const Value* x, const Value* matrix, const Value* bias,
                     std::optional<Columns> columns) {
  Gate gate;
  gate.kernel = {matrix, columns, Piece::kFirst, x};
  gate.recurrent_kernel = {matrix, columns, Piece::kLast, x};
  if (columns.has_value()) columns->axis = 0;
  Piece piece{bias, columns};
  piece.is_vector = true;
  gate.biases = {piece};
  return gate;
}

// Whether a node LSTMBlockCell computes h and c.
bool CellRecognizer::IsLstmBlockCell(const Value* new_c) {
  constexpr int kC = 1;
  constexpr int kH = 6;
  const Value& new_h = *cell_->new_h;
  const bool is_block_cell =
      new_h.op == "LSTMBlockCell" && new_h.output == kH &&
      new_h.inputs.size() == 8 && new_c->node == new_h.node &&
      new_c->output == kC && IsVariable(new_h.inputs[1], cell_->c) &&
      IsVariable(new_h.inputs[2], cell_->h) && new_h.inputs[3]->is_invariant &&
      new_h.inputs[7]->is_invariant;
  if (!is_block_cell) return false;
  // Values that are not positive mean none; very small ones are 0 in BlockLSTM.
  float cell_clip = 3;
  float forget_bias = 1;
  bool use_peephole = false;
  const tensorflow::AttrSlice attributes = new_h.node->attrs();
  tensorflow::TryGetNodeAttr(attributes, "cell_clip", &cell_clip);
  tensorflow::TryGetNodeAttr(attributes, "forget_bias", &forget_bias);
  tensorflow::TryGetNodeAttr(attributes, "use_peephole", &use_peephole);
  if (cell_clip > 0 && cell_clip < std::numeric_limits<float>::min()) {
    return false;
  }
  if (cell_clip > 0) cell_->cell_clip = cell_clip;
  cell_->x = new_h.inputs[0];
  // i, f, g, o, in matrices of i, g, f, o
  constexpr std::array kIndices = {0, 2, 1, 3};
  for (size_t i = 0; i < kIndices.size(); ++i) {
    Columns columns;
    columns.index = kIndices[i];
    columns.count = 4;
    cell_->gates[i] =
        GateOfBlockCell(cell_->x, new_h.inputs[3], new_h.inputs[7], columns);
  }
  cell_->gates[1].number = forget_bias;
  if (!use_peephole) return true;
  // wci, wcf, wco
  for (const auto& [gate, input] : {std::pair(0, 4), {1, 5}, {3, 6}}) {
    if (!new_h.inputs[input]->is_invariant) return false;
    Piece peephole{new_h.inputs[input], std::nullopt};
    peephole.is_vector = true;
    cell_->gates[gate].peephole = peephole;
  }
  return true;
}

bool CellRecognizer::IsCellState(const Value* c) {
  const auto [sum, bound] = ClippedOf(c);
  cell_->cell_clip = bound;
  for (const auto& [kept, added] : InputsOf(sum, "add")) {
    for (const auto& [f, c_before] : InputsOf(kept, "mul")) {
      if (!IsVariable(c_before, cell_->c) ||
          !IsGate(f, &cell_->gates[1], c_before)) {
        continue;
      }
      for (const auto& [i, activated_g] : InputsOf(added, "mul")) {
        const Activated activated = ActivatedOf(activated_g);
        const auto g = GateOf(activated);
        if (g && activated.activation == cell_->activation &&
            IsGate(i, &cell_->gates[0], c_before)) {
          cell_->gates[2] = *g;
          return true;
        }
      }
    }
  }
  return false;
}

// Whether h = u * h + (1 - u) * act(candidate).
bool CellRecognizer::IsGru() {
  if (IsGruBlockCell()) return true;
  for (const auto& [kept, added] : InputsOf(cell_->new_h, "add")) {
    for (const auto& [u, h_before] : InputsOf(kept, "mul")) {
      for (const auto& [rest, candidate] : InputsOf(added, "mul")) {
        const bool is_rest = rest->op == "sub" && rest->inputs[1] == u &&
                             NumberOf(rest->inputs[0]) == 1;
        if (h_before != h_ || !is_rest) continue;
        cell_->recurrent_activation = ActivatedOf(u).activation;
        cell_->gates.resize(3);
        if (IsGate(u, &cell_->gates[0]) && IsCandidate(candidate)) return true;
      }
    }
  }
  return false;
}

// Whether a node GRUBlockCell computes h.
bool CellRecognizer::IsGruBlockCell() {
  constexpr int kH = 3;
  const Value& new_h = *cell_->new_h;
  const auto is_invariant = [](const Value* value) {
    return value->is_invariant;
  };
  const bool is_block_cell =
      new_h.op == "GRUBlockCell" && new_h.output == kH &&
      new_h.inputs.size() == 6 && new_h.inputs[1] == h_ &&
      std::all_of(new_h.inputs.begin() + 2, new_h.inputs.end(), is_invariant);
  if (!is_block_cell) return false;
  cell_->rnn_mode = "gru_reset_before";
  cell_->x = new_h.inputs[0];
  // r and u are beside each other, and the candidate has its own weights.
  const auto gate = [&](int matrix, int bias, std::optional<Columns> columns) {
    return GateOfBlockCell(cell_->x, new_h.inputs[matrix], new_h.inputs[bias],
                           columns);
  };
  Columns r;
  r.index = 0;
  r.count = 2;
  Columns u = r;
  u.index = 1;
  cell_->gates = {gate(2, 4, u), gate(2, 4, r), gate(3, 5, std::nullopt)};
  return true;
}

// Whether a value is act(x W + biases + r * (h R + biases)), or act(x W + (r *
// h) R + biases).
bool CellRecognizer::IsCandidate(const Value* value) {
  const Activated activated = ActivatedOf(value);
  cell_->activation = activated.activation;
  std::vector<Term> terms;
  if (!FindTerms(activated.input, activated.columns, loop_, &terms)) {
    return false;
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    std::vector<Term> others = terms;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (IsSumOfCandidate(terms[i], std::move(others))) return true;
  }
  return false;
}

// Whether the candidate's sum consists of a term with r and others, which r
// does not multiply.
bool CellRecognizer::IsSumOfCandidate(const Term& term,
                                      std::vector<Term> others) {
  if (term.factor == nullptr || term.factor->op != "mul") return false;
  Gate gate;
  const auto kernel = TakeInputs(&others);
  if (!kernel || !TakeBiases(others, &gate.biases, &gate.number)) return false;
  gate.kernel = *kernel;
  const bool resets_before = term.piece.whole != nullptr;
  cell_->rnn_mode = resets_before ? "gru_reset_before" : "gru";
  for (const auto& [r, recurrent] : InputsOf(term.factor, "mul")) {
    if (!IsGate(r, &cell_->gates[1])) continue;
    const bool is_recurrent =
        resets_before ? recurrent == h_ : IsRecurrentPart(recurrent, &gate);
    if (!is_recurrent) continue;
    if (resets_before) gate.recurrent_kernel = term.piece;
    for (Piece* piece : {&gate.kernel, &gate.recurrent_kernel}) {
      // r * h has the columns of h.
      if (resets_before && piece->first == term.factor) piece->first = h_;
    }
    cell_->gates[2] = gate;
    return true;
  }
  return false;
}

// Whether a value is h R + biases.
bool CellRecognizer::IsRecurrentPart(const Value* value, Gate* gate) {
  std::vector<Term> terms;
  if (!FindTerms(value, std::nullopt, loop_, &terms)) return false;
  const auto recurrent_kernel = TakeTerm(h_, &terms);
  std::vector<Piece> biases;
  double number = 0;
  if (!recurrent_kernel || !TakeBiases(terms, &biases, &number) ||
      number != 0) {
    return false;
  }
  gate->recurrent_kernel = *recurrent_kernel;
  gate->recurrent_biases = biases;
  return true;
}

// Whether h = act(x W + h R + biases).
bool CellRecognizer::IsSimpleRnn() {
  const Activated activated = ActivatedOf(cell_->new_h);
  const auto gate = GateOf(activated);
  if (!gate) return false;
  const std::string& activation = activated.activation;
  if (activation == "tanh" || activation == "relu") {
    cell_->rnn_mode = absl::StrCat("rnn_", activation);
  } else {
    cell_->rnn_mode = "rnn";
    cell_->activation = activation;
  }
  cell_->gates = {*gate};
  return true;
}

class Recognizer {
 public:
  Recognizer(const Loop& loop, RecurrentLayer* layer)
      : loop_(loop), layer_(layer) {}

  absl::Status Run() {
    for (auto step : {&Recognizer::FindOutputs, &Recognizer::FindStates,
                      &Recognizer::FindCells}) {
      absl::Status status = (this->*step)();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status FindOutputs();
  absl::Status FindMask();
  bool IsMaskOfSteps();
  absl::Status FindStates();
  absl::Status FindCells();
  absl::Status FindCell(const Value* output, Cell* cell);
  int ListOf(const Value* item) const;
  bool IsCounter(const Value* value) const;
  absl::Status WhyNoCell() const;

  const Loop& loop_;
  RecurrentLayer* const layer_;
  const Value* mask_ = nullptr;
  const Value* output_ = nullptr;      // that of a step
  const Value* new_output_ = nullptr;  // that of a step without mask
  // The states of no cell yet: their values after a step without mask.
  std::map<int, const Value*> states_;
};

bool Recognizer::IsCounter(const Value* value) const {
  return value->op == "variable" &&
         loop_.variables[value->variable].role == Role::kCounter;
}

// The list of which a value is the item of the step, or -1.
int Recognizer::ListOf(const Value* item) const {
  const bool is_item = item->op == "item" && IsCounter(item->inputs[1]) &&
                       item->inputs[0]->op == "variable";
  if (!is_item) return -1;
  const int list = item->inputs[0]->variable;
  return loop_.variables[list].role == Role::kInputList ? list : -1;
}

absl::Status Recognizer::FindOutputs() {
  for (size_t i = 0; i < loop_.variables.size(); ++i) {
    if (loop_.variables[i].role != Role::kOutputList) continue;
    if (layer_->outputs >= 0) return NotUnderstood("it has several outputs");
    layer_->outputs = static_cast<int>(i);
  }
  if (layer_->outputs < 0) return NotUnderstood("it has no list of outputs");
  const Variable& list = loop_.variables[layer_->outputs];
  const Node* const reserve = list.initial.node;
  if (!Has(reserve, "TensorListReserve")) {
    return NotUnderstood("its list of outputs is not new");
  }
  const Output size = InputOf(reserve, 1);
  const Value* const step = list.next->inputs[1];
  layer_->returns_sequences = IsCounter(step);
  for (size_t i = 0; i < loop_.limits.size(); ++i) {
    if (IsEqual(loop_.limits[i], size, loop_)) {
      layer_->size = static_cast<int>(i);
    }
  }
  const bool has_room = layer_->returns_sequences
                            ? layer_->size >= 0
                            : step->op == "constant" &&
                                  IsInteger(step->node, 0) &&
                                  IsInteger(size.node, 1);
  if (!has_room) return NotUnderstood("its list of outputs has another size");
  output_ = list.next->inputs[2];
  return FindMask();
}

// Finds the mask in the output of a step.
absl::Status Recognizer::FindMask() {
  new_output_ = output_;
  if (!IsSelect(output_)) return absl::OkStatus();
  mask_ = output_->inputs[0];
  new_output_ = output_->inputs[1];
  const Value* const otherwise = output_->inputs[2];
  if (!IsMaskOfSteps()) return NotUnderstood("its mask is not one of steps");
  if (otherwise->op != "variable") {
    layer_->zeroes_masked_outputs =
        otherwise->is_invariant && IsZero({otherwise->node, otherwise->output});
    return layer_->zeroes_masked_outputs
               ? absl::OkStatus()
               : NotUnderstood("its outputs of masked steps are not known");
  }
  const Variable& last = loop_.variables[otherwise->variable];
  if (last.role == Role::kHalf || !IsZero(last.initial)) {
    return NotUnderstood("its first output is not zero");
  }
  layer_->zeroes_masked_outputs = last.role == Role::kInvariant;
  layer_->zero_output = otherwise->variable;
  if (last.role == Role::kState) layer_->last_output = otherwise->variable;
  return absl::OkStatus();
}

// Whether the mask has one value for each sequence, not one for each unit.
bool Recognizer::IsMaskOfSteps() {
  layer_->mask = ListOf(mask_);
  if (layer_->mask >= 0) {
    const std::vector<int64_t> shape = IntegersOf(mask_->inputs[2]->node);
    return shape.size() == 2 && shape[1] == 1 &&
           mask_->node->output_type(0) == tensorflow::DT_BOOL;
  }
  // Only the older Select takes a vector as one value for each row.
  const bool is_comparison = output_->op == "Select" &&
                             (mask_->op == "greater" || mask_->op == "less") &&
                             mask_->inputs[0]->is_invariant &&
                             IsCounter(mask_->inputs[1]);
  if (is_comparison) layer_->compared_step = mask_;
  return is_comparison;
}

absl::Status Recognizer::FindStates() {
  for (size_t i = 0; i < loop_.variables.size(); ++i) {
    const Variable& variable = loop_.variables[i];
    const int index = static_cast<int>(i);
    const bool is_state =
        variable.role == Role::kState || variable.role == Role::kHalves;
    if (!is_state || index == layer_->last_output) continue;
    const Value* next = variable.next;
    if (mask_ != nullptr && next == output_) {
      if (layer_->last_output >= 0) return NotUnderstood("it has more states");
      layer_->last_output = index;
      continue;
    }
    if (mask_ != nullptr) {
      const bool is_kept = next->op == output_->op &&
                           next->inputs[0] == mask_ &&
                           IsVariable(next->inputs[2], index);
      if (!is_kept) return NotUnderstood("its mask does not keep its states");
      next = next->inputs[1];
    }
    if (variable.role == Role::kState) {
      states_[index] = next;
    } else if (IsConcatenation(next)) {
      states_[variable.halves] = next->inputs[0];
      states_[variable.halves + 1] = next->inputs[1];
    } else {
      return NotUnderstood("its mask does not keep its states");
    }
  }
  if (layer_->last_output >= 0 &&
      loop_.variables[layer_->last_output].next != output_) {
    return NotUnderstood("it repeats something else than its output");
  }
  return absl::OkStatus();
}

// Finds the cells, beginning with the last.
absl::Status Recognizer::FindCells() {
  const Value* output = new_output_;
  while (layer_->inputs < 0) {
    Cell cell;
    absl::Status status = FindCell(output, &cell);
    if (!status.ok()) return status;
    layer_->inputs = ListOf(cell.x);
    output = cell.x;
    layer_->cells.insert(layer_->cells.begin(), std::move(cell));
  }
  return states_.empty() ? absl::OkStatus()
                         : NotUnderstood("it has more states");
}

// Finds the cell with an output, and removes its states.
absl::Status Recognizer::FindCell(const Value* output, Cell* cell) {
  const auto h =
      std::find_if(states_.begin(), states_.end(),
                   [&](const auto& state) { return state.second == output; });
  if (h == states_.end()) {
    return layer_->cells.empty()
               ? NotUnderstood("its output is not one of its states")
               : WhyNoCell();
  }
  Cell known;
  known.h = h->first;
  known.new_h = output;
  states_.erase(h);
  for (const auto& [c, new_c] : states_) {
    *cell = known;
    cell->c = c;
    if (CellRecognizer(loop_, cell).IsLstm(new_c)) {
      states_.erase(c);
      return absl::OkStatus();
    }
  }
  *cell = known;
  if (CellRecognizer(loop_, cell).IsGru()) return absl::OkStatus();
  *cell = known;
  return CellRecognizer(loop_, cell).IsSimpleRnn() ? absl::OkStatus()
                                                   : WhyNoCell();
}

// An error with the ops of the step that no layer has.
absl::Status Recognizer::WhyNoCell() const {
  static const auto& known = *new std::set<std::string>{
      "add",  "and",      "columns",       "constant", "div",      "greater",
      "item", "ConcatV2", "greater_equal", "less",     "matmul",   "mul",
      "read", "Select",   "SelectV2",      "sub",      "variable", "write"};
  std::set<std::string> unknown;
  for (const Node* node : loop_.body->graph->op_nodes()) {
    if (node->num_outputs() == 0) continue;
    const Value* const value = loop_.values->Of(node, 0);
    if (!value->is_invariant && known.count(value->op) == 0 &&
        ActivationsByOp().count(value->op) == 0) {
      unknown.insert(value->op);
    }
  }
  std::string reason =
      "its step is not one of an LSTM, a GRU or a SimpleRNN with activations "
      "of the op";
  const char* separator = ": it has ";
  for (const std::string& op : unknown) {
    absl::StrAppend(&reason, separator, op);
    separator = ", ";
  }
  return NotUnderstood(reason);
}

}  // namespace

bool HasPeepholes(const Cell& cell) {
  const auto& gates = cell.gates;
  return cell.rnn_mode == "lstm" && gates[0].peephole.has_value() &&
         gates[1].peephole.has_value() && gates[3].peephole.has_value();
}

int64_t NumColumnsOf(const Piece& piece, const Loop& loop) {
  const auto shape = ShapeOf(*piece.whole, loop);
  const int64_t cols = shape.dims() == 2 ? shape.dim_size(1) : -1;
  if (!piece.columns.has_value() || cols < 0) return cols;
  const auto& columns = *piece.columns;
  if (columns.count > 0) return cols / columns.count;
  return (columns.end > 0 ? columns.end : cols) - columns.begin;
}

absl::Status RecognizeLayer(const Loop& loop, RecurrentLayer* layer) {
  for (const Node* node : loop.body->graph->op_nodes()) {
    if (node->type_string() == "TensorListPushBack") {
      return NotUnderstood("it keeps values for a gradient");
    }
    if (node->type_string() == "TensorListPopBack") {
      return NotUnderstood("it computes a gradient");
    }
  }
  return Recognizer(loop, layer).Run();
}

}  // namespace tf_rnn_ops
