#include "cc/tensorflow/loops/frame.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cc/tensorflow/loops/function_builder.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/node_defs.h"
#include "cc/tensorflow/loops/value.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Edge;
using ::tensorflow::Graph;
using ::tensorflow::GraphDef;
using ::tensorflow::Node;
using ::tensorflow::NodeBuilder;
using ::tensorflow::NodeDef;
using NodeOut = NodeBuilder::NodeOut;

const Edge* WithoutIdentity(const Edge* edge) {
  while (edge->src()->IsIdentity()) edge = EdgeTo(edge->src(), 0);
  return edge;
}

// The edge to an input, without the Identities before it.
const Edge* SourceOf(const Node* node, int input) {
  return WithoutIdentity(EdgeTo(node, input));
}

// Whether a node has the integers from 0 on.
bool IsRange(const Node* node) {
  return Has(node, "Range") && IsInteger(InputOf(node, 0).node, 0) &&
         IsInteger(InputOf(node, 2).node, 1);
}

// Whether a value is the size of a TensorArray.
bool IsSizeOf(const Node* array, const Edge* value) {
  if (Has(value->src(), "TensorArraySizeV3")) {
    return SourceOf(value->src(), 0)->src() == array;
  }
  const Edge* const size = SourceOf(array, 0);
  return size->src() == value->src() &&
         size->src_output() == value->src_output();
}

// A variable of a loop, or a value from outside that it uses.
struct FrameVariable {
  const Edge* initial = nullptr;              // the input of its Enter
  DataType type;                              // DT_VARIANT for a list
  DataType element = tensorflow::DT_INVALID;  // of a list
  bool is_output_list = false;
  const Node* next_iteration = nullptr;  // null: no step changes it
  std::vector<const Node*> exits;
};

// A loop.
class Frame {
 public:
  explicit Frame(const Node* condition) : condition_(condition) {}

  // Reads the loop.
  absl::Status Read(const Graph& graph);

  // Adds its body and its condition to a library.
  absl::Status AddFunctions(tensorflow::FunctionLibraryDefinition* library);

  // Puts a While into a graph.
  void Replace(GraphDef* definition) const;

 private:
  absl::Status AddVariable(const Node* merge, const Node* switch_node);
  absl::Status AddLists();
  absl::Status CheckUsesOf(int outputs);
  NodeDef NewExit(const std::string& exit, int index) const;
  std::string NameOf(const char* function) const {
    return absl::StrCat("__tf_rnn_ops_", function, "_",
                        absl::StrReplaceAll(condition_->name(), {{"/", "_"}}));
  }

  const Node* const condition_;  // the LoopCond
  std::vector<FrameVariable> variables_;
  // The nodes within the loop that have the value of a variable.
  std::map<const Node*, int> nodes_;
  // The handles of TensorArrays within the loop.
  std::map<const Node*, const Node*> arrays_;
  std::set<std::string> inner_;  // the names of nodes within the loop
  // The nodes that stack outputs, and the Exits, with their variables.
  std::map<std::string, int> stacks_;
  std::map<std::string, int> exits_;
};

// Whether an Enter has the same value in each step.
bool IsConstantEnter(const Node* enter) {
  bool is_constant = false;
  tensorflow::TryGetNodeAttr(enter->attrs(), "is_constant", &is_constant);
  return is_constant;
}

absl::Status Frame::AddVariable(const Node* merge, const Node* switch_node) {
  FrameVariable variable;
  if (merge->num_inputs() != 2) return NotUnderstood("its step has branches");
  for (int i = 0; i < 2; ++i) {
    const Node* const input = InputOf(merge, i).node;
    if (input->IsEnter() && !IsConstantEnter(input)) {
      variable.initial = EdgeTo(input, 0);
    } else if (input->IsNextIteration()) {
      variable.next_iteration = input;
    }
  }
  if (variable.initial == nullptr || variable.next_iteration == nullptr) {
    return NotUnderstood("its step has branches");
  }
  for (const Edge* edge : switch_node->out_edges()) {
    if (edge->src_output() == 0 && edge->dst()->IsExit()) {
      variable.exits.push_back(edge->dst());
    }
  }
  variable.type = merge->output_type(0);
  const int index = static_cast<int>(variables_.size());
  nodes_[merge] = nodes_[switch_node] = index;
  variables_.push_back(variable);
  return absl::OkStatus();
}

