// Marks the ops of a graph whose weights are constants, so that their kernels
// pack them only once, and removes other marks, except from ops whose weights
// are variables: whoever marked these says that they do not change. Runs in
// each program with the op library, without any change to the graphs in files.

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/signature.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Edge;
using ::tensorflow::Node;

// The names of the weights that an op packs; empty for most ops.
std::vector<absl::string_view> NamesOfWeights(absl::string_view op) {
  const bool is_ours = absl::ConsumePrefix(&op, "TfRnnOps>");
  std::vector<absl::string_view> names;
  for (const Signature& signature : Signatures()) {
    const bool is_it = signature.name == op &&
                       (is_ours || signature.builtin != BuiltinOp::kNone);
    if (!is_it) continue;
    for (const Argument& input : signature.inputs) {
      if (input.is_weight) names.push_back(input.name);
    }
  }
  return names;
}

// The node that makes the value of a node, also in each step of a loop that
// does not change it. Null if there may be several.
const Node* SourceOf(const Node* node) {
  const Node* source = nullptr;
  std::vector<const Node*> path{node};
  std::unordered_set<const Node*> seen;
  while (!path.empty()) {
    const Node* const each = path.back();
    path.pop_back();
    if (!seen.insert(each).second) continue;
    const bool passes_all = each->IsMerge();
    const bool passes_first = each->IsIdentity() || each->IsEnter() ||
                              each->IsSwitch() || each->IsNextIteration() ||
                              each->IsExit();
    if (!passes_all && !passes_first) {
      if (source != nullptr) return nullptr;
      source = each;
      continue;
    }
    for (const Edge* edge : each->in_edges()) {
      if (!edge->IsControlEdge() && (passes_all || edge->dst_input() == 0)) {
        path.push_back(edge->src());
      }
    }
  }
  return source;
}

// A row of a matrix of two rows.
struct Row {
  const Edge* matrix = nullptr;  // null if it is not known
  int index = 0;
};

int IntegerOf(const Node& node, const char* attribute, int otherwise) {
  tensorflow::TryGetNodeAttr(node.attrs(), attribute, &otherwise);
  return otherwise;
}

const Edge* InputOf(const Node& node, int input) {
  const Edge* edge = nullptr;
  return node.input_edge(input, &edge).ok() ? edge : nullptr;
}

// The value of an edge as an output of an Unpack, or of a Split along axis 0
// with a Squeeze.
Row RowOf(const Edge* edge) {
  bool is_squeezed = false;
  while (edge != nullptr) {
    const Node& node = *edge->src();
    const std::string& op = node.type_string();
    if (op == "Unpack" && !is_squeezed && node.num_outputs() == 2 &&
        IntegerOf(node, "axis", 0) == 0) {
      return {InputOf(node, 0), edge->src_output()};
    }
    if (op == "Split" && is_squeezed && node.num_outputs() == 2) {
      const Node* axis = nullptr;
      const tensorflow::TensorProto* proto = nullptr;
      tensorflow::Tensor tensor;
      const bool is_first_axis =
          node.input_node(0, &axis).ok() && axis->IsConstant() &&
          tensorflow::TryGetNodeAttr(axis->attrs(), "value", &proto) &&
          tensor.FromProto(*proto) && tensor.NumElements() == 1 &&
          tensor.dtype() == tensorflow::DT_INT32 &&
          *static_cast<const int32_t*>(ToArray(tensor).data) == 0;
      return {is_first_axis ? InputOf(node, 1) : nullptr, edge->src_output()};
    }
    std::vector<int> dims;
    tensorflow::TryGetNodeAttr(node.attrs(), "squeeze_dims", &dims);
    if (op == "Squeeze" && !is_squeezed && dims == std::vector<int>{0}) {
      is_squeezed = true;
    } else if (!node.IsIdentity()) {
      break;
    }
    edge = InputOf(node, 0);
  }
  return {};
}

