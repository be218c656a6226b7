#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "cc/tensorflow/loops/chain.h"
#include "cc/tensorflow/loops/steps.h"
#include "cc/tensorflow/loops/value.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Edge;
using ::tensorflow::Graph;
using ::tensorflow::Node;
using ::tensorflow::NodeDef;
using NodeDefs = ::google::protobuf::RepeatedPtrField<NodeDef>;
using Nodes = absl::flat_hash_set<const Node*>;

// Nodes of a step that have the op of its output.
constexpr size_t kMaxCandidates = 16;

bool IsTransposed(const tensorflow::AttrSlice& attributes) {
  for (const char* name : {"transpose_a", "transpose_b"}) {
    bool value = false;
    tensorflow::TryGetNodeAttr(attributes, name, &value);
    if (value) return true;
  }
  return false;
}

// Which input of a node has the weights of a step, or -1.
int InputOfWeights(absl::string_view op,
                   const tensorflow::AttrSlice& attributes) {
  if (op == "MatMul") return IsTransposed(attributes) ? -1 : 1;
  if (op == "GRUBlockCell") return 2;
  return op == "LSTMBlockCell" ? 3 : -1;
}

// Which input has a matrix of which a node passes on a part, or -1.
int InputOfMatrix(absl::string_view op) {
  if (op == "Split") return 1;
  return op == "Identity" || op == "ReadVariableOp" || op == "Cast" ||
                 op == "SplitV" || op == "StridedSlice"
             ? 0
             : -1;
}

// The whole of which weights are a part.
Output WholeOf(Output weights) {
  for (size_t i = 0; i < kMaxReach; ++i) {
    const int input = InputOfMatrix(weights.node->type_string());
    if (input < 0) break;
    weights = InputOf(weights.node, input);
  }
  return weights;
}

// Names what weights are, so that equal weights have equal names.
std::string NameOfWeights(Output weights) {
  std::string parts;
  for (size_t i = 0; i < kMaxReach; ++i) {
    const std::string& op = weights.node->type_string();
    const int input = InputOfMatrix(op);
    if (input < 0) break;
    if (op == "StridedSlice") {
      absl::StrAppend(
          &parts, "/",
          absl::StrJoin(IntegersOf(InputOf(weights.node, 1).node), ","));
    } else {
      absl::StrAppend(&parts, "/", weights.index);
    }
    weights = InputOf(weights.node, input);
  }
  return absl::StrCat(weights.node->id(), ":", weights.index, parts);
}

// The values of which one may be the state that a node multiplies by weights.
std::vector<Output> StatesOf(const Node* node) {
  if (Has(node, "GRUBlockCell")) return {InputOf(node, 1)};
  if (Has(node, "LSTMBlockCell")) return {InputOf(node, 2)};
  const Output data = InputOf(node, 0);
  const std::vector<Output> halves = HalvesOf(data.node);
  return halves.empty() ? std::vector<Output>{data} : halves;
}

// Visits nodes from one on, the nearest first, until `visit` returns true or
// enough are visited.
void Search(const Node* from, bool forward,
            const std::function<bool(const Node*)>& visit) {
  std::vector<const Node*> reached = {from};
  Nodes seen = {from};
  for (size_t i = 0; i < reached.size() && i < kMaxReach; ++i) {
    const Node* const node = reached[i];
    if (visit(node)) return;
    for (const Edge* edge : forward ? node->out_edges() : node->in_edges()) {
      const Node* const next = forward ? edge->dst() : edge->src();
      if (!edge->IsControlEdge() && seen.insert(next).second) {
        reached.push_back(next);
      }
    }
  }
}

}  // namespace

class ChainFinder {
 public:
  explicit ChainFinder(const Graph& graph) : graph_(graph) {}

  std::vector<std::unique_ptr<Chain>> Run();

 private:
  void Link(const std::vector<const Node*>& products, size_t state);
  // What became of a search: a chain, none so, or none at all.
  enum class Outcome { kFound, kNotSo, kNone };

