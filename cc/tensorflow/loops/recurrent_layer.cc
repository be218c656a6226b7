#include "cc/tensorflow/loops/recurrent_layer.h"

#include <algorithm>
#include <array>
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
    if (IsNumber(other, number)) return input;
  }
  return nullptr;
}

// The z of Keras's hard_sigmoid(z) = relu6(z + 3) / 6, or null.
const Value* InputOfHardSigmoid(const Value* value) {
  const bool is_divided = value->op == "div" && IsNumber(value->inputs[1], 6) &&
                          value->inputs[0]->op == "Relu6";
  return is_divided ? OtherThan(3, value->inputs[0]->inputs[0], "add")
                    : nullptr;
}

bool IsSelect(const Value* value) {
  return value->op == "Select" || value->op == "SelectV2";
}

// A value as an activation of another value.
struct Activated {
  std::string activation;
  const Value* input;
};

Activated ActivatedOf(const Value* value) {
  if (value->op == "Tanh") return {"tanh", value->inputs[0]};
  if (value->op == "Sigmoid") return {"sigmoid", value->inputs[0]};
  if (value->op == "Relu") return {"relu", value->inputs[0]};
  const Value* const z = InputOfHardSigmoid(value);
  if (z != nullptr) return {"hard_sigmoid", z};
  return {"linear", value};
}

