#include "cc/tensorflow/loops/value.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/tensorflow/inputs.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Node;
using ::tensorflow::Tensor;

// Larger constants are weights, whose values do not matter.
constexpr int64_t kMaxElements = 1 << 20;
constexpr size_t kMaxBytes = 1024;

// The name of an op of two inputs, or "".
std::string NameOfBinary(const Node* node) {
  static const auto& names =
      *new std::map<std::string, std::string>{{"Add", "add"},
                                              {"AddV2", "add"},
                                              {"BiasAdd", "add"},
                                              {"Greater", "greater"},
                                              {"GreaterEqual", "greater_equal"},
                                              {"Less", "less"},
                                              {"LogicalAnd", "and"},
                                              {"MatMul", "matmul"},
                                              {"Mul", "mul"},
                                              {"RealDiv", "div"},
                                              {"Sub", "sub"}};
  const auto name = names.find(node->type_string());
  if (name == names.end()) return "";
  bool is_transposed = false;
  for (const char* attribute : {"transpose_a", "transpose_b"}) {
    bool value = false;
    tensorflow::TryGetNodeAttr(node->attrs(), attribute, &value);
    is_transposed |= value;
  }
  std::string format = "NHWC";
  tensorflow::TryGetNodeAttr(node->attrs(), "data_format", &format);
  return is_transposed || format != "NHWC" ? "" : name->second;
}

// Whether nodes with an op and equal inputs are equal. Their values have the
// name of the op.
bool HasNoAttributes(const std::string& op) {
  static const auto& ops =
      *new std::set<std::string>{"Maximum", "Minimum",  "Relu",    "Relu6",
                                 "Select",  "SelectV2", "Sigmoid", "Tanh"};
  return ops.count(op) > 0;
}

// Whether a node passes on its input: its value is that of the input.
bool PassesInput(const Node* node) {
  const std::string& op = node->type_string();
  if (op == "Cast") {
    return node->input_type(0) == node->output_type(0);
  }
  return op == "Identity" || op == "Snapshot" || op == "StopGradient" ||
         op == "PreventGradient";
}

int64_t IntAttribute(const Node* node, const char* name) {
  int64_t value = 0;
  tensorflow::TryGetNodeAttr(node->attrs(), name, &value);
  return value;
}

// The columns that output `output` of a Split or SplitV takes. None if its axis
// is not known.
std::optional<Columns> ColumnsOfSplit(const Node* node, int output) {
  const bool has_sizes = node->type_string() == "SplitV";
  const std::vector<int64_t> axis =
      IntegersOf(InputOf(node, has_sizes ? 2 : 0).node);
  if (axis.size() != 1 || axis[0] < -1 || axis[0] > 1) return std::nullopt;
  Columns columns;
  columns.axis = axis[0];
  if (!has_sizes) {
    columns.index = output;
    columns.count = node->num_outputs();
    return columns;
  }
  // -1 is the size of the rest, which is known only after the last part.
  const std::vector<int64_t> sizes = IntegersOf(InputOf(node, 1).node);
  const int last = static_cast<int>(sizes.size()) - 1;
  for (int i = 0; i < output && i < last; ++i) {
    if (sizes[i] < 0) return std::nullopt;
    columns.begin += sizes[i];
  }
  if (last < output || (sizes[output] < 0 && output < last)) {
    return std::nullopt;
  }
  columns.end = output == last ? 0 : columns.begin + sizes[output];
  return columns;
}

