// Replaces the loops of recurrent layers in graphs by calls of functions with
// the op KerasRNN.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "cc/tensorflow/loops/layer_function.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/recurrent_layer.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Edge;
using ::tensorflow::FunctionDef;
using ::tensorflow::FunctionLibraryDefinition;
using ::tensorflow::Graph;
using ::tensorflow::GraphDef;
using ::tensorflow::Node;
using ::tensorflow::NodeDef;
using NodeDefs = ::google::protobuf::RepeatedPtrField<NodeDef>;

// What became of a loop over the steps of sequences.
struct LoopReport {
  std::string function;  // that has the loop, or a session
  std::string node;
  std::string mode;     // rnn_mode of the op, or empty
  std::string why_not;  // why it is not replaced, or empty
};

// How to replace a loop by a call.
struct Replacement {
  FunctionDef layer;
  std::map<int, std::string> lists;  // by input: the node that makes its list
  std::vector<std::string> stacks;   // the nodes that stack the outputs
};

// Whether a loop may read the steps of sequences.
bool ReadsList(const Node* loop) {
  for (const Node* input : loop->in_nodes()) {
    if (input->type_string() == "TensorListFromTensor") return true;
  }
  return false;
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

// Finds how to replace the loops in a graph, by the name of the While.
std::map<std::string, Replacement> FindReplacements(
    const std::string& function, const Graph& graph,
    const FunctionLibraryDefinition& library, std::vector<LoopReport>* loops) {
  std::map<std::string, Replacement> replacements;
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsWhileNode() || !ReadsList(node)) continue;
    Loop loop;
    RecurrentLayer layer;
    absl::Status status = ReadLoop(node, library, &loop);
    if (status.ok()) status = RecognizeLayer(loop, &layer);
    LoopReport report{function, node->name(), layer.rnn_mode, ""};
    if (status.ok()) {
      Replacement replacement = ReplacementOf(loop, layer);
      status = MakeLayerFunction(loop, layer, library, &replacement.layer);
      if (status.ok()) {
        replacements[node->name()] = std::move(replacement);
      }
    }
    report.why_not = std::string(status.message());
    loops->push_back(std::move(report));
  }
  return replacements;
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
void PassOutputs(const std::string& outputs, tensorflow::DataType type,
                 const NodeDef& stack, NodeDef* identity) {
  identity->set_name(stack.name());
  identity->set_op("Identity");
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
      PassOutputs(outputs, results[last].type(), *by_name.at(stack),
                  &new_nodes[stack]);
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

bool HasLoop(const NodeDefs& nodes) {
  for (const NodeDef& node : nodes) {
    if (node.op() == "While" || node.op() == "StatelessWhile") return true;
  }
  return false;
}

absl::Status AddLayers(const std::map<std::string, Replacement>& replacements,
                       FunctionLibraryDefinition* library) {
  for (const auto& [unused, replacement] : replacements) {
    absl::Status status = library->AddFunctionDef(replacement.layer);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Replaces the loops in a function of a library.
absl::Status AccelerateFunction(const FunctionDef& function,
                                FunctionLibraryDefinition* library,
                                std::vector<LoopReport>* loops) {
  std::unique_ptr<tensorflow::FunctionBody> body;
  const std::string name = function.signature().name();
  absl::Status status = tensorflow::FunctionDefToBodyHelper(
      function, tensorflow::AttrSlice(), library, &body);
  if (!status.ok()) return status;
  const auto replacements =
      FindReplacements(name, *body->graph, *library, loops);
  if (replacements.empty()) return absl::OkStatus();
  FunctionDef accelerated = function;
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
  status = AddLayers(replacements, library);
  return status.ok() ? library->ReplaceFunction(name, accelerated) : status;
}

// Appends the functions that a node calls, unless XLA compiles them.
void AppendCalled(const tensorflow::AttrSlice& attributes,
                  std::vector<std::string>* names) {
  const size_t num_names = names->size();
  for (const auto& [unused, value] : attributes) {
    if (value.has_func()) {
      names->push_back(value.func().name());
    } else if (value.has_list()) {
      for (const auto& function : value.list().func()) {
        names->push_back(function.name());
      }
    }
  }
  if (names->size() == num_names) return;
  const tensorflow::AttrValue* const is_compiled =
      attributes.Find("_XlaMustCompile");
  if (is_compiled != nullptr && is_compiled->b()) names->resize(num_names);
}

// Replaces the loops in functions, and in those that they call.
void AccelerateFunctions(std::vector<std::string> names,
                         FunctionLibraryDefinition* library,
                         std::vector<LoopReport>* loops) {
  std::set<std::string> seen;
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    if (!seen.insert(name).second) continue;
    const auto record = library->FindRecord(name);
    if (record == nullptr) continue;
    for (const NodeDef& node : record->fdef().node_def()) {
      AppendCalled(tensorflow::AttrSlice(node), &names);
    }
    if (!HasLoop(record->fdef().node_def())) continue;
    const absl::Status status =
        AccelerateFunction(record->fdef(), library, loops);
    if (!status.ok()) {
      loops->push_back({name, "", "", std::string(status.message())});
    }
  }
}

// Replaces loops in a graph that TensorFlow prepares.
absl::Status ReplaceInGraph(
    const std::map<std::string, Replacement>& replacements,
    FunctionLibraryDefinition* library, std::unique_ptr<Graph>* graph) {
  GraphDef definition;
  (*graph)->ToGraphDef(&definition, /*include_flib_def=*/false);
  Replace(replacements, /*is_function=*/false, definition.mutable_node());
  absl::Status status = AddLayers(replacements, library);
  if (!status.ok()) return status;
  auto accelerated = std::make_unique<Graph>(*library);
  tensorflow::GraphConstructorOptions options;
  options.allow_internal_ops = true;
  options.add_default_attributes = false;
  status = tensorflow::ConvertGraphDefToGraph(options, std::move(definition),
                                              accelerated.get());
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

// The loops that were found in the process, each counted once: TensorFlow may
// prepare a function several times.
class LoopCounts {
 public:
  // Never destroyed.
  static LoopCounts* Get() {
    static LoopCounts& counts = *new LoopCounts;
    return &counts;
  }

  void Add(const std::vector<LoopReport>& loops) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const LoopReport& loop : loops) {
      const bool is_replaced = loop.why_not.empty();
      const bool is_new =
          (is_replaced ? replaced_ : others_)
              .insert(absl::StrCat(loop.function, "/", loop.node))
              .second;
      if (!is_new) continue;
      VLOG(1) << "loop " << loop.node << " of function " << loop.function
              << (is_replaced ? " runs on the op as " : " stays: ")
              << (is_replaced ? loop.mode : loop.why_not);
    }
  }

  int64_t NumReplaced() { return Size(replaced_); }
  int64_t NumOther() { return Size(others_); }

 private:
  int64_t Size(const std::set<std::string>& loops) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(loops.size());
  }

  std::mutex mutex_;
  std::set<std::string> replaced_;
  std::set<std::string> others_;
};

