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
#include "cc/tensorflow/inputs.h"
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
  Output matrix;  // without a node if it is not known
  int index = 0;
};

int IntegerOf(const Node& node, const char* attribute, int otherwise) {
  tensorflow::TryGetNodeAttr(node.attrs(), attribute, &otherwise);
  return otherwise;
}

// Whether a node is the constant 0.
bool IsZero(const Node* node) {
  const tensorflow::TensorProto* proto = nullptr;
  tensorflow::Tensor tensor;
  return node->IsConstant() &&
         tensorflow::TryGetNodeAttr(node->attrs(), "value", &proto) &&
         tensor.FromProto(*proto) && tensor.NumElements() == 1 &&
         tensor.dtype() == tensorflow::DT_INT32 &&
         *static_cast<const int32_t*>(ToArray(tensor).data) == 0;
}

// The row that an Unpack takes, or a Split along axis 0 with a Squeeze.
Row RowOf(Output output) {
  bool is_squeezed = false;
  for (;;) {
    const Node* const node = output.node;
    if (Has(node, "Unpack") && !is_squeezed && node->num_outputs() == 2 &&
        IntegerOf(*node, "axis", 0) == 0) {
      return {InputOf(node, 0), output.index};
    }
    if (Has(node, "Split") && is_squeezed && node->num_outputs() == 2) {
      return IsZero(InputOf(node, 0).node) ? Row{InputOf(node, 1), output.index}
                                           : Row();
    }
    std::vector<int> dims;
    tensorflow::TryGetNodeAttr(node->attrs(), "squeeze_dims", &dims);
    if (Has(node, "Squeeze") && !is_squeezed && dims == std::vector<int>{0}) {
      is_squeezed = true;
    } else if (!node->IsIdentity()) {
      return {};
    }
    output = InputOf(node, 0);
  }
}

// Gives an op the matrix of which an input packs both rows, as loops of GRUs
// take the rows of their bias: a kernel would see a new tensor in each call.
absl::Status PassMatrix(int input, Node* node, tensorflow::Graph* graph) {
  const Node* const pack = WithoutIdentity(InputOf(node, input)).node;
  const bool is_pack = Has(pack, "Pack") && pack->num_inputs() == 2 &&
                       IntegerOf(*pack, "axis", 0) == 0;
  if (!is_pack) return absl::OkStatus();
  const Row first = RowOf(InputOf(pack, 0));
  const Row second = RowOf(InputOf(pack, 1));
  if (first.matrix.node == nullptr || !(first.matrix == second.matrix) ||
      first.index != 0 || second.index != 1) {
    return absl::OkStatus();
  }
  return graph->UpdateEdge(graph->FindNodeId(first.matrix.node->id()),
                           first.matrix.index, node, input);
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
    const Node* const source = SourceOf(InputOf(&node, i).node);
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
