#include "cc/tensorflow/loops/chain.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cc/tensorflow/loops/function_builder.h"
#include "cc/tensorflow/loops/node_defs.h"
#include "cc/tensorflow/loops/steps.h"
#include "cc/tensorflow/loops/value.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Edge;
using ::tensorflow::Node;
using ::tensorflow::NodeBuilder;
using ::tensorflow::NodeDef;
using NodeDefs = ::google::protobuf::RepeatedPtrField<NodeDef>;
using NodeOut = NodeBuilder::NodeOut;

// The variables of the While are, in this order: the number of the step, the
// list of outputs, the lists of inputs, the states, and the invariants.
constexpr int kCounter = 0;
constexpr int kOutputs = 1;
constexpr int kFirstList = 2;

DataType TypeOf(const Output& output) {
  return tensorflow::BaseType(output.node->output_type(output.index));
}

tensorflow::Tensor IntegerTensor(int32_t value) {
  tensorflow::Tensor tensor(tensorflow::DT_INT32, {});
  tensor.scalar<int32_t>()() = value;
  return tensor;
}

// Copies steps into the graph of a function.
class StepCopier : private FunctionBuilder {
 public:
  StepCopier(const std::vector<const Part*>& lists,
             const std::vector<const Part*>& states,
             const StepOutputs& invariants,
             const tensorflow::FunctionLibraryDefinition& library)
      : FunctionBuilder(library),
        lists_(lists),
        states_(states),
        invariants_(invariants) {
    AddArgument(tensorflow::DT_INT32);
    AddArgument(tensorflow::DT_VARIANT);
    for (size_t i = 0; i < lists.size(); ++i) {
      AddArgument(tensorflow::DT_VARIANT);
    }
    for (const Part* state : states) AddArgument(TypeOf(state->outputs[0]));
    for (const Output& each : invariants) AddArgument(TypeOf(each));
    const int first = kFirstList + static_cast<int>(lists.size());
    counter_ = Argument(kCounter);
    outputs_ = Argument(kOutputs);
    for (size_t i = 0; i < states.size(); ++i) {
      values_.push_back(Argument(first + static_cast<int>(i)));
    }
    first_invariant_ = first + static_cast<int>(states.size());
  }

  // Adds a step.
  // number: the copy of the step that is copied
  // counter: the number of the step, or -1 for that of the loop
  void AddStep(const Part& root, int number, int counter,
               bool returns_sequences) {
    if (counter >= 0) counter_ = Constant(IntegerTensor(counter));
    std::vector<NodeOut> next;
    for (const Part* state : states_)
      next.push_back(Copy(*state->next, number));
    const NodeOut step =
        returns_sequences ? counter_ : Constant(IntegerTensor(0));
    const NodeOut output = Copy(root, number);
    outputs_ = Add("TensorListSetItem", {outputs_, step, output},
                   [&](NodeBuilder* builder) {
                     builder->Attr("element_dtype", TypeOf(root.outputs[0]));
                   });
    counter_ = Add("AddV2", {counter_, Constant(IntegerTensor(1))});
    values_ = std::move(next);
  }

  // Adds the function to a library.
  absl::Status AddTo(tensorflow::FunctionLibraryDefinition* library,
                     const std::string& name) {
    AddResult(counter_);
    AddResult(outputs_);
    for (size_t i = 0; i < lists_.size(); ++i) {
      AddResult(Argument(kFirstList + static_cast<int>(i)));
    }
    for (const NodeOut& value : values_) AddResult(value);
    for (size_t i = 0; i < invariants_.size(); ++i) {
      AddResult(Argument(first_invariant_ + static_cast<int>(i)));
    }
    return AddFunction(library, name);
  }

  // Adds a function that compares the number of the step with a limit.
  absl::Status AddConditionTo(tensorflow::FunctionLibraryDefinition* library,
                              const std::string& name, int limit) {
    AddResult(Add("Less", {counter_, Constant(IntegerTensor(limit))}));
    return AddFunction(library, name);
  }

 private:
  absl::Status AddFunction(tensorflow::FunctionLibraryDefinition* library,
                           const std::string& name) const {
    tensorflow::FunctionDef function;
    absl::Status status = Finish(name, &function);
    return status.ok() ? library->AddFunctionDef(function) : status;
  }