  Outcome Find(const StepOutputs& states,
               const std::vector<const Node*>& products);
  Outcome FindRoot(const StepOutputs& states,
                   const std::vector<const Node*>& products,
                   const StepOutputs& root, const Nodes& after, bool is_trial);
  void AddParts(const Part* part, std::set<const Part*>* seen, Chain* chain);
  void AddInvariants(Output output, Chain* chain);
  void AddNodes(const Matcher& matcher, const Chain& chain);
  void AddUses(Chain* chain);
  void AddName(Chain* chain);
  bool IsStack(const Node* node, const Chain& chain) const;
  bool DependsOnItself(const Chain& chain) const;
  bool IsConditional();

  const Graph& graph_;
  std::vector<std::unique_ptr<Chain>> chains_;
  // The nodes of each chain, and the chain of each.
  std::vector<std::vector<const Node*>> nodes_;
  absl::flat_hash_map<const Node*, size_t> claimed_;
  std::set<std::string> names_;
  Nodes conditional_;  // behind branches and within loops
  bool has_conditional_ = false;
};

std::vector<std::unique_ptr<Chain>> ChainFinder::Run() {
  // In the order of their first nodes.
  std::vector<std::vector<const Node*>> groups;
  std::map<std::string, size_t> known;
  for (const Node* node : graph_.op_nodes()) {
    const int input = InputOfWeights(node->type_string(), node->attrs());
    if (input < 0) continue;
    const auto [group, is_new] =
        known.emplace(absl::StrCat(node->type_string(), "/",
                                   NameOfWeights(InputOf(node, input))),
                      groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(node);
  }
  for (const auto& products : groups) {
    if (products.size() < 2) continue;
    const size_t num_states = StatesOf(products[1]).size();
    for (size_t i = 0; i < num_states; ++i) Link(products, i);
  }
  return std::move(chains_);
}

// Finds chains of products with the same weights.
// state: which of the values may be the state.
void ChainFinder::Link(const std::vector<const Node*>& products, size_t state) {
  const Nodes all(products.begin(), products.end());
  std::map<const Node*, const Node*> before;
  std::map<const Node*, std::vector<const Node*>> after;
  for (const Node* product : products) {
    const std::vector<Output> states = StatesOf(product);
    if (claimed_.count(product) > 0 || states.size() <= state) continue;
    Search(states[state].node, /*forward=*/false, [&](const Node* node) {
      if (node == product || all.count(node) == 0) return false;
      before[product] = node;
      after[node].push_back(product);
      return true;
    });
  }
  for (const Node* first : products) {
    const auto previous = before.find(first);
    if (previous != before.end() && after[previous->second].size() == 1) {
      continue;
    }
    std::vector<const Node*> steps;
    StepOutputs states;
    for (const Node* product = first; product != nullptr;) {
      const std::vector<Output> of_step = StatesOf(product);
      if (of_step.size() <= state || steps.size() > products.size()) break;
      steps.push_back(product);
      states.push_back(of_step[state]);
      const auto& next = after[product];
      product = next.size() == 1 ? next[0] : nullptr;
    }
    if (steps.size() < 2) continue;
    const Outcome outcome = Find(states, steps);
    if (outcome != Outcome::kNotSo || steps.size() < 3) continue;
    // The last product may be of something else than a step.
    const StepOutputs root(states.begin() + 1, states.end());
    steps.pop_back();
    states.pop_back();
    FindRoot(states, steps, root, {}, /*is_trial=*/false);
  }
}

// Finds a chain of steps with products of states. Returns whether there is one.
ChainFinder::Outcome ChainFinder::Find(
    const StepOutputs& states, const std::vector<const Node*>& products) {
  Nodes after;
  std::vector<const Node*> candidates;
  const size_t size = states.size();
  StepOutputs root(states.begin() + 1, states.end());
  root.back() = Matcher(claimed_).Follow(root.back());
  const std::string& op = root.back().node->type_string();
  Search(products.back(), /*forward=*/true, [&](const Node* node) {
    after.insert(node);
    if (node->type_string() == op) candidates.push_back(node);
    return candidates.size() == kMaxCandidates;
  });
  root.emplace_back();
  for (const Node* candidate : candidates) {
    root.back() = {candidate, root[size - 2].index};
    // The last two steps tell whether it is worth the time.
    const auto last_two = [](const auto& steps) {
      return std::vector(steps.end() - 2, steps.end());
    };
    Outcome outcome = Outcome::kFound;
    if (size > 2) {
      outcome = FindRoot(last_two(states), last_two(products), last_two(root),
                         after, /*is_trial=*/true);
    }
    if (outcome == Outcome::kFound) {
      outcome = FindRoot(states, products, root, after, /*is_trial=*/false);
    }
    if (outcome != Outcome::kNotSo) return outcome;
  }
  return Outcome::kNotSo;
}

// Finds a chain whose output is known.
// after: the nodes that use the last product.
ChainFinder::Outcome ChainFinder::FindRoot(
    const StepOutputs& states, const std::vector<const Node*>& products,
    const StepOutputs& root, const Nodes& after, bool is_trial) {
  Matcher matcher(claimed_);
  const Part* const output = matcher.Match(root);
  if (output == nullptr || output->kind != Part::kComputed ||
      !output->has_state) {
    return Outcome::kNotSo;
  }
  const Part* const state = matcher.Find(states);
  if (state == nullptr || state->next != output ||
      !matcher.Computes(products)) {
    return Outcome::kNotSo;
  }
  auto chain = std::make_unique<Chain>();
  std::set<const Part*> seen;
  AddParts(output, &seen, chain.get());
  const bool has_wrong_input = std::any_of(
      chain->lists_.begin(), chain->lists_.end(), [&](const Part* list) {
        return after.count(list->outputs.back().node) > 0;
      });
  // Layers that share their weights are copies without inputs of each.
  if (chain->lists_.empty()) return Outcome::kNone;
  if (has_wrong_input) return Outcome::kNotSo;
  if (is_trial) return Outcome::kFound;
  chain->root_ = output;
  AddNodes(matcher, *chain);
  chain->parts_ = std::move(matcher.parts());
  AddName(chain.get());
  AddUses(chain.get());
  if (chain->why_not_.empty() && DependsOnItself(*chain)) {
    chain->why_not_ = "an input of a step is computed from an earlier step";
  }
  if (chain->why_not_.empty() && IsConditional()) {
    chain->why_not_ = "it is in a branch or a loop";
  }
  chains_.push_back(std::move(chain));
  return Outcome::kFound;
}

// Adds the sequences, states and invariants of a part and of what computes it.
void ChainFinder::AddParts(const Part* part, std::set<const Part*>* seen,
                           Chain* chain) {
  if (!seen->insert(part).second) return;
  switch (part->kind) {
    case Part::kSame:
      AddInvariants(part->outputs[0], chain);
      break;
    case Part::kInput:
      chain->lists_.push_back(part);
      break;
    case Part::kState:
      chain->states_.push_back(part);
      AddParts(part->next, seen, chain);
      break;
    case Part::kComputed:
      for (const Part* input : *part->inputs) AddParts(input, seen, chain);
      break;
  }
}

void ChainFinder::AddInvariants(Output output, Chain* chain) {
  if (IsComputedInStep(output.node)) {
    for (int i = 0; i < output.node->num_inputs(); ++i) {
      AddInvariants(InputOf(output.node, i), chain);
    }
    return;
  }
  const auto& known = chain->invariants_;
  if (std::find(known.begin(), known.end(), output) == known.end()) {
    chain->invariants_.push_back(output);
  }
}

// Claims the nodes of the steps.
void ChainFinder::AddNodes(const Matcher& matcher, const Chain& chain) {
  std::vector<const Node*> nodes;
  const auto add = [&](const Node* node) {
    if (claimed_.emplace(node, nodes_.size()).second) nodes.push_back(node);
  };
  std::set<const Part*> seen;
  std::vector<const Part*> parts = {chain.root_};
  while (!parts.empty()) {
    const Part* const part = parts.back();
    parts.pop_back();
    if (!seen.insert(part).second) continue;
    if (part->next != nullptr) parts.push_back(part->next);
    if (part->kind != Part::kComputed) continue;
    parts.insert(parts.end(), part->inputs->begin(), part->inputs->end());
    if (part->is_invariant) continue;
    for (const Output& each : part->outputs) add(each.node);
  }
  for (bool is_done = false; !is_done;) {
    const size_t size = nodes.size();
    for (const auto& [node, source] : matcher.passed()) {
      const auto known = claimed_.find(source);
      if (known != claimed_.end() && known->second == nodes_.size()) add(node);
    }
    is_done = nodes.size() == size;
  }
  nodes_.push_back(std::move(nodes));
}

// Whether a node only stacks the outputs of all steps.
bool ChainFinder::IsStack(const Node* node, const Chain& chain) const {
  int64_t axis = -1;
  const StepOutputs& outputs = chain.root_->outputs;
  if (!Has(node, "Pack") || HasControlInputs(node) ||
      node->num_inputs() != static_cast<int>(outputs.size()) ||
      !tensorflow::TryGetNodeAttr(node->attrs(), "axis", &axis) || axis != 0) {
    return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!(InputOf(node, static_cast<int>(i)) == outputs[i])) return false;
  }
  return true;
}