// The columns that a StridedSlice takes: [:, begin:end] of a matrix or
// [begin:end] of a vector. None if it takes something else.
std::optional<Columns> ColumnsOfSlice(const Node* node) {
  const std::vector<int64_t> begin = IntegersOf(InputOf(node, 1).node);
  const std::vector<int64_t> end = IntegersOf(InputOf(node, 2).node);
  const std::vector<int64_t> strides = IntegersOf(InputOf(node, 3).node);
  const bool is_range = IntAttribute(node, "ellipsis_mask") == 0 &&
                        IntAttribute(node, "new_axis_mask") == 0 &&
                        IntAttribute(node, "shrink_axis_mask") == 0;
  const size_t rank = begin.size();
  if (!is_range || rank < 1 || rank > 2 || end.size() != rank ||
      strides != std::vector<int64_t>(rank, 1)) {
    return std::nullopt;
  }
  const int64_t axis = static_cast<int64_t>(rank) - 1;
  const int64_t begins = IntAttribute(node, "begin_mask");
  const int64_t ends = IntAttribute(node, "end_mask");
  const bool has_all_rows = axis == 0 || ((begins & 1) != 0 && (ends & 1) != 0);
  const bool is_first = (begins >> axis & 1) != 0;
  const bool is_last = (ends >> axis & 1) != 0;
  Columns columns;
  columns.axis = axis;
  columns.begin = is_first ? 0 : begin[axis];
  columns.end = is_last ? 0 : end[axis];
  const bool is_known =
      columns.begin >= 0 && (is_last || columns.end > columns.begin);
  return has_all_rows && is_known ? std::optional<Columns>(columns)
                                  : std::nullopt;
}

// The columns that a Slice takes: [:, begin:begin + size].
std::optional<Columns> ColumnsOfPlainSlice(const Node* node) {
  const std::vector<int64_t> begin = IntegersOf(InputOf(node, 1).node);
  const std::vector<int64_t> size = IntegersOf(InputOf(node, 2).node);
  if (begin.size() != 2 || size.size() != 2 || begin[0] != 0 || size[0] != -1 ||
      begin[1] < 0 || size[1] <= 0) {
    return std::nullopt;
  }
  Columns columns;
  columns.begin = begin[1];
  columns.end = begin[1] + size[1];
  return columns;
}

// Whether a node repeats each row of a matrix of one column, or nothing.
bool RepeatsColumn(const Node* node) {
  const std::vector<int64_t> multiples = IntegersOf(InputOf(node, 1).node);
  const bool is_mask = node->output_type(0) == tensorflow::DT_BOOL;
  const bool repeats_nothing =
      !multiples.empty() && std::all_of(multiples.begin(), multiples.end(),
                                        [](int64_t n) { return n == 1; });
  return repeats_nothing ||
         (is_mask && multiples.size() == 2 && multiples[0] == 1);
}

// Whether a node is the maximum over the axes of a constant without axes.
// Keras computes a number of steps so.
bool IsMaximumOfScalar(const Node* node) {
  if (!Has(node, "Max")) return false;
  const auto* const value = InputOf(node, 0).node->attrs().Find("value");
  return value != nullptr && value->has_tensor() &&
         value->tensor().tensor_shape().dim_size() == 0;
}

// Whether a value consists of ones and has the shape of another.
bool IsOnesLike(const Value* value, const Value* other) {
  if (value->op == "OnesLike") return value->inputs[0] == other;
  return value->op == "Fill" && NumberOf(value->inputs[1]) == 1 &&
         value->inputs[0]->op == "Shape" &&
         value->inputs[0]->inputs[0] == other;
}

}  // namespace

std::optional<Columns> ColumnsOf(const Node* node, int output) {
  const std::string& op = node->type_string();
  std::optional<Columns> columns;
  if (op == "Split" || op == "SplitV") {
    columns = ColumnsOfSplit(node, output);
  } else if (op == "StridedSlice") {
    columns = ColumnsOfSlice(node);
  } else if (op == "Slice") {
    columns = ColumnsOfPlainSlice(node);
  }
  constexpr int64_t kMaxColumn = std::numeric_limits<int32_t>::max();
  return columns.has_value() && columns->begin <= kMaxColumn &&
                 columns->end <= kMaxColumn
             ? columns
             : std::nullopt;
}

int InputOfColumns(const Node* node) {
  return node->type_string() == "Split" ? 1 : 0;
}

