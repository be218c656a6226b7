#include "cc/tensorflow/loops/replace_loops.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cc/tensorflow/loops/frame.h"
#include "cc/tensorflow/loops/layer_function.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Edge;
using ::tensorflow::FunctionDef;
using ::tensorflow::Graph;
using ::tensorflow::GraphDef;
using ::tensorflow::Node;
using ::tensorflow::NodeDef;
using NodeDefs = ::google::protobuf::RepeatedPtrField<NodeDef>;

// Whether a loop may read the steps of sequences.
bool ReadsList(const Node* loop) {
  for (const Node* input : loop->in_nodes()) {
    if (input->type_string() == "TensorListFromTensor") return true;
  }
  return false;
}

// The rnn_mode of each cell.
std::string ModesOf(const RecurrentLayer& layer) {
  return absl::StrJoin(layer.cells, ", ",
                       [](std::string* modes, const Cell& cell) {
                         absl::StrAppend(modes, cell.rnn_mode);
                       });
}

bool MayHaveLayer(const Graph& graph) {
  for (const Node* node : graph.op_nodes()) {
    if (node->IsWhileNode() && ReadsList(node)) return true;
  }
  return HasFrame(graph) || MayHaveChain(graph);
}

Replacement ReplacementOf(const Loop& loop, const RecurrentLayer& layer) {
  Replacement replacement;
  for (size_t i = 0; i < loop.variables.size(); ++i) {
    if (loop.variables[i].role != Role::kInputList) continue;
    replacement.lists[static_cast<int>(i)] =
        loop.variables[i].initial.node->name();
  }
  for (const Edge* edge : loop.node->out_edges()) {
    if (edge->src_output() == layer.outputs &&
        edge->dst()->type_string() == "TensorListStack") {
      replacement.stacks.push_back(edge->dst()->name());
    }
  }
  return replacement;
}

// Turns the node of a loop into a call of the function that replaces it.
void CallLayer(const Replacement& replacement, const NodeDef& loop,
               const std::map<std::string, const NodeDef*>& nodes,
               NodeDef* call) {
  const bool is_stateful = loop.op() == "While";
  call->set_name(loop.name());
  call->set_op(is_stateful ? "StatefulPartitionedCall" : "PartitionedCall");
  call->set_device(loop.device());
  for (int i = 0; i < loop.input_size(); ++i) {
    const auto list = replacement.lists.find(i);
    call->add_input(list == replacement.lists.end()
                        ? loop.input(i)
                        : nodes.at(list->second)->input(0));
  }
  const auto& signature = replacement.layer.signature();
  auto& attributes = *call->mutable_attr();
  attributes["f"].mutable_func()->set_name(signature.name());
  for (const auto& argument : signature.input_arg()) {
    attributes["Tin"].mutable_list()->add_type(argument.type());
  }
  for (const auto& result : signature.output_arg()) {
    attributes["Tout"].mutable_list()->add_type(result.type());
  }
}

// Turns the node that stacks the outputs of a loop into an identity of them.
//
// In a graph, it is an EnsureShape. If two Transposes cancel each other, have
// only Identities between them, and a program fetches the second, TensorFlow
// removes only the first (RemoveIdentityTranspose in its arithmetic optimizer).
void PassOutputs(const std::string& outputs, tensorflow::DataType type,
                 bool is_function, const NodeDef& stack, NodeDef* identity) {
  identity->set_name(stack.name());
  identity->set_op(is_function ? "Identity" : "EnsureShape");
  if (!is_function) {
    // [time, batch, units]
    auto* const shape = (*identity->mutable_attr())["shape"].mutable_shape();
    for (int i = 0; i < 3; ++i) shape->add_dim()->set_size(-1);
  }
  identity->set_device(stack.device());
  identity->add_input(outputs);
  for (const std::string& input : stack.input()) {
    if (absl::StartsWith(input, "^")) identity->add_input(input);
  }
  (*identity->mutable_attr())["T"].set_type(type);
}