// Replaces the loops in each graph before TensorFlow lowers and inlines them.
class AccelerateGraphs final : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(
      const tensorflow::GraphOptimizationPassOptions& options) override {
    if (!is_on || options.graph == nullptr || *options.graph == nullptr ||
        options.flib_def == nullptr || HasAccelerator(options.device_set)) {
      return absl::OkStatus();
    }
    const absl::Status status = CatchInKernel("AccelerateGraphs", [&] {
      return FromAbslStatus(Accelerate(options));
    });
    // A graph that stays as it is still runs.
    if (!status.ok()) LOG(WARNING) << "graph not accelerated: " << status;
    return absl::OkStatus();
  }

  inline static std::atomic<bool> is_on = false;

 private:
  static bool HasAccelerator(const tensorflow::DeviceSet* devices) {
    if (devices == nullptr) return false;
    for (const tensorflow::Device* device : devices->devices()) {
      const std::string& type = device->device_type();
      if (type != tensorflow::DEVICE_CPU && type != "XLA_CPU") return true;
    }
    return false;
  }

  static absl::Status Accelerate(
      const tensorflow::GraphOptimizationPassOptions& options);
};

absl::Status AccelerateGraphs::Accelerate(
    const tensorflow::GraphOptimizationPassOptions& options) {
  std::unique_ptr<Graph>* const graph = options.graph;
  FunctionLibraryDefinition* const library = options.flib_def;
  std::vector<std::string> called;
  bool has_loop = false;
  // Other nodes with functions prepare graphs for these when they run them.
  for (const Node* node : (*graph)->op_nodes()) {
    const bool calls = node->IsFunctionCall() || node->IsWhileNode() ||
                       node->IsIfNode() || node->IsCaseNode();
    if (!calls) continue;
    // Its function is differentiated later.
    if (node->type_string() == "SymbolicGradient") return absl::OkStatus();
    has_loop |= node->IsWhileNode();
    AppendCalled(node->attrs(), &called);
  }
  std::vector<LoopReport> loops;
  AccelerateFunctions(called, library, &loops);
  if (has_loop) {
    const std::string name = options.function_def != nullptr
                                 ? options.function_def->signature().name()
                                 : options.session_handle;
    const auto replacements = FindReplacements(name, **graph, *library, &loops);
    if (!replacements.empty()) {
      absl::Status status = ReplaceInGraph(replacements, library, graph);
      if (!status.ok()) return status;
    }
  }
  LoopCounts::Get()->Add(loops);
  return absl::OkStatus();
}

[[maybe_unused]] const bool registered = [] {
  const char* const wanted = std::getenv("TF_RNN_OPS_ACCELERATE_GRAPHS");
  AccelerateGraphs::is_on =
      wanted != nullptr && absl::string_view(wanted) == "1";
  // Phase 10 lowers the loops.
  tensorflow::OptimizationPassRegistry::Global()->Register(
      tensorflow::OptimizationPassRegistry::PRE_PLACEMENT, /*phase=*/5,
      std::make_unique<AccelerateGraphs>());
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops

extern "C" {

// Replaces loops in all graphs that TensorFlow prepares from now on.
__attribute__((visibility("default"))) void TfRnnOps_AccelerateGraphs() {
  tf_rnn_ops::AccelerateGraphs::is_on = true;
}

// Ends that.
__attribute__((visibility("default"))) void TfRnnOps_RestoreGraphs() {
  tf_rnn_ops::AccelerateGraphs::is_on = false;
}

// The number of loops over the steps of sequences that were replaced.
__attribute__((visibility("default"))) int64_t TfRnnOps_NumAcceleratedLoops() {
  return tf_rnn_ops::LoopCounts::Get()->NumReplaced();
}

// The number of those that were not.
__attribute__((visibility("default"))) int64_t TfRnnOps_NumOtherLoops() {
  return tf_rnn_ops::LoopCounts::Get()->NumOther();
}
}
