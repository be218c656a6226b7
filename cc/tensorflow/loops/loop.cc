#include "cc/tensorflow/loops/loop.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::FunctionBody;
using ::tensorflow::FunctionLibraryDefinition;
using ::tensorflow::Node;
using ::tensorflow::PartialTensorShape;

// How far `AreEqual` looks back, and how many inputs a node may have there: it
// compares up to 4^4 nodes.
constexpr int kMaxDepth = 4;
constexpr int kMaxInputs = 4;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

bool AreEqual(Output a, Output b, int max_depth) {
  a = WithoutIdentity(a);
  b = WithoutIdentity(b);
  if (a.index != b.index) return false;
  if (a.node == b.node) return true;
  if (max_depth == 0 || a.node->type_string() != b.node->type_string() ||
      a.node->op_def().is_stateful() || a.node->num_inputs() > kMaxInputs ||
      !HaveEqualAttributes(a.node, b.node)) {
    return false;
  }
  for (int i = 0; i < a.node->num_inputs(); ++i) {
    if (!AreEqual(InputOf(a.node, i), InputOf(b.node, i), max_depth - 1)) {
      return false;
    }
  }
  return true;
}

// Instantiates a function that is an attribute of a node.
absl::Status InstantiateAttribute(const Node* node, const char* attribute,
                                  const FunctionLibraryDefinition& library,
                                  std::unique_ptr<FunctionBody>* body) {
  const tensorflow::NameAttrList* function = nullptr;
  if (!tensorflow::TryGetNodeAttr(node->attrs(), attribute, &function)) {
    return absl::NotFoundError("it has no body");
  }
  auto record = library.FindRecord(function->name());
  if (record == nullptr) return absl::NotFoundError("its body is missing");
  if (record->fdef().node_def_size() > kMaxNodes) {
    return NotUnderstood("its body is too large");
  }
  return Instantiate(record->fdef(), tensorflow::AttrSlice(&function->attr()),
                     library, body);
}

// An error if a graph does more than compute values.
absl::Status CheckIsPure(const tensorflow::Graph& graph) {
  for (const Node* node : graph.op_nodes()) {
    const bool may_be_stateful = node->IsArg() || node->IsRetval() ||
                                 node->type_string() == "ReadVariableOp" ||
                                 node->type_string() == "NoOp";
    if (node->IsControlFlow() || CallsFunctions(node) ||
        (node->op_def().is_stateful() && !may_be_stateful)) {
      return NotUnderstood(
          absl::StrCat("its step has the op ", node->type_string()));
    }
  }
  return absl::OkStatus();
}

// A shape in an attribute of a node; unknown if it has none.
PartialTensorShape ShapeIn(const Node* node, const char* attribute) {
  const auto* const value = node->attrs().Find(attribute);
  return value != nullptr && PartialTensorShape::IsValid(value->shape())
             ? PartialTensorShape(value->shape())
             : PartialTensorShape();
}

// The shape of an output in attributes of its node; unknown if they lack it, or
// if it is the handle of a TensorFlow variable, whose own shape says nothing.
PartialTensorShape ShapeInList(const Node* node, int output) {
  if (output >= node->num_outputs() ||
      node->output_type(output) == tensorflow::DT_RESOURCE) {
    return PartialTensorShape();
  }
  for (const char* attribute : {"output_shapes", "_output_shapes"}) {
    const auto* const shapes = node->attrs().Find(attribute);
    if (shapes != nullptr && shapes->list().shape_size() > output &&
        PartialTensorShape::IsValid(shapes->list().shape(output))) {
      return PartialTensorShape(shapes->list().shape(output));
    }
  }
  return PartialTensorShape();
}

// The shape of an output, of a TensorFlow variable if it is one's handle; or
// unknown.
PartialTensorShape ShapeOfOutput(const Output& output, int max_depth) {
  const std::string& op = output.node->type_string();
  if (op == "VarHandleOp" || op == "VariableV2" || op == "Variable") {
    return ShapeIn(output.node, "shape");
  }
  const tensorflow::TensorProto* tensor = nullptr;
  if (output.node->IsConstant() &&
      tensorflow::TryGetNodeAttr(output.node->attrs(), "value", &tensor) &&
      PartialTensorShape::IsValid(tensor->tensor_shape())) {
    return PartialTensorShape(tensor->tensor_shape());
  }
  const PartialTensorShape shape = ShapeInList(output.node, output.index);
  const bool passes =
      op == "Identity" || op == "ReadVariableOp" || op == "Cast";
  return shape.unknown_rank() && passes && max_depth > 0
             ? ShapeOfOutput(InputOf(output.node, 0), max_depth - 1)
             : shape;
}

// The variable whose value a body returns, also if it returns it elsewhere; -1
// if it returns something else.
int VariableOf(const Node* retval) {
  const Output source = WithoutIdentity(InputOf(retval, 0));
  int index = -1;
  if (source.node->IsArg()) {
    tensorflow::TryGetNodeAttr(source.node->attrs(), "index", &index);
  }
  return index;
}