// Replaces loops in the nodes of a graph or, if `is_function`, of a function,
// where references contain the names of outputs.
void Replace(const std::map<std::string, Replacement>& replacements,
             bool is_function, NodeDefs* nodes) {
  std::map<std::string, const NodeDef*> by_name;
  for (const NodeDef& node : *nodes) by_name[node.name()] = &node;
  std::map<std::string, NodeDef> new_nodes;
  for (const auto& [name, replacement] : replacements) {
    CallLayer(replacement, *by_name.at(name), by_name, &new_nodes[name]);
    const auto& results = replacement.layer.signature().output_arg();
    const int last = results.size() - 1;
    const std::string outputs =
        absl::StrCat(name, is_function ? ":output:" : ":", last);
    for (const std::string& stack : replacement.stacks) {
      PassOutputs(outputs, results[last].type(), is_function,
                  *by_name.at(stack), &new_nodes[stack]);
    }
  }
  for (NodeDef& node : *nodes) {
    const auto new_node = new_nodes.find(node.name());
    if (new_node != new_nodes.end()) node = new_node->second;
  }
}

// In references of a function, the output of an Identity is "output", and that
// of the TensorListStack that it replaces "tensor".
void RenameOutput(const std::set<std::string>& stacks, std::string* reference) {
  const std::vector<std::string> parts = absl::StrSplit(*reference, ':');
  if (parts.size() > 1 && stacks.count(parts[0]) > 0) {
    *reference = absl::StrCat(parts[0], ":output:0");
  }
}

bool MayHaveLayer(const NodeDefs& nodes) {
  for (const NodeDef& node : nodes) {
    if (node.op() == "While" || node.op() == "StatelessWhile" ||
        node.op() == "LoopCond") {
      return true;
    }
  }
  return MayHaveChain(nodes);
}

bool IsCompiledByXla(const tensorflow::AttrSlice& attributes) {
  const tensorflow::AttrValue* const value = attributes.Find("_XlaMustCompile");
  return value != nullptr && value->b();
}

tensorflow::GraphConstructorOptions GraphOptions() {
  tensorflow::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.add_default_attributes = false;
  return options;
}

}  // namespace

void AppendCalled(const tensorflow::AttrSlice& attributes,
                  std::vector<std::string>* names) {
  if (IsCompiledByXla(attributes)) return;
  const std::vector<std::string> called = FunctionsOf(attributes);
  names->insert(names->end(), called.begin(), called.end());
}

// Finds how to replace the loops in a graph.
LoopReplacer::Replacements LoopReplacer::Find(
    const std::string& name, const Graph& graph,
    const tensorflow::FunctionLibraryDefinition& library,
    const GraphDef* definition) {
  Replacements replacements;
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsWhileNode() || !ReadsList(node)) continue;
    Loop loop;
    RecurrentLayer layer;
    Replacement replacement;
    absl::Status status = ReadLoop(node, library, &loop);
    if (status.ok()) status = RecognizeLayer(loop, &layer);
    if (status.ok()) {
      replacement = ReplacementOf(loop, layer);
      status = MakeLayerFunction(loop, layer, library, &replacement.layer);
    }
    LoopReport report{name, node->name(), ModesOf(layer),
                      std::string(status.message())};
    if (status.ok() && accept_ != nullptr &&
        !accept_({report, loop, layer, replacement.layer, definition})) {
      report.why_not = "it was not accepted";
    }
    if (report.why_not.empty()) {
      replacements[node->name()] = std::move(replacement);
    }
    loops_.push_back(std::move(report));
  }
  return replacements;
}

// Finds layers without loops in a graph that While nodes can replace.
std::vector<std::unique_ptr<Chain>> LoopReplacer::FindChainsIn(
    const std::string& name, const Graph& graph) {
  std::vector<std::unique_ptr<Chain>> chains;
  if (!MayHaveChain(graph)) return chains;
  for (auto& chain : FindChains(graph)) {
    if (chain->why_not().empty()) {
      chains.push_back(std::move(chain));
    } else {
      loops_.push_back({name, chain->name(), "", chain->why_not()});
    }
  }
  return chains;
}