int HalfOf(const Columns& columns, int64_t* width) {
  if (columns.axis == 0) return -1;
  const bool is_part = columns.count == 2;
  const int64_t own_width =
      is_part ? -1
              : (columns.end > 0 ? columns.end - columns.begin : columns.begin);
  // One column may be that of all units.
  const bool is_half =
      is_part || (columns.count == 0 && own_width > 1 &&
                  (columns.begin == 0 || columns.begin == own_width));
  if (!is_half || (*width != 0 && *width != own_width)) return -1;
  *width = own_width;
  return static_cast<int>(is_part ? columns.index : columns.begin / own_width);
}

std::optional<Tensor> ConstantOf(const Node* node) {
  while (PassesInput(node) || IsMaximumOfScalar(node)) {
    node = InputOf(node, 0).node;
  }
  const tensorflow::TensorProto* proto = nullptr;
  Tensor tensor;
  if (!node->IsConstant() ||
      !tensorflow::TryGetNodeAttr(node->attrs(), "value", &proto) ||
      !tensorflow::DataTypeCanUseMemcpy(proto->dtype()) ||
      !tensorflow::TensorShape::IsValid(proto->tensor_shape()) ||
      tensorflow::TensorShape(proto->tensor_shape()).num_elements() >
          kMaxElements ||
      !tensor.FromProto(*proto)) {
    return std::nullopt;
  }
  return tensor;
}

std::vector<int64_t> IntegersOf(const Node* node) {
  std::vector<int64_t> values;
  const std::optional<Tensor> tensor = ConstantOf(node);
  if (!tensor.has_value() || tensor->dims() > 1 || tensor->NumElements() > 8) {
    return values;
  }
  for (int i = 0; i < tensor->NumElements(); ++i) {
    if (tensor->dtype() == tensorflow::DT_INT32) {
      values.push_back(tensor->flat<int32_t>()(i));
    } else if (tensor->dtype() == tensorflow::DT_INT64) {
      values.push_back(tensor->flat<int64_t>()(i));
    }
  }
  return values;
}

bool IsInteger(const Node* node, int64_t integer) {
  return IntegersOf(node) == std::vector<int64_t>{integer};
}

bool IsConcatenation(const Node* node) {
  if (node->type_string() != "ConcatV2" || node->num_inputs() != 3) {
    return false;
  }
  const Node* const axis = InputOf(node, 2).node;
  return IsInteger(axis, 1) || IsInteger(axis, -1);
}

bool IsVariable(const Value* value, int index) {
  return value->op == "variable" && value->variable == index;
}

std::optional<double> NumberOf(const Value* value) {
  if (value->op != "constant") return std::nullopt;
  const auto tensor = ConstantOf(value->node);
  if (!tensor.has_value() || tensor->NumElements() != 1) return std::nullopt;
  switch (tensor->dtype()) {
#define TF_RNN_OPS_CASE(type)                   \
  case tensorflow::DataTypeToEnum<type>::value: \
    return static_cast<double>(tensor->flat<type>()(0))
    TF_RNN_OPS_CASE(float);
    TF_RNN_OPS_CASE(double);
    TF_RNN_OPS_CASE(Eigen::half);
    TF_RNN_OPS_CASE(Eigen::bfloat16);
#undef TF_RNN_OPS_CASE
    default:
      return std::nullopt;
  }
}

const Value* Values::Of(const Node* node, int output) {
  const Value*& value = known_[{node, output}];
  // Making it may add to `known_`, which keeps references valid.
  if (value == nullptr) value = Make(node, output);
  return value;
}

const Value* Values::OfVariable(int index) const {
  const auto value = variables_.find(index);
  return value == variables_.end() ? nullptr : value->second;
}

const Value* Values::OfInput(const Node* node, int input) {
  const Output source = InputOf(node, input);
  return Of(source.node, source.index);
}