namespace {

// Whether nothing uses what a node computes.
bool IsUnused(const Node* node) {
  return IsPure(node) &&
         std::all_of(node->out_edges().begin(), node->out_edges().end(),
                     [](const Edge* edge) { return edge->dst()->IsSink(); });
}

}  // namespace

// Finds what is used of the steps.
void ChainFinder::AddUses(Chain* chain) {
  const StepOutputs& outputs = chain->root_->outputs;
  const size_t last = outputs.size() - 1;
  std::map<std::pair<const Node*, int>, size_t> steps;
  for (size_t i = 0; i <= last; ++i) {
    steps[{outputs[i].node, outputs[i].index}] = i;
  }
  std::set<std::pair<const Node*, int>> finals;
  for (const Part* state : chain->states_) {
    const Output& final = state->next->outputs[last];
    finals.emplace(final.node, final.index);
  }
  const size_t number = chains_.size();
  for (const Node* node : nodes_[number]) {
    chain->nodes_.insert(node->name());
    for (const Edge* edge : node->out_edges()) {
      const auto user = claimed_.find(edge->dst());
      if (edge->dst()->IsSink() ||
          (user != claimed_.end() && user->second == number)) {
        continue;
      }
      const std::pair<const Node*, int> value(node, edge->src_output());
      const auto step = steps.find(value);
      if (step == steps.end() && finals.count(value) == 0) {
        // Keras 3 computes some columns in vain.
        if (!IsUnused(edge->dst())) {
          chain->why_not_ = "a value within its steps is used elsewhere";
        }
        chain->nodes_.insert(edge->dst()->name());
      } else if (step != steps.end() && IsStack(edge->dst(), *chain)) {
        chain->returns_sequences_ = true;
        if (step->second == 0) chain->stacks_.push_back(edge->dst()->name());
      } else if (step != steps.end()) {
        chain->returns_sequences_ |= step->second < last;
      }
    }
  }
}