// Finds how to replace the loops and chains in a function.
LoopReplacer::Replacements LoopReplacer::FindWithChains(
    const FunctionDef& function,
    const std::vector<std::unique_ptr<Chain>>& chains) {
  // Only the layers get into the library, not the bodies of the loops.
  tensorflow::FunctionLibraryDefinition library(*library_);
  FunctionDef with_loops = function;
  const std::string& name = function.signature().name();
  absl::Status status;
  for (const auto& chain : chains) {
    chain->AddLoop(&with_loops);
    if (status.ok()) status = chain->AddFunctions(&library);
  }
  if (status.ok()) status = library.ReplaceFunction(name, with_loops);
  std::unique_ptr<tensorflow::FunctionBody> body;
  if (status.ok()) {
    status = Instantiate(with_loops, tensorflow::AttrSlice(), library, &body);
  }
  if (!status.ok()) {
    loops_.push_back({name, "", "", std::string(status.message())});
    return {};
  }
  GraphDef definition;
  if (accept_ != nullptr) *definition.mutable_library() = library.ToProto();
  return Find(name, *body->graph, library, &definition);
}

absl::Status LoopReplacer::AddLayers(const Replacements& replacements) {
  for (const auto& [unused, replacement] : replacements) {
    absl::Status status = library_->AddFunctionDef(replacement.layer);
    if (!status.ok()) return status;
    layers_.insert(replacement.layer.signature().name());
  }
  return absl::OkStatus();
}

absl::Status LoopReplacer::ReplaceInFunction(const FunctionDef& function) {
  std::unique_ptr<tensorflow::FunctionBody> body;
  const std::string name = function.signature().name();
  absl::Status status =
      Instantiate(function, tensorflow::AttrSlice(), *library_, &body);
  if (!status.ok()) return status;
  const auto chains = FindChainsIn(name, *body->graph);
  const Replacements replacements =
      chains.empty() ? Find(name, *body->graph, *library_, nullptr)
                     : FindWithChains(function, chains);
  if (replacements.empty()) return absl::OkStatus();
  FunctionDef accelerated = function;
  for (const auto& chain : chains) {
    if (replacements.count(chain->name()) > 0) chain->AddLoop(&accelerated);
  }
  // With it, TensorFlow may replace the function by one for cuDNN, and does not
  // inline it.
  accelerated.mutable_attr()->erase("api_implements");
  Replace(replacements, /*is_function=*/true, accelerated.mutable_node_def());
  std::set<std::string> stacks;
  for (const auto& [unused, replacement] : replacements) {
    stacks.insert(replacement.stacks.begin(), replacement.stacks.end());
  }
  for (NodeDef& node : *accelerated.mutable_node_def()) {
    for (std::string& input : *node.mutable_input()) {
      RenameOutput(stacks, &input);
    }
  }
  for (auto& [unused, reference] : *accelerated.mutable_ret()) {
    RenameOutput(stacks, &reference);
  }
  status = AddLayers(replacements);
  if (!status.ok()) return status;
  changed_.insert(name);
  return library_->ReplaceFunction(name, accelerated);
}

void LoopReplacer::ReplaceInFunctions(std::vector<std::string> names) {
  std::set<std::string> seen;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (!seen.insert(name).second) continue;
    const auto record = library_->FindRecord(name);
    if (record == nullptr) continue;
    const FunctionDef& function = record->fdef();
    if (IsCompiledByXla(tensorflow::AttrSlice(&function.attr()))) continue;
    for (const NodeDef& node : function.node_def()) {
      AppendCalled(tensorflow::AttrSlice(node), &names);
    }
    if (!MayHaveLayer(function.node_def())) continue;
    const absl::Status status = ReplaceInFunction(function);
    if (!status.ok()) {
      loops_.push_back({name, "", "", std::string(status.message())});
    }
  }
}