// A term of a sum: a factor times columns of weights, columns of a bias, or a
// product of two values.
struct Term {
  const Value* factor;  // null for a bias; or the product
  Piece piece;          // of the weights or the bias
  bool is_number = false;
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
  if (node->IsConstant() || node->type_string() == "ReadVariableOp") {
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
// be a vector.
bool IsVector(const Value* value, const Value* sum, const Loop& loop) {
  return sum->node->type_string() == "BiasAdd" ||
         ShapeOf(*value, loop).dims() == 1;
}

// Whether it may be one. A value for each sequence would be a matrix.
bool MayBeVector(const Value* value, const Loop& loop) {
  return ShapeOf(*value, loop).dims() < 0 &&
         IsOfWeights(value->node, &loop, kMaxDepth);
}

// Whether a value consists of the columns of two matrices.
bool IsConcatenation(const Value* value) {
  if (value->op != "ConcatV2" || value->inputs.size() != 3) return false;
  const Node* const axis = value->inputs[2]->node;
  return IsInteger(axis, 1) || IsInteger(axis, -1);
}

// Appends the terms of which a value, or its columns, is the sum. Returns
// whether it is such a sum.
bool FindTerms(const Value* value, const std::optional<Columns>& columns,
               const Loop& loop, std::vector<Term>* terms) {
  if (terms->size() > kMaxTerms) return false;
  if (value->op == "add") {
    for (const Value* input : value->inputs) {
      if (input->op == "constant" && ShapeOf(*input, loop).dims() == 0) {
        terms->push_back({nullptr, PieceOf(input, std::nullopt, /*axis=*/0),
                          /*is_number=*/true});
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
                std::vector<const Value*>* numbers) {
  for (const Term& term : terms) {
    if (term.factor != nullptr) return false;
    if (!term.is_number) {
      biases->push_back(term.piece);
    } else if (!IsNumber(term.piece.whole, 0)) {
      numbers->push_back(term.piece.whole);
    }
  }
  return true;
}

class Recognizer {
 public:
  Recognizer(const Loop& loop, RecurrentLayer* layer)
      : loop_(loop), layer_(layer) {}

  absl::Status Run() {
    for (auto step : {&Recognizer::FindOutputs, &Recognizer::FindStates,
                      &Recognizer::FindCell}) {
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
  absl::Status FindCell();
  bool IsLstm(const Value* h, const Value* c);
  bool IsCellState(const Value* c);
  bool IsGru(const Value* h);
  bool IsCandidate(const Value* value);
  bool IsSimpleRnn(const Value* h);
  bool IsGate(const Value* value, Gate* gate);
  std::optional<Gate> GateOf(const Value* value);
  std::optional<Piece> TakeInputs(std::vector<Term>* terms);
  int ListOf(const Value* item) const;
  bool IsCounter(const Value* value) const;
  absl::Status WhyNoCell() const;

  const Loop& loop_;
  RecurrentLayer* const layer_;
  const Value* mask_ = nullptr;
  const Value* output_ = nullptr;      // that of a step
  const Value* new_output_ = nullptr;  // that of a step without mask
  const Value* h_ = nullptr;           // before the step
  std::vector<int> states_;
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
  const tensorflow::Edge* size = nullptr;
  if (reserve->type_string() != "TensorListReserve" ||
      !reserve->input_edge(1, &size).ok()) {
    return NotUnderstood("its list of outputs is not new");
  }
  const Value* const step = list.next->inputs[1];
  layer_->returns_sequences = IsCounter(step);
  for (size_t i = 0; i < loop_.limits.size(); ++i) {
    if (IsEqual(loop_.limits[i], {size->src(), size->src_output()}, loop_)) {
      layer_->size = static_cast<int>(i);
    }
  }
  const bool has_room = layer_->returns_sequences
                            ? layer_->size >= 0
                            : step->op == "constant" &&
                                  IsInteger(step->node, 0) &&
                                  IsInteger(size->src(), 1);
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
  if (!IsZero(last.initial)) {
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
    if (variable.role != Role::kState || index == layer_->last_output) continue;
    if (mask_ != nullptr && variable.next == output_) {
      if (layer_->last_output >= 0) return NotUnderstood("it has more states");
      layer_->last_output = index;
      continue;
    }
    states_.push_back(index);
  }
  if (layer_->last_output >= 0 &&
      loop_.variables[layer_->last_output].next != output_) {
    return NotUnderstood("it repeats something else than its output");
  }
  if (states_.empty() || states_.size() > 2) {
    return NotUnderstood(absl::StrCat("it has ", states_.size(), " states"));
  }
  return absl::OkStatus();
}

absl::Status Recognizer::FindCell() {
  // The states after a step without mask.
  std::vector<const Value*> next;
  for (int state : states_) {
    const Value* value = loop_.variables[state].next;
    if (mask_ != nullptr) {
      const bool is_kept = value->op == output_->op &&
                           value->inputs[0] == mask_ &&
                           IsVariable(value->inputs[2], state);
      if (!is_kept) return NotUnderstood("its mask does not keep its states");
      value = value->inputs[1];
    }
    next.push_back(value);
  }
  const size_t h = next[0] == new_output_ ? 0 : next.size() - 1;
  if (next[h] != new_output_) {
    return NotUnderstood("its output is not one of its states");
  }
  layer_->h = states_[h];
  h_ = loop_.values->OfVariable(layer_->h);
  if (next.size() == 2) {
    layer_->c = states_[1 - h];
    if (IsLstm(next[h], next[1 - h])) return absl::OkStatus();
  } else if (IsGru(next[h]) || IsSimpleRnn(next[h])) {
    return absl::OkStatus();
  }
  return WhyNoCell();
}

// The product of the inputs with weights in a sum, which is removed from it.
std::optional<Piece> Recognizer::TakeInputs(std::vector<Term>* terms) {
  for (const Term& term : *terms) {
    const int list = term.factor == nullptr ? -1 : ListOf(term.factor);
    if (list < 0) continue;
    // All gates have the same inputs.
    if (layer_->inputs >= 0 && layer_->inputs != list) return std::nullopt;
    layer_->inputs = list;
    return TakeTerm(term.factor, terms);
  }
  return std::nullopt;
}

// A value as x W + h R + biases.
std::optional<Gate> Recognizer::GateOf(const Value* value) {
  std::vector<Term> terms;
  if (!FindTerms(value, std::nullopt, loop_, &terms)) return std::nullopt;
  const auto kernel = TakeInputs(&terms);
  const auto recurrent_kernel = TakeTerm(h_, &terms);
  if (!kernel || !recurrent_kernel) return std::nullopt;
  Gate gate;
  gate.kernel = *kernel;
  gate.recurrent_kernel = *recurrent_kernel;
  return TakeBiases(terms, &gate.biases, &gate.numbers)
             ? std::optional<Gate>(gate)
             : std::nullopt;
}

// Whether a value is the gate activation of a gate.
bool Recognizer::IsGate(const Value* value, Gate* gate) {
  const Activated activated = ActivatedOf(value);
  const auto found = GateOf(activated.input);
  if (!found || activated.activation != layer_->recurrent_activation) {
    return false;
  }
  *gate = *found;
  return true;
}

// Whether h = o * act(c) and c = f * c + i * act(g).
bool Recognizer::IsLstm(const Value* h, const Value* c) {
  layer_->rnn_mode = "lstm";
  for (const auto& [o, activated_c] : InputsOf(h, "mul")) {
    const Activated activated =
        activated_c == c ? Activated{"linear", c} : ActivatedOf(activated_c);
    if (activated.input != c) continue;
    layer_->activation = activated.activation;
    layer_->recurrent_activation = ActivatedOf(o).activation;
    layer_->gates.resize(4);
    if (IsGate(o, &layer_->gates[3]) && IsCellState(c)) return true;
  }
  return false;
}

bool Recognizer::IsCellState(const Value* c) {
  for (const auto& [kept, added] : InputsOf(c, "add")) {
    for (const auto& [f, c_before] : InputsOf(kept, "mul")) {
      if (!IsVariable(c_before, layer_->c) || !IsGate(f, &layer_->gates[1])) {
        continue;
      }
      for (const auto& [i, activated_g] : InputsOf(added, "mul")) {
        const Activated activated = ActivatedOf(activated_g);
        const auto g = GateOf(activated.input);
        if (g && activated.activation == layer_->activation &&
            IsGate(i, &layer_->gates[0])) {
          layer_->gates[2] = *g;
          return true;
        }
      }
    }
  }
  return false;
}

// Whether h = u * h + (1 - u) * act(candidate).
bool Recognizer::IsGru(const Value* h) {
  layer_->rnn_mode = "gru";
  for (const auto& [kept, added] : InputsOf(h, "add")) {
    for (const auto& [u, h_before] : InputsOf(kept, "mul")) {
      for (const auto& [rest, candidate] : InputsOf(added, "mul")) {
        const bool is_rest = rest->op == "sub" && rest->inputs[1] == u &&
                             IsNumber(rest->inputs[0], 1);
        if (h_before != h_ || !is_rest) continue;
        layer_->recurrent_activation = ActivatedOf(u).activation;
        layer_->gates.resize(3);
        if (IsGate(u, &layer_->gates[0]) && IsCandidate(candidate)) return true;
      }
    }
  }
  return false;
}

// Whether a value is act(x W + biases + r * (h R + biases)).
bool Recognizer::IsCandidate(const Value* value) {
  const Activated activated = ActivatedOf(value);
  layer_->activation = activated.activation;
  std::vector<Term> terms;
  if (!FindTerms(activated.input, std::nullopt, loop_, &terms)) return false;
  const auto is_product = [](const Term& term) {
    return term.factor != nullptr && term.factor->op == "mul" &&
           term.piece.whole == nullptr;
  };
  const auto found = std::find_if(terms.begin(), terms.end(), is_product);
  if (found == terms.end()) return false;
  const Value* const product = found->factor;
  terms.erase(found);
  const auto kernel = TakeInputs(&terms);
  Gate gate;
  if (!kernel || !TakeBiases(terms, &gate.biases, &gate.numbers)) return false;
  gate.kernel = *kernel;
  for (const auto& [r, recurrent] : InputsOf(product, "mul")) {
    std::vector<Term> recurrent_terms;
    if (!IsGate(r, &layer_->gates[1]) ||
        !FindTerms(recurrent, std::nullopt, loop_, &recurrent_terms)) {
      continue;
    }
    const auto recurrent_kernel = TakeTerm(h_, &recurrent_terms);
    std::vector<const Value*> recurrent_numbers;
    if (!recurrent_kernel ||
        !TakeBiases(recurrent_terms, &gate.recurrent_biases,
                    &recurrent_numbers) ||
        !recurrent_numbers.empty()) {
      gate.recurrent_biases.clear();
      continue;
    }
    gate.recurrent_kernel = *recurrent_kernel;
    layer_->gates[2] = gate;
    return true;
  }
  return false;
}

// Whether h = act(x W + h R + biases).
bool Recognizer::IsSimpleRnn(const Value* h) {
  const Activated activated = ActivatedOf(h);
  const auto gate = GateOf(activated.input);
  if (!gate ||
      (activated.activation != "tanh" && activated.activation != "relu")) {
    return false;
  }
  layer_->rnn_mode = absl::StrCat("rnn_", activated.activation);
  layer_->gates = {*gate};
  return true;
}

// An error with the ops of the step that no layer has.
absl::Status Recognizer::WhyNoCell() const {
  static const auto& known = *new std::set<std::string>{
      "add",  "and",      "columns",       "constant", "div",     "greater",
      "item", "ConcatV2", "greater_equal", "less",     "matmul",  "mul",
      "read", "Relu",     "Select",        "SelectV2", "Sigmoid", "sub",
      "Tanh", "variable", "write"};
  std::set<std::string> unknown;
  for (const Node* node : loop_.body->graph->op_nodes()) {
    if (node->num_outputs() == 0) continue;
    const Value* const value = loop_.values->Of(node, 0);
    if (!value->is_invariant && known.count(value->op) == 0) {
      unknown.insert(value->op);
    }
  }
  std::string reason =
      "its step is not one of an LSTM, a GRU with reset_after=True or a "
      "SimpleRNN with activations of the op";
  const char* separator = ": it has ";
  for (const std::string& op : unknown) {
    absl::StrAppend(&reason, separator, op);
    separator = ", ";
  }
  return NotUnderstood(reason);
}

}  // namespace

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