// Whether a node within a loop only computes values. The loop's results may
// not be all that other nodes need of it: for a gradient, it keeps values in
// stacks.
bool IsPure(const Node* node) {
  static const auto& ops = *new std::set<std::string>{
      "ReadVariableOp", "TensorArrayReadV3", "TensorArrayWriteV3"};
  return node->IsControlFlow() || ops.count(node->type_string()) > 0 ||
         !(node->op_def().is_stateful() || CallsFunctions(node));
}

absl::Status Frame::Read(const Graph& graph) {
  std::string frame;
  for (const Edge* edge : condition_->out_edges()) {
    const Node* const switch_node = edge->dst();
    if (edge->IsControlEdge()) continue;
    if (!switch_node->IsSwitch() || !InputOf(switch_node, 0).node->IsMerge()) {
      return NotUnderstood("its step has branches");
    }
    absl::Status status =
        AddVariable(InputOf(switch_node, 0).node, switch_node);
    if (!status.ok()) return status;
    tensorflow::TryGetNodeAttr(variables_[0].initial->dst()->attrs(),
                               "frame_name", &frame);
  }
  // Values from outside enter once for each use.
  std::map<std::pair<const Node*, int>, int> sources;
  std::vector<const Node*> reached;
  for (const Node* node : graph.op_nodes()) {
    std::string name;
    tensorflow::TryGetNodeAttr(node->attrs(), "frame_name", &name);
    if (!node->IsEnter() || name != frame) continue;
    reached.push_back(node);
    if (!IsConstantEnter(node)) continue;
    FrameVariable variable;
    variable.initial = EdgeTo(node, 0);
    if (Has(variable.initial->src(), "TensorArrayV3") &&
        variable.initial->src_output() == 0) {
      arrays_[node] = variable.initial->src();
      continue;
    }
    variable.type = node->output_type(0);
    const auto [known, is_new] = sources.emplace(
        std::pair(variable.initial->src(), variable.initial->src_output()),
        variables_.size());
    if (is_new) variables_.push_back(variable);
    nodes_[node] = known->second;
  }
  while (!reached.empty()) {
    const Node* const node = reached.back();
    reached.pop_back();
    if (node->IsExit() || !inner_.insert(node->name()).second) continue;
    if (!IsPure(node)) {
      return NotUnderstood(
          absl::StrCat("its step has the op ", node->type_string()));
    }
    for (const Node* next : node->out_nodes()) {
      if (!next->IsSink()) reached.push_back(next);
    }
  }
  return AddLists();
}

// Finds the variables that are TensorArrays.
absl::Status Frame::AddLists() {
  for (size_t i = 0; i < variables_.size(); ++i) {
    FrameVariable& variable = variables_[i];
    const Node* const source = variable.initial->src();
    if (Has(source, "TensorArrayScatterV3")) {
      if (!IsRange(SourceOf(source, 1)->src()) ||
          variable.next_iteration != nullptr) {
        return NotUnderstood("its TensorArray of inputs is not known");
      }
      variable.type = tensorflow::DT_VARIANT;
      variable.element = source->input_type(2);
    } else if (Has(source, "TensorArrayV3") &&
               variable.initial->src_output() == 1) {
      if (variable.next_iteration == nullptr) {
        return NotUnderstood("its TensorArray of inputs is not known");
      }
      variable.type = tensorflow::DT_VARIANT;
      variable.is_output_list = true;
      if (!tensorflow::TryGetNodeAttr(source->attrs(), "dtype",
                                      &variable.element)) {
        return NotUnderstood("its TensorArray of outputs has no type");
      }
      absl::Status status = CheckUsesOf(static_cast<int>(i));
      if (!status.ok()) return status;
    }
    for (const Node* exit : variable.exits) {
      exits_[exit->name()] = static_cast<int>(i);
    }
  }
  return absl::OkStatus();
}