// Replaces loops in the definition of a graph.
absl::Status LoopReplacer::ReplaceInNodes(const std::string& name,
                                          const Graph& graph, bool* has_changed,
                                          GraphDef* definition) {
  const auto chains = FindChainsIn(name, graph);
  const bool has_frame = HasFrame(graph);
  Replacements replacements;
  if (has_frame || !chains.empty()) {
    // Only the layers get into the graph, not the bodies of the loops.
    tensorflow::FunctionLibraryDefinition library(*library_);
    std::vector<std::pair<std::string, std::string>> others;
    GraphDef with_loops = *definition;
    if (has_frame) {
      ReplaceFrames(
          graph, [](const std::string&) { return true; }, &with_loops, &library,
          &others);
    }
    for (const auto& [loop, why_not] : others) {
      loops_.push_back({name, loop, "", why_not});
    }
    absl::Status status;
    for (const auto& chain : chains) {
      chain->AddLoop(&with_loops);
      if (status.ok()) status = chain->AddFunctions(&library);
    }
    *with_loops.mutable_library() = library.ToProto();
    Graph functional(library);
    if (status.ok()) {
      status = tensorflow::ConvertGraphDefToGraph(GraphOptions(), with_loops,
                                                  &functional);
    }
    if (!status.ok()) {
      loops_.push_back({name, "", "", std::string(status.message())});
      return absl::OkStatus();
    }
    replacements = Find(name, functional, library, &with_loops);
    const auto is_wanted = [&](const std::string& loop) {
      return replacements.count(loop) > 0;
    };
    if (has_frame) {
      ReplaceFrames(graph, is_wanted, definition, &library, &others);
    }
    for (const auto& chain : chains) {
      if (is_wanted(chain->name())) chain->AddLoop(definition);
    }
  } else {
    replacements = Find(name, graph, *library_, nullptr);
  }
  *has_changed = !replacements.empty();
  Replace(replacements, /*is_function=*/false, definition->mutable_node());
  return AddLayers(replacements);
}

absl::Status LoopReplacer::ReplaceInGraph(const std::string& name,
                                          std::unique_ptr<Graph>* graph) {
  if (!MayHaveLayer(**graph)) return absl::OkStatus();
  GraphDef definition;
  (*graph)->ToGraphDef(&definition, /*include_flib_def=*/false);
  bool has_changed = false;
  absl::Status status =
      ReplaceInNodes(name, **graph, &has_changed, &definition);
  if (!status.ok() || !has_changed) return status;
  auto accelerated = std::make_unique<Graph>(*library_);
  status = tensorflow::ConvertGraphDefToGraph(
      GraphOptions(), std::move(definition), accelerated.get());
  if (!status.ok()) return status;
  // A definition does not contain the devices of a function's arguments.
  std::map<std::string, std::string> devices;
  for (const Node* node : (*graph)->op_nodes()) {
    devices[node->name()] = node->assigned_device_name();
  }
  for (Node* node : accelerated->op_nodes()) {
    node->set_assigned_device_name(devices[node->name()]);
  }
  *graph = std::move(accelerated);
  return absl::OkStatus();
}

absl::Status LoopReplacer::ReplaceInGraphDef(GraphDef* graph) {
  // Functions that no node calls are called by who loads the graph.
  std::vector<std::string> called;
  for (const auto& function : graph->library().function()) {
    for (const NodeDef& node : function.node_def()) {
      AppendCalled(tensorflow::AttrSlice(node), &called);
    }
  }
  std::vector<std::string> names;
  for (const NodeDef& node : graph->node()) {
    AppendCalled(tensorflow::AttrSlice(node), &names);
  }
  const std::set<std::string> inner(called.begin(), called.end());
  std::set<std::string> known;
  for (const auto& function : graph->library().function()) {
    const std::string& name = function.signature().name();
    known.insert(name);
    if (inner.count(name) == 0) names.push_back(name);
  }
  ReplaceInFunctions(names);
  if (MayHaveLayer(graph->node())) {
    Graph main(*library_);
    absl::Status status =
        tensorflow::ConvertGraphDefToGraph(GraphOptions(), *graph, &main);
    if (!status.ok()) return status;
    bool has_changed = false;
    status = ReplaceInNodes("", main, &has_changed, graph);
    if (!status.ok()) return status;
  }
  for (auto& function : *graph->mutable_library()->mutable_function()) {
    const std::string& name = function.signature().name();
    if (changed_.count(name) > 0) function = *library_->Find(name);
  }
  for (const std::string& name : layers_) {
    if (known.count(name) == 0) {
      *graph->mutable_library()->add_function() = *library_->Find(name);
    }
  }
  return absl::OkStatus();
}

}  // namespace tf_rnn_ops