// Whether a value from outside depends on a value of the steps, also if other
// chains become one node.
bool ChainFinder::DependsOnItself(const Chain& chain) const {
  Nodes sources;
  for (const Part* list : chain.lists_) {
    for (const Output& each : list->outputs) sources.insert(each.node);
  }
  for (const Part* state : chain.states_) {
    sources.insert(state->outputs[0].node);
  }
  for (const Output& each : chain.invariants_) sources.insert(each.node);
  std::vector<const Node*> reached = nodes_[chains_.size()];
  Nodes seen(reached.begin(), reached.end());
  while (!reached.empty()) {
    const Node* const node = reached.back();
    reached.pop_back();
    if (sources.count(node) > 0) return true;
    for (const Edge* edge : node->out_edges()) {
      const Node* const next = edge->dst();
      if (!seen.insert(next).second) continue;
      reached.push_back(next);
      const auto other = claimed_.find(next);
      if (other == claimed_.end()) continue;
      for (const Node* each : nodes_[other->second]) {
        if (seen.insert(each).second) reached.push_back(each);
      }
    }
  }
  return false;
}

// Whether the steps may not run, or run several times.
bool ChainFinder::IsConditional() {
  if (!has_conditional_) {
    has_conditional_ = true;
    std::vector<const Node*> reached;
    for (const Node* node : graph_.op_nodes()) {
      if (node->IsSwitch() || node->IsEnter()) reached.push_back(node);
    }
    conditional_.insert(reached.begin(), reached.end());
    while (!reached.empty()) {
      const Node* const node = reached.back();
      reached.pop_back();
      if (node->IsExit()) continue;
      for (const Edge* edge : node->out_edges()) {
        if (conditional_.insert(edge->dst()).second) {
          reached.push_back(edge->dst());
        }
      }
    }
  }
  const auto& nodes = nodes_[chains_.size()];
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    return conditional_.count(node) > 0;
  });
}