// An error unless a TensorArray of outputs is only stacked after the loop.
absl::Status Frame::CheckUsesOf(int index) {
  const FrameVariable& outputs = variables_[index];
  const Node* const array = outputs.initial->src();
  for (const Node* exit : outputs.exits) {
    for (const Edge* edge : exit->out_edges()) {
      const Node* const user = edge->dst();
      if (user->IsSink()) continue;
      const bool is_of_array =
          !edge->IsControlEdge() && SourceOf(user, 0)->src() == array;
      if (is_of_array && Has(user, "TensorArraySizeV3")) continue;
      const Node* const indices =
          is_of_array && Has(user, "TensorArrayGatherV3")
              ? SourceOf(user, 1)->src()
              : nullptr;
      const bool is_stack = indices != nullptr && IsRange(indices) &&
                            IsSizeOf(array, SourceOf(indices, 1));
      if (!is_stack) {
        return NotUnderstood("its outputs are used in another way");
      }
      stacks_[user->name()] = index;
    }
  }
  return absl::OkStatus();
}

// The shape of the elements of a TensorArray, -1 if it is not known.
tensorflow::Tensor ShapeOfElements(const Node* array) {
  tensorflow::PartialTensorShape shape;
  const tensorflow::AttrValue* const known =
      array->attrs().Find("element_shape");
  if (known != nullptr &&
      tensorflow::PartialTensorShape::IsValid(known->shape())) {
    shape = tensorflow::PartialTensorShape(known->shape());
  }
  tensorflow::Tensor sizes(tensorflow::DT_INT32, {});
  if (shape.dims() > 0) {
    sizes = tensorflow::Tensor(tensorflow::DT_INT32, {shape.dims()});
    for (int i = 0; i < shape.dims(); ++i) {
      sizes.flat<int32_t>()(i) = static_cast<int32_t>(shape.dim_size(i));
    }
  } else {
    sizes.scalar<int32_t>()() = -1;
  }
  return sizes;
}

// Copies what computes a value within a loop into the graph of a function.
class Copier : private FunctionBuilder {
 public:
  using FunctionBuilder::AddResult;
  using FunctionBuilder::Argument;

  Copier(const std::vector<FrameVariable>& variables,
         const std::map<const Node*, int>& nodes,
         const std::map<const Node*, const Node*>& arrays,
         const tensorflow::FunctionLibraryDefinition& library)
      : FunctionBuilder(library),
        variables_(variables),
        nodes_(nodes),
        arrays_(arrays) {
    for (const FrameVariable& variable : variables) AddArgument(variable.type);
  }

  NodeOut Copy(const Edge* edge) {
    // The type of a TensorArray changes.
    edge = WithoutIdentity(edge);
    if (!ok()) return NodeOut();
    const Node* const node = edge->src();
    const auto variable = nodes_.find(node);
    if (variable != nodes_.end()) return Argument(variable->second);
    if (node->IsControlFlow()) Fail("its step has branches");
    Node* const copy = CopyOf(node, [&] { return NewCopy(node); });
    return NodeOut(copy, edge->src_output());
  }

  // Adds the function to a library.
  absl::Status AddTo(tensorflow::FunctionLibraryDefinition* library,
                     const std::string& name) const {
    tensorflow::FunctionDef function;
    absl::Status status = Finish(name, &function);
    return status.ok() ? library->AddFunctionDef(function) : status;
  }

 private:
  // The TensorArray of a handle.
  const Node* ArrayOf(const Edge* handle) const {
    const auto array = arrays_.find(handle->src());
    return array == arrays_.end() ? nullptr : array->second;
  }

  // The variable of a flow, if it is a list of a TensorArray.
  const FrameVariable* ListOf(const Edge* flow, const Node* array) {
    const auto known = nodes_.find(WithoutIdentity(flow)->src());
    if (known == nodes_.end() || array == nullptr) return nullptr;
    const FrameVariable& variable = variables_[known->second];
    if (variable.element == tensorflow::DT_INVALID) return nullptr;
    const Node* const source = variable.initial->src();
    const Node* const of =
        variable.is_output_list ? source : SourceOf(source, 0)->src();
    return of == array ? &variable : nullptr;
  }