  NodeOut Copy(const Part& part, int number) {
    if (!ok()) return NodeOut();
    switch (part.kind) {
      case Part::kSame:
        return CopyInvariant(part.outputs[0]);
      case Part::kInput:
        return Item(part);
      case Part::kState:
        return values_[std::find(states_.begin(), states_.end(), &part) -
                       states_.begin()];
      case Part::kComputed:
        break;
    }
    const Output& output = part.outputs[number];
    Node* const copy = CopyOf(output.node, [&] {
      return AddCopy(output.node, [&](const Edge* edge) {
        return Copy(*(*part.inputs)[edge->dst_input()], number);
      });
    });
    return NodeOut(copy, output.index);
  }

  NodeOut CopyInvariant(const Output& output) {
    if (!IsComputedInStep(output.node)) {
      const auto known =
          std::find(invariants_.begin(), invariants_.end(), output);
      return Argument(first_invariant_ +
                      static_cast<int>(known - invariants_.begin()));
    }
    Node* const copy = CopyOf(output.node, [&] {
      return AddCopy(output.node, [&](const Edge* edge) {
        return CopyInvariant({edge->src(), edge->src_output()});
      });
    });
    return NodeOut(copy, output.index);
  }

  // The item of a list in the step.
  NodeOut Item(const Part& part) {
    const auto list = std::find(lists_.begin(), lists_.end(), &part);
    const int index = kFirstList + static_cast<int>(list - lists_.begin());
    return Add("TensorListGetItem",
               {Argument(index), counter_, Constant(IntegerTensor(-1))},
               [&](NodeBuilder* builder) {
                 builder->Attr("element_dtype", TypeOf(part.outputs[0]));
               });
  }

  const std::vector<const Part*>& lists_;
  const std::vector<const Part*>& states_;
  const StepOutputs& invariants_;
  int first_invariant_ = 0;
  NodeOut counter_;
  NodeOut outputs_;
  std::vector<NodeOut> values_;  // of the states
};

}  // namespace

std::string Chain::NameOf(const char* function) const {
  return absl::StrCat("__tf_rnn_ops_", function, "_",
                      absl::StrReplaceAll(name_, {{"/", "_"}}));
}

absl::Status Chain::AddFunctions(
    tensorflow::FunctionLibraryDefinition* library) const {
  StepCopier body(lists_, states_, invariants_, *library);
  body.AddStep(*root_, 0, -1, returns_sequences_);
  absl::Status status = body.AddTo(library, NameOf("body"));
  if (!status.ok()) return status;
  StepCopier condition(lists_, states_, invariants_, *library);
  status = condition.AddConditionTo(library, NameOf("condition"), NumSteps());
  if (!status.ok()) return status;
  StepCopier steps(lists_, states_, invariants_, *library);
  for (int i = 0; i < NumSteps(); ++i) {
    steps.AddStep(*root_, i, i, returns_sequences_);
  }
  return steps.AddTo(library, NameOf("steps"));
}

// ---------------------------------------------------------------- definitions

// The nodes of a graph or of a function, where references contain the names of
// outputs.
class Chain::Definition {
 public:
  explicit Definition(tensorflow::GraphDef* graph)
      : nodes_(graph->mutable_node()) {}
  explicit Definition(tensorflow::FunctionDef* function)
      : nodes_(function->mutable_node_def()), function_(function) {}

  std::string Reference(const std::string& node, const char* output,
                        int index) const {
    if (function_ != nullptr)
      return absl::StrCat(node, ":", output, ":", index);
    return index == 0 ? node : absl::StrCat(node, ":", index);
  }

  std::string Reference(const Output& output) const;

  void Add(NodeDef node) { *nodes_->Add() = std::move(node); }

  // Replaces a node with one output.
  void ReplaceNode(const std::string& name, const std::string& source,
                   DataType type) {
    NodeDef identity = NewNode(name, "Identity", {source});
    (*identity.mutable_attr())["T"].set_type(type);
    new_nodes_[name] = std::move(identity);
  }

  // Replaces an output of a node.
  void Replace(const Output& output, const std::string& source) {
    if (function_ == nullptr && output.node->num_outputs() == 1) {
      ReplaceNode(output.node->name(), source, TypeOf(output));
    } else {
      new_references_[Reference(output)] = source;
    }
  }