Role RoleOf(const Variable& variable, int index) {
  const Value& next = *variable.next;
  if (IsVariable(&next, index)) {
    const bool is_list =
        variable.initial.node->type_string() == "TensorListFromTensor";
    return is_list ? Role::kInputList : Role::kInvariant;
  }
  if (next.op == "add" && IsVariable(next.inputs[0], index) &&
      next.inputs[1]->op == "constant" && IsInteger(next.inputs[1]->node, 1)) {
    return Role::kCounter;
  }
  if (next.op == "write" && IsVariable(next.inputs[0], index)) {
    return Role::kOutputList;
  }
  return Role::kState;
}

// Whether a body returns two matrices beside each other, also if a mask selects
// them.
bool MayBeHalves(const Node* retval) {
  const Output next = WithoutIdentity(InputOf(retval, 0));
  if (IsConcatenation(next.node)) return true;
  const std::string& op = next.node->type_string();
  if (op != "Select" && op != "SelectV2") return false;
  const auto is_concatenation = [&](int input) {
    return IsConcatenation(WithoutIdentity(InputOf(next.node, input)).node);
  };
  return is_concatenation(1) || is_concatenation(2);
}

// Adds the halves of variables to the variables of a loop.
// halves: by variable, as for Values.
void AddHalves(const std::vector<int>& halves, Loop* loop) {
  for (size_t i = 0; i < halves.size(); ++i) {
    if (halves[i] < 0) continue;
    if (loop->variables[i].role == Role::kState) {
      loop->variables[i].role = Role::kHalves;
      loop->variables[i].halves = halves[i];
    }
    Variable half;
    half.role = Role::kHalf;
    half.whole = static_cast<int>(i);
    loop->variables.insert(loop->variables.end(), 2, half);
  }
}

// The n of min(n, max(1, n)), or the output itself. TensorFlow 1 limits its
// loops so.
Output WithoutBounds(const Output& output) {
  const Output least = WithoutIdentity(output);
  if (!Has(least.node, "Minimum")) return least;
  const Output n = InputOf(least.node, 0);
  const Output bound = WithoutIdentity(InputOf(least.node, 1));
  const bool is_at_least_1 =
      Has(bound.node, "Maximum") && IsInteger(InputOf(bound.node, 0).node, 1);
  return is_at_least_1 && AreEqual(InputOf(bound.node, 1), n, kMaxDepth)
             ? WithoutIdentity(n)
             : least;
}