// Names a chain after the scope of its first step.
void ChainFinder::AddName(Chain* chain) {
  if (names_.empty()) {
    for (const Node* node : graph_.op_nodes()) names_.insert(node->name());
  }
  std::string scope = chain->root_->outputs[0].node->name();
  const size_t slash = scope.rfind('/');
  scope = slash == std::string::npos ? "" : scope.substr(0, slash + 1);
  const std::string name = absl::StrCat(scope, "unrolled");
  chain->name_ = name;
  for (int i = 1; !names_.insert(chain->name_).second; ++i) {
    chain->name_ = absl::StrCat(name, "_", i);
  }
}

std::vector<std::unique_ptr<Chain>> FindChains(const Graph& graph) {
  return ChainFinder(graph).Run();
}

bool MayHaveChain(const Graph& graph) {
  absl::flat_hash_set<std::pair<const Node*, int>> known;
  for (const Node* node : graph.op_nodes()) {
    const int input = InputOfWeights(node->type_string(), node->attrs());
    if (input < 0) continue;
    const Output whole = WholeOf(InputOf(node, input));
    if (!known.emplace(whole.node, whole.index).second) return true;
  }
  return false;
}

bool MayHaveChain(const NodeDefs& nodes) {
  std::vector<absl::string_view> weights;
  absl::flat_hash_map<absl::string_view, absl::string_view> sources;
  const auto source = [](const NodeDef& node, int input) {
    return input < node.input_size() ? absl::string_view(node.input(input))
                                     : absl::string_view();
  };
  for (const NodeDef& node : nodes) {
    const int input = InputOfWeights(node.op(), tensorflow::AttrSlice(node));
    if (input >= 0) weights.push_back(source(node, input));
  }
  if (weights.size() < 2) return false;
  for (const NodeDef& node : nodes) {
    const int input = InputOfMatrix(node.op());
    if (input >= 0) sources[node.name()] = source(node, input);
  }
  absl::flat_hash_set<absl::string_view> known;
  for (absl::string_view each : weights) {
    for (size_t i = 0; i < kMaxReach; ++i) {
      each = each.substr(0, each.find(':'));
      const auto known_source = sources.find(each);
      if (known_source == sources.end()) break;
      each = known_source->second;
    }
    if (!known.insert(each).second) return true;
  }
  return false;
}

}  // namespace tf_rnn_ops