  // Makes the replacements. Removes other nodes if no program can fetch them.
  void Finish(const std::set<std::string>& removed);

 private:
  void Rename(std::string* reference) const;
  bool MayRemove() const;

  NodeDefs* const nodes_;
  tensorflow::FunctionDef* const function_ = nullptr;
  std::map<std::string, NodeDef> new_nodes_;
  std::map<std::string, std::string> new_references_;
};

std::string Chain::Definition::Reference(const Output& output) const {
  const Node* const node = output.node;
  if (function_ == nullptr) return Reference(node->name(), "", output.index);
  if (node->IsArg()) {
    int index = 0;
    tensorflow::TryGetNodeAttr(node->attrs(), "index", &index);
    return function_->signature().input_arg(index).name();
  }
  tensorflow::NameRangeMap outputs;
  const absl::Status status = tensorflow::NameRangesForNode(
      node->attrs(), node->op_def(), nullptr, &outputs);
  if (status.ok()) {
    for (const auto& [name, range] : outputs) {
      if (output.index >= range.first && output.index < range.second) {
        return absl::StrCat(node->name(), ":", name, ":",
                            output.index - range.first);
      }
    }
  }
  return "";
}

void Chain::Definition::Rename(std::string* reference) const {
  std::string known = *reference;
  if (function_ == nullptr && absl::EndsWith(known, ":0")) {
    known.resize(known.size() - 2);
  }
  const auto renamed = new_references_.find(known);
  if (renamed != new_references_.end()) *reference = renamed->second;
}

// Whether nodes are those of a function, and none must be on the device of
// another.
bool Chain::Definition::MayRemove() const {
  bool is_function = function_ != nullptr;
  for (const NodeDef& node : *nodes_) {
    is_function |= node.op() == "_Retval";
    if (node.attr().count("_class") > 0) return false;
  }
  return is_function;
}

void Chain::Definition::Finish(const std::set<std::string>& removed) {
  if (MayRemove()) {
    const auto is_kept = [&](const NodeDef& node) {
      return removed.count(node.name()) == 0 ||
             new_nodes_.count(node.name()) > 0;
    };
    NodeDefs kept;
    for (NodeDef& node : *nodes_) {
      if (is_kept(node)) kept.Add()->Swap(&node);
    }
    nodes_->Swap(&kept);
  }
  for (NodeDef& node : *nodes_) {
    const auto new_node = new_nodes_.find(node.name());
    if (new_node != new_nodes_.end()) {
      new_node->second.set_device(node.device());
      node = new_node->second;
    }
    for (std::string& input : *node.mutable_input()) Rename(&input);
  }
  if (function_ == nullptr) return;
  for (auto& [unused, reference] : *function_->mutable_ret()) {
    Rename(&reference);
  }
}

void Chain::AddLoop(tensorflow::GraphDef* graph) const {
  Definition definition(graph);
  AddLoop(&definition);
}

void Chain::AddLoop(tensorflow::FunctionDef* function) const {
  Definition definition(function);
  AddLoop(&definition);
}

namespace {

// The value whose slices are the outputs, or none.
Output SequenceOf(const StepOutputs& outputs) {
  const Node* const node = outputs[0].node;
  int64_t axis = -1;
  if (!Has(node, "Unpack") ||
      node->num_outputs() != static_cast<int>(outputs.size()) ||
      !tensorflow::TryGetNodeAttr(node->attrs(), "axis", &axis) || axis != 0) {
    return {};
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!(outputs[i] == Output{node, static_cast<int>(i)})) return {};
  }
  return InputOf(node, 0);
}

// A node that stacks the outputs of steps.
NodeDef NewPack(const std::string& name, DataType type,
                const std::vector<std::string>& inputs) {
  NodeDef node = NewNode(name, "Pack", inputs);
  auto& attributes = *node.mutable_attr();
  attributes["N"].set_i(static_cast<int64_t>(inputs.size()));
  attributes["T"].set_type(type);
  attributes["axis"].set_i(0);
  return node;
}

}  // namespace

int Chain::IndexOf(const Part* state) const {
  const auto found = std::find(states_.begin(), states_.end(), state);
  return kFirstList + static_cast<int>(lists_.size()) +
         static_cast<int>(found - states_.begin());
}