const Value* Values::Make(const Node* node, int output) {
  if (PassesInput(node)) return OfInput(node, 0);
  Value value;
  value.node = node;
  value.output = output;
  const std::string& op = node->type_string();
  if (node->IsArg()) {
    value.op = "variable";
    value.variable = static_cast<int>(IntAttribute(node, "index"));
    value.is_invariant = is_invariant_[value.variable];
    return variables_[value.variable] = Unique(value);
  }
  if (node->IsConstant()) {
    value.op = "constant";
    value.is_invariant = true;
    const auto* tensor = node->attrs().Find("value");
    return Unique(value,
                  tensor != nullptr && tensor->ByteSizeLong() <= kMaxBytes
                      ? tensor->SerializeAsString()
                      : absl::StrCat(node->id()));
  }
  value.is_invariant = true;
  for (int i = 0; i < node->num_inputs(); ++i) {
    value.inputs.push_back(OfInput(node, i));
    value.is_invariant &= value.inputs.back()->is_invariant;
  }
  if (op == "Tile" && RepeatsColumn(node)) return value.inputs[0];
  if (const auto columns = ColumnsOf(node, output)) {
    value.op = "columns";
    value.columns = *columns;
    value.inputs = {value.inputs[InputOfColumns(node)]};
    const Value* const half = OfHalf(value);
    return half != nullptr ? half : Unique(value);
  }
  // Keras 2 multiplies by a dropout mask of ones in inference.
  for (int i = 0; i < 2 && op == "Mul"; ++i) {
    if (IsOnesLike(value.inputs[i], value.inputs[1 - i])) {
      return value.inputs[1 - i];
    }
  }
  const std::string binary = NameOfBinary(node);
  if (!binary.empty()) {
    value.op = binary;
    return Unique(value);
  }
  if (op == "ReadVariableOp") {
    value.op = "read";
    return Unique(value);
  }
  if (op == "TensorListGetItem" || op == "TensorListSetItem") {
    value.op = op == "TensorListGetItem" ? "item" : "write";
    return Unique(value);
  }
  value.op = op;
  const bool is_select = op == "Select" || op == "SelectV2";
  if (is_select && value.inputs[0]->op == "greater_equal") {
    value.inputs = {Negation(*value.inputs[0]), value.inputs[2],
                    value.inputs[1]};
  }
  if (HasNoAttributes(op)) return Unique(value);
  // Of an unknown op, only the output of the same node is equal.
  return Unique(value, absl::StrCat(node->id()));
}

// The value of columns as a variable, if they are half of one.
const Value* Values::OfHalf(const Value& columns) {
  const Value& whole = *columns.inputs[0];
  const bool may_be_half = whole.op == "variable" &&
                           whole.variable < static_cast<int>(halves_.size()) &&
                           halves_[whole.variable] >= 0;
  const int half =
      may_be_half ? HalfOf(columns.columns, &widths_[whole.variable]) : -1;
  if (half < 0) return nullptr;
  Value value;
  value.op = "variable";
  value.variable = halves_[whole.variable] + half;
  value.node = whole.node;
  return variables_[value.variable] = Unique(value);
}

// Not a >= b, as b > a.
const Value* Values::Negation(Value comparison) {
  comparison.op = "greater";
  std::swap(comparison.inputs[0], comparison.inputs[1]);
  return Unique(std::move(comparison));
}

const Value* Values::Unique(Value value, const std::string& attributes) {
  std::string key =
      absl::StrCat(value.op, "/", value.variable, "/", value.columns.axis, ",",
                   value.columns.index, ",", value.columns.count, ",",
                   value.columns.begin, ",", value.columns.end);
  for (const Value* input : value.inputs) {
    absl::StrAppend(&key, "/", reinterpret_cast<uintptr_t>(input));
  }
  // The type tells values of different types apart.
  const bool is_known = value.op == "columns" || value.node->IsConstant();
  absl::StrAppend(&key, "/", value.node->output_type(value.output), "/",
                  is_known ? 0 : value.output, "/", attributes);
  std::unique_ptr<Value>& known = values_[key];
  if (known == nullptr) known = std::make_unique<Value>(std::move(value));
  return known.get();
}

}  // namespace tf_rnn_ops