  Node* NewCopy(const Node* node) {
    if (num_copies() > kMaxNodes) {
      Fail("its body is too large");
      return nullptr;
    }
    const bool is_read = Has(node, "TensorArrayReadV3");
    const bool is_write = Has(node, "TensorArrayWriteV3");
    if (is_read || is_write) {
      const Edge* const handle = EdgeTo(node, 0);
      const Edge* const flow = EdgeTo(node, is_read ? 2 : 3);
      const FrameVariable* const list = ListOf(flow, ArrayOf(handle));
      if (list == nullptr || list->is_output_list != is_write) {
        Fail("it uses a TensorArray in another way");
        return nullptr;
      }
      const NodeOut items = Copy(flow);
      const NodeOut index = Copy(EdgeTo(node, 1));
      const auto set_type = [&](NodeBuilder* builder) {
        builder->Attr("element_dtype", list->element);
      };
      if (is_write) {
        return Add("TensorListSetItem", {items, index, Copy(EdgeTo(node, 2))},
                   set_type);
      }
      const NodeOut shape = Constant(ShapeOfElements(ArrayOf(handle)));
      return Add("TensorListGetItem", {items, index, shape}, set_type);
    }
    return AddCopy(node, [&](const Edge* edge) {
      const NodeOut input = Copy(edge);
      if (ok() && input.dt != node->input_type(edge->dst_input())) {
        Fail("it uses a TensorArray in another way");
      }
      return input;
    });
  }

  const std::vector<FrameVariable>& variables_;
  const std::map<const Node*, int>& nodes_;
  const std::map<const Node*, const Node*>& arrays_;
};

absl::Status Frame::AddFunctions(
    tensorflow::FunctionLibraryDefinition* library) {
  Copier body(variables_, nodes_, arrays_, *library);
  for (size_t i = 0; i < variables_.size(); ++i) {
    const Node* const next = variables_[i].next_iteration;
    body.AddResult(next == nullptr ? body.Argument(static_cast<int>(i))
                                   : body.Copy(EdgeTo(next, 0)));
  }
  absl::Status status = body.AddTo(library, NameOf("body"));
  if (!status.ok()) return status;
  Copier condition(variables_, nodes_, arrays_, *library);
  condition.AddResult(condition.Copy(EdgeTo(condition_, 0)));
  return condition.AddTo(library, NameOf("condition"));
}

std::string ReferenceTo(const Edge* edge) {
  return absl::StrCat(edge->src()->name(), ":", edge->src_output());
}