// Adds a limit to a loop: that of a condition `counter < limit`.
absl::Status AddLimit(const Value* condition, int max_depth, Loop* loop) {
  if (condition->op == "and" && max_depth > 0) {
    for (const Value* each : condition->inputs) {
      absl::Status status = AddLimit(each, max_depth - 1, loop);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const bool is_less =
      condition->op == "less" && condition->inputs[0]->op == "variable" &&
      loop->variables[condition->inputs[0]->variable].role == Role::kCounter;
  if (!is_less) {
    return NotUnderstood("its condition is not a number of steps");
  }
  const Value& value = *condition->inputs[1];
  Output output{value.node, value.output};
  Limit limit;
  if (value.op == "variable" && value.is_invariant) {
    limit.variable = value.variable;
    output = loop->variables[value.variable].initial;
  }
  const std::vector<int64_t> steps = IntegersOf(WithoutBounds(output).node);
  if (steps.size() == 1 && steps[0] >= 0 && steps[0] <= kMaxInt32) {
    limit = {-1, steps[0]};
  } else if (limit.variable < 0) {
    return NotUnderstood("its condition is not a number of steps");
  }
  for (const Limit& other : loop->limits) {
    if (IsEqual(other, output, *loop)) return absl::OkStatus();
  }
  loop->limits.push_back(limit);
  return absl::OkStatus();
}

}  // namespace

absl::Status NotUnderstood(absl::string_view reason) {
  return absl::UnimplementedError(reason);
}

std::vector<std::string> FunctionsOf(const tensorflow::AttrSlice& attributes) {
  std::vector<std::string> names;
  for (const auto& [unused, value] : attributes) {
    if (value.has_func()) names.push_back(value.func().name());
    for (const auto& function : value.list().func()) {
      names.push_back(function.name());
    }
  }
  return names;
}

bool CallsFunctions(const Node* node) {
  return node->IsFunctionCall() || !FunctionsOf(node->attrs()).empty();
}

absl::Status Instantiate(const tensorflow::FunctionDef& function,
                         const tensorflow::AttrSlice& attributes,
                         const FunctionLibraryDefinition& library,
                         std::unique_ptr<FunctionBody>* body) {
  // TensorFlow adds these itself, and ends the process if it finds others.
  for (const auto& node : function.node_def()) {
    if (node.op() == "_Arg" || node.op() == "_DeviceArg" ||
        node.op() == "_Retval" || node.op() == "_DeviceRetval") {
      return absl::InvalidArgumentError(
          absl::StrCat("a function has the op ", node.op()));
    }
  }
  return tensorflow::FunctionDefToBodyHelper(function, attributes, &library,
                                             body);
}

bool HaveEqualAttributes(const Node* a, const Node* b) {
  for (const auto& [name, value] : a->attrs()) {
    const tensorflow::AttrValue* const other = b->attrs().Find(name);
    const bool is_private = !name.empty() && name[0] == '_';
    if (!is_private &&
        (other == nullptr || !tensorflow::AreAttrValuesEqual(value, *other))) {
      return false;
    }
  }
  return true;
}

bool AreEqual(const Output& a, const Output& b) {
  return AreEqual(a, b, kMaxDepth);
}

bool IsEqual(const Limit& limit, const Output& output, const Loop& loop) {
  if (limit.variable < 0) {
    return IsInteger(WithoutBounds(output).node, limit.constant);
  }
  return AreEqual(WithoutBounds(loop.variables[limit.variable].initial),
                  WithoutBounds(output));
}

bool IsZero(const Output& output) {
  const Output source = WithoutIdentity(output);
  const std::string& op = source.node->type_string();
  if (op == "ZerosLike") return true;
  if (op == "Fill") return IsZero(InputOf(source.node, 1));
  const auto tensor = ConstantOf(source.node);
  if (!tensor.has_value()) return false;
  const absl::string_view data = tensor->tensor_data();
  return data.find_first_not_of('\0') == absl::string_view::npos;
}

PartialTensorShape ShapeOfVariable(int index, const Loop& loop) {
  if (loop.variables[index].role == Role::kHalf) {
    const auto whole = ShapeOfVariable(loop.variables[index].whole, loop);
    if (whole.dims() != 2) return PartialTensorShape();
    const int64_t columns = whole.dim_size(1);
    return PartialTensorShape(
        {whole.dim_size(0), columns < 0 ? columns : columns / 2});
  }
  const PartialTensorShape shape = ShapeInList(loop.node, index);
  // A state may have another shape after the first step.
  const Role role = loop.variables[index].role;
  return shape.unknown_rank() && role != Role::kState && role != Role::kHalves
             ? ShapeOfOutput(loop.variables[index].initial, kMaxDepth)
             : shape;
}

PartialTensorShape ShapeOf(const Value& value, const Loop& loop) {
  if (value.op == "variable") return ShapeOfVariable(value.variable, loop);
  const PartialTensorShape shape =
      ShapeOfOutput({value.node, value.output}, /*max_depth=*/0);
  const bool passes = value.op == "Cast" || value.op == "read";
  return shape.unknown_rank() && passes ? ShapeOf(*value.inputs[0], loop)
                                        : shape;
}

absl::Status ReadLoop(const Node* node,
                      const FunctionLibraryDefinition& library, Loop* loop) {
  loop->node = node;
  std::unique_ptr<FunctionBody> condition;
  for (const auto& [attribute, body] :
       {std::pair("body", &loop->body), std::pair("cond", &condition)}) {
    absl::Status status = InstantiateAttribute(node, attribute, library, body);
    if (status.ok()) status = CheckIsPure(*(*body)->graph);
    if (!status.ok()) return status;
  }
  const size_t size = loop->body->arg_nodes.size();
  if (loop->body->ret_nodes.size() != size ||
      condition->arg_nodes.size() != size || condition->ret_nodes.size() != 1 ||
      static_cast<size_t>(node->num_inputs()) != size) {
    return absl::InvalidArgumentError("its body does not fit its variables");
  }
  std::vector<bool> is_invariant;
  std::vector<int> halves;
  int num_variables = static_cast<int>(size);
  for (size_t i = 0; i < size; ++i) {
    const Node* const next = loop->body->ret_nodes[i];
    is_invariant.push_back(VariableOf(next) == static_cast<int>(i));
    halves.push_back(MayBeHalves(next) ? num_variables : -1);
    if (halves.back() >= 0) num_variables += 2;
  }
  loop->values = std::make_unique<Values>(is_invariant, halves);
  for (size_t i = 0; i < size; ++i) {
    const int index = static_cast<int>(i);
    Variable variable;
    variable.initial = WithoutIdentity(InputOf(node, index));
    const Output next = InputOf(loop->body->ret_nodes[i], 0);
    variable.next = loop->values->Of(next.node, next.index);
    variable.role = RoleOf(variable, index);
    if (variable.role == Role::kCounter &&
        !IsInteger(variable.initial.node, 0)) {
      return NotUnderstood("it does not start at step 0");
    }
    loop->variables.push_back(variable);
  }
  AddHalves(halves, loop);
  Values conditions(is_invariant, /*halves=*/{});
  const Output source = InputOf(condition->ret_nodes[0], 0);
  return AddLimit(conditions.Of(source.node, source.index), kMaxDepth, loop);
}

}  // namespace tf_rnn_ops