// Gives an op the matrix of which an input packs both rows, as loops of GRUs
// take the rows of their bias: a kernel would see a new tensor in each call.
absl::Status PassMatrix(int input, Node* node, tensorflow::Graph* graph) {
  const Edge* edge = InputOf(*node, input);
  while (edge != nullptr && edge->src()->IsIdentity()) {
    edge = InputOf(*edge->src(), 0);
  }
  const bool is_pack =
      edge != nullptr && edge->src()->type_string() == "Pack" &&
      edge->src()->num_inputs() == 2 && IntegerOf(*edge->src(), "axis", 0) == 0;
  if (!is_pack) return absl::OkStatus();
  const Row first = RowOf(InputOf(*edge->src(), 0));
  const Row second = RowOf(InputOf(*edge->src(), 1));
  const bool is_whole =
      first.matrix != nullptr && second.matrix != nullptr &&
      first.matrix->src() == second.matrix->src() &&
      first.matrix->src_output() == second.matrix->src_output() &&
      first.index == 0 && second.index == 1;
  return is_whole ? graph->UpdateEdge(first.matrix->src(),
                                      first.matrix->src_output(), node, input)
                  : absl::OkStatus();
}

// Where the weights of an op come from.
struct Weights {
  bool are_constants = true;
  bool are_constants_or_variables = true;
};

Weights FindWeights(const Node& node,
                    const std::vector<absl::string_view>& names) {
  Weights weights;
  // None of these ops has a list before its weights.
  for (int i = 0; i < node.op_def().input_arg_size(); ++i) {
    const bool is_weight =
        std::find(names.begin(), names.end(),
                  node.op_def().input_arg(i).name()) != names.end();
    if (!is_weight) continue;
    const Node* input = nullptr;
    const Node* const source =
        node.input_node(i, &input).ok() ? SourceOf(input) : nullptr;
    const bool is_constant = source != nullptr && source->IsConstant();
    const bool is_variable =
        source != nullptr && source->type_string() == "ReadVariableOp";
    weights.are_constants &= is_constant;
    weights.are_constants_or_variables &= is_constant || is_variable;
  }
  return weights;
}

// Whether a node may draw masks, and so needs its weights for training.
bool AppliesDropout(const Node& node) {
  bool is_training = false;
  float dropout = 0;
  return tensorflow::TryGetNodeAttr(node.attrs(), "is_training",
                                    &is_training) &&
         tensorflow::TryGetNodeAttr(node.attrs(), "dropout", &dropout) &&
         is_training && dropout > 0;
}

// Marks a node, or removes its mark.
absl::Status MarkNode(Node* node, tensorflow::Graph* graph) {
  const auto names = NamesOfWeights(node->type_string());
  if (names.empty()) return absl::OkStatus();
  for (int i = 0; i < node->num_inputs(); ++i) {
    const absl::Status status = PassMatrix(i, node, graph);
    if (!status.ok()) return status;
  }
  const Weights weights =
      AppliesDropout(*node) ? Weights{false, false} : FindWeights(*node, names);
  bool is_marked = node->attrs().Find(kConstantWeights) != nullptr;
  if (is_marked && !weights.are_constants_or_variables) {
    node->ClearAttr(kConstantWeights);
    is_marked = false;
  } else if (!is_marked && weights.are_constants) {
    node->AddAttr(kConstantWeights, "float32");
    is_marked = true;
  }
  if (is_marked && node->op_def().is_stateful()) {
    // A session has one kernel for all stateful nodes of a name. In another
    // run, the weights may be fed.
    node->set_name(absl::StrCat("_tf_rnn_ops_constant_weights/", node->name()));
  }
  return absl::OkStatus();
}

class MarkConstantWeights final : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(
      const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) {
      return absl::OkStatus();
    }
    return CatchInKernel("MarkConstantWeights", [&] {
      for (Node* node : (*options.graph)->op_nodes()) {
        const absl::Status status = MarkNode(node, options.graph->get());
        if (!status.ok()) return FromAbslStatus(status);
      }
      return Status();
    });
  }
};

// After functions are inlined and before a graph is split.
[[maybe_unused]] const bool registered = [] {
  tensorflow::OptimizationPassRegistry::Global()->Register(
      tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, /*phase=*/0,
      std::make_unique<MarkConstantWeights>());
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