// What replaces an Exit: the result of the While, or, of a TensorArray, any
// number, which says that the TensorArray exists.
NodeDef Frame::NewExit(const std::string& exit, int index) const {
  const FrameVariable& variable = variables_[index];
  NodeDef node;
  if (variable.element == tensorflow::DT_INVALID) {
    node = NewNode(exit, "Identity",
                   {absl::StrCat(condition_->name(), ":", index)});
    (*node.mutable_attr())["T"].set_type(variable.type);
    return node;
  }
  node = NewNode(exit, "Const", {});
  auto& value = *(*node.mutable_attr())["value"].mutable_tensor();
  (*node.mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  value.set_dtype(tensorflow::DT_FLOAT);
  value.mutable_tensor_shape();
  value.add_float_val(0);
  return node;
}

void Frame::Replace(GraphDef* definition) const {
  const std::string& name = condition_->name();
  const std::string shape = absl::StrCat(name, "/any_shape");
  std::vector<NodeDef> new_nodes = {NewInteger(shape, -1)};
  NodeDef loop = NewNode(name, "While", {});
  auto& attributes = *loop.mutable_attr();
  attributes["body"].mutable_func()->set_name(NameOf("body"));
  attributes["cond"].mutable_func()->set_name(NameOf("condition"));
  attributes["T"].mutable_list();
  for (const FrameVariable& variable : variables_) {
    attributes["T"].mutable_list()->add_type(variable.type);
    std::string initial = ReferenceTo(variable.initial);
    if (variable.element != tensorflow::DT_INVALID) {
      const Node* const source = variable.initial->src();
      initial = absl::StrCat(name, "/list_", new_nodes.size());
      const std::string from =
          ReferenceTo(EdgeTo(source, variable.is_output_list ? 0 : 2));
      new_nodes.push_back(variable.is_output_list
                              ? NewList(initial, "TensorListReserve",
                                        {shape, from}, variable.element)
                              : NewList(initial, "TensorListFromTensor",
                                        {from, shape}, variable.element));
    }
    loop.add_input(initial);
  }
  new_nodes.push_back(std::move(loop));
  GraphDef replaced;
  for (const NodeDef& node : definition->node()) {
    const auto exit = exits_.find(node.name());
    const auto stack = stacks_.find(node.name());
    if (exit != exits_.end()) {
      new_nodes.push_back(NewExit(node.name(), exit->second));
    } else if (stack != stacks_.end()) {
      new_nodes.push_back(NewStack(node.name(),
                                   absl::StrCat(name, ":", stack->second),
                                   shape, variables_[stack->second].element));
    } else if (inner_.count(node.name()) == 0) {
      *replaced.add_node() = node;
    }
  }
  for (NodeDef& node : new_nodes) *replaced.add_node() = std::move(node);
  definition->mutable_node()->Swap(replaced.mutable_node());
}

std::set<std::string> UsedIn(const GraphDef& graph) {
  std::set<std::string> used;
  for (const NodeDef& node : graph.node()) {
    for (const std::string& input : node.input()) {
      used.insert(std::string(tensorflow::ParseTensorName(input).first));
    }
  }
  return used;
}

// Removes nodes of TensorArrays that no node uses any more.
void RemoveArrays(const std::set<std::string>& were_used, GraphDef* graph) {
  static const auto& ops = *new std::set<std::string>{
      "Range", "TensorArrayScatterV3", "TensorArraySizeV3", "TensorArrayV3"};
  for (bool is_done = false; !is_done;) {
    const std::set<std::string> used = UsedIn(*graph);
    GraphDef rest;
    for (NodeDef& node : *graph->mutable_node()) {
      const bool is_dead = ops.count(node.op()) > 0 &&
                           used.count(node.name()) == 0 &&
                           were_used.count(node.name()) > 0;
      if (!is_dead) *rest.add_node() = node;
    }
    is_done = rest.node_size() == graph->node_size();
    graph->mutable_node()->Swap(rest.mutable_node());
  }
}

// Removes the wish of nodes to be on the device of a node that is gone.
void RemoveColocations(GraphDef* graph) {
  std::set<std::string> names;
  for (const NodeDef& node : graph->node()) names.insert(node.name());
  for (NodeDef& node : *graph->mutable_node()) {
    const auto found = node.mutable_attr()->find("_class");
    if (found == node.mutable_attr()->end()) continue;
    tensorflow::AttrValue kept;
    for (const std::string& name : found->second.list().s()) {
      absl::string_view with = name;
      const bool is_gone = absl::ConsumePrefix(&with, "loc:@") &&
                           names.count(std::string(with)) == 0;
      if (!is_gone) kept.mutable_list()->add_s(name);
    }
    if (kept.list().s_size() == 0) {
      node.mutable_attr()->erase(found);
    } else {
      found->second = kept;
    }
  }
}

}  // namespace

bool HasFrame(const Graph& graph) {
  for (const Node* node : graph.op_nodes()) {
    if (Has(node, "TensorArrayReadV3")) return true;
  }
  return false;
}

void ReplaceFrames(const Graph& graph,
                   const std::function<bool(const std::string&)>& is_wanted,
                   GraphDef* definition,
                   tensorflow::FunctionLibraryDefinition* library,
                   std::vector<std::pair<std::string, std::string>>* others) {
  const std::set<std::string> used = UsedIn(*definition);
  for (const Node* node : graph.op_nodes()) {
    if (!node->IsLoopCond() || !is_wanted(node->name())) continue;
    Frame frame(node);
    absl::Status status = frame.Read(graph);
    if (status.ok()) status = frame.AddFunctions(library);
    if (status.ok()) {
      frame.Replace(definition);
    } else {
      others->emplace_back(node->name(), std::string(status.message()));
    }
  }
  RemoveArrays(used, definition);
  RemoveColocations(definition);
}

}  // namespace tf_rnn_ops