// Adds the stacked inputs of the steps, and returns a reference to them.
std::string Chain::AddSequence(size_t list, Definition* definition) const {
  const StepOutputs& outputs = lists_[list]->outputs;
  const Output whole = SequenceOf(outputs);
  if (whole.node != nullptr) return definition->Reference(whole);
  const std::string name = absl::StrCat(name_, "/sequence_", list);
  std::vector<std::string> steps;
  for (const Output& each : outputs) {
    steps.push_back(definition->Reference(each));
  }
  definition->Add(NewPack(name, TypeOf(outputs[0]), steps));
  return definition->Reference(name, "output", 0);
}

void Chain::AddLoop(Definition* definition) const {
  const auto integer = [&](const char* part, int32_t value) {
    const std::string name = absl::StrCat(name_, "/", part);
    definition->Add(NewInteger(name, value));
    return definition->Reference(name, "output", 0);
  };
  const std::string shape = integer("any_shape", -1);
  NodeDef loop = NewNode(name_, "StatelessWhile", {});
  auto& attributes = *loop.mutable_attr();
  auto& types = *attributes["T"].mutable_list();
  auto& shapes = *attributes["_output_shapes"].mutable_list();
  // Returns the shape of the variable.
  const auto add_variable = [&](const std::string& initial, DataType type) {
    loop.add_input(initial);
    types.add_type(type);
    auto* const known = shapes.add_shape();
    known->set_unknown_rank(true);
    return known;
  };
  add_variable(integer("first", 0), tensorflow::DT_INT32);
  const std::string outputs = absl::StrCat(name_, "/new_outputs");
  definition->Add(
      NewList(outputs, "TensorListReserve",
              {shape, integer("size", returns_sequences_ ? NumSteps() : 1)},
              TypeOf(root_->outputs[0])));
  add_variable(definition->Reference(outputs, "handle", 0),
               tensorflow::DT_VARIANT);
  for (size_t i = 0; i < lists_.size(); ++i) {
    const std::string list = absl::StrCat(name_, "/list_", i);
    definition->Add(NewList(list, "TensorListFromTensor",
                            {AddSequence(i, definition), shape},
                            TypeOf(lists_[i]->outputs[0])));
    add_variable(definition->Reference(list, "output_handle", 0),
                 tensorflow::DT_VARIANT);
  }
  for (const Part* state : states_) {
    const Output& initial = state->outputs[0];
    auto* const known =
        add_variable(definition->Reference(initial), TypeOf(initial));
    const auto constant = ConstantOf(initial.node);
    if (constant.has_value()) constant->shape().AsProto(known);
  }
  for (const Output& each : invariants_) {
    add_variable(definition->Reference(each), TypeOf(each));
  }
  attributes["body"].mutable_func()->set_name(NameOf("body"));
  attributes["cond"].mutable_func()->set_name(NameOf("condition"));
  attributes[kStepsAttribute].mutable_func()->set_name(NameOf("steps"));
  definition->Add(std::move(loop));
  if (returns_sequences_) ReplaceOutputs(shape, definition);
  for (const Part* state : states_) {
    definition->Replace(state->next->outputs.back(),
                        definition->Reference(name_, "output", IndexOf(state)));
  }
  definition->Finish(nodes_);
}

// Replaces the outputs of the steps, but for the last.
// shape: of any element of a list
void Chain::ReplaceOutputs(const std::string& shape,
                           Definition* definition) const {
  const DataType type = TypeOf(root_->outputs[0]);
  const std::string stack = absl::StrCat(name_, "/outputs");
  definition->Add(NewStack(
      stack, definition->Reference(name_, "output", kOutputs), shape, type));
  const std::string stacked = definition->Reference(stack, "tensor", 0);
  for (const std::string& each : stacks_) {
    definition->ReplaceNode(each, stacked, type);
  }
  const std::string name = absl::StrCat(name_, "/steps");
  NodeDef steps = NewNode(name, "Unpack", {stacked});
  auto& attributes = *steps.mutable_attr();
  attributes["num"].set_i(NumSteps());
  attributes["T"].set_type(type);
  attributes["axis"].set_i(0);
  definition->Add(std::move(steps));
  for (int i = 0; i + 1 < NumSteps(); ++i) {
    definition->Replace(root_->outputs[i],
                        definition->Reference(name, "output", i));
  }
}

}  // namespace tf_rnn_ops
