#include "cc/tensorflow/loops/steps.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "cc/tensorflow/loops/value.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::Edge;
using ::tensorflow::Node;

// Larger constants are weights.
constexpr int64_t kMaxElements = 8;
constexpr size_t kMaxBytes = 1024;

bool AreSame(const StepOutputs& outputs) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](const Output& o) { return o == outputs[0]; });
}

std::set<const Node*> ControlInputsOf(const Node* node) {
  std::set<const Node*> inputs;
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge()) inputs.insert(edge->src());
  }
  return inputs;
}

// Whether outputs are the same of copies of a node.
bool AreCopies(const StepOutputs& outputs) {
  const Output& first = outputs[0];
  absl::flat_hash_set<const Node*> nodes;
  for (const Output& each : outputs) {
    if (each.index != first.index || !nodes.insert(each.node).second ||
        each.node->type_string() != first.node->type_string() ||
        !IsPure(each.node) || !HaveEqualAttributes(first.node, each.node) ||
        !HaveEqualAttributes(each.node, first.node)) {
      return false;
    }
  }
  return true;
}

// Whether outputs are values that one TensorFlow variable has at one time.
bool AreEqualReads(const StepOutputs& outputs) {
  const Output& first = outputs[0];
  if (!Has(first.node, "ReadVariableOp")) return false;
  const Output handle = InputOf(first.node, 0);
  const auto inputs = ControlInputsOf(first.node);
  return std::all_of(outputs.begin(), outputs.end(), [&](const Output& each) {
    return Has(each.node, "ReadVariableOp") &&
           InputOf(each.node, 0) == handle &&
           each.node->output_type(0) == first.node->output_type(0) &&
           ControlInputsOf(each.node) == inputs;
  });
}

bool AreEqualConstants(const StepOutputs& outputs) {
  const tensorflow::AttrValue* const value =
      outputs[0].node->IsConstant() ? outputs[0].node->attrs().Find("value")
                                    : nullptr;
  if (value == nullptr || value->ByteSizeLong() > kMaxBytes) return false;
  return std::all_of(outputs.begin(), outputs.end(), [&](const Output& each) {
    return each.node->IsConstant() &&
           HaveEqualAttributes(outputs[0].node, each.node);
  });
}

// Whether an input of a node is not computed by the step if no state is.
bool IsData(const Node* node, int input) {
  return (Has(node, "MatMul") && input == 0) || Has(node, "ConcatV2") ||
         Has(node, "GRUBlockCell") || Has(node, "LSTMBlockCell");
}

}  // namespace

std::vector<Output> HalvesOf(const Node* node) {
  if (!IsConcatenation(node)) return {};
  return {InputOf(node, 0), InputOf(node, 1)};
}

bool HasControlInputs(const Node* node) {
  return std::any_of(node->in_edges().begin(), node->in_edges().end(),
                     [](const Edge* edge) {
                       return edge->IsControlEdge() && !edge->src()->IsSource();
                     });
}

bool IsPure(const Node* node) {
  if (node->num_inputs() == 0 || node->IsControlFlow() ||
      node->op_def().is_stateful() || CallsFunctions(node) ||
      HasControlInputs(node)) {
    return false;
  }
  const auto is_value = [](DataType type) {
    return !tensorflow::IsRefType(type) && type != tensorflow::DT_RESOURCE &&
           type != tensorflow::DT_VARIANT;
  };
  const auto& inputs = node->input_types();
  const auto& outputs = node->output_types();
  return std::all_of(inputs.begin(), inputs.end(), is_value) &&
         std::all_of(outputs.begin(), outputs.end(), is_value);
}

bool IsComputedInStep(const Node* node) {
  if (node->IsConstant()) {
    const std::optional<tensorflow::Tensor> tensor = ConstantOf(node);
    return tensor.has_value() && tensor->NumElements() <= kMaxElements &&
           (tensor->dims() == 0 ||
            !tensorflow::DataTypeIsFloating(tensor->dtype()));
  }
  static const auto& ops = *new std::set<std::string>{
      "Cast",  "ConcatV2", "ExpandDims",   "Identity", "Reshape",
      "Split", "SplitV",   "StridedSlice", "Squeeze",  "Unpack"};
  return ops.count(node->type_string()) > 0 && IsPure(node);
}

Output Matcher::Follow(Output output) {
  for (;;) {
    Output input;
    if (Has(output.node, "Identity")) {
      input = InputOf(output.node, 0);
    } else if (const auto columns = ColumnsOf(output.node, output.index)) {
      // A state [c, h] of TensorFlow 1.
      const Output whole =
          WithoutIdentity(InputOf(output.node, InputOfColumns(output.node)));
      const std::vector<Output> halves = HalvesOf(whole.node);
      const int half = halves.size() == 2 ? HalfOf(*columns, &width_) : -1;
      if (half < 0) return output;
      input = halves[half];
      passed_.emplace_back(whole.node, input.node);
    } else {
      return output;
    }
    passed_.emplace_back(output.node, input.node);
    output = input;
  }
}

StepOutputs Matcher::Follow(StepOutputs outputs) {
  for (Output& each : outputs) each = Follow(each);
  return outputs;
}

Part* Matcher::Known(const StepOutputs& outputs) const {
  for (const auto& part : parts_) {
    if (part->outputs == outputs) return part.get();
  }
  return nullptr;
}

bool Matcher::Computes(const std::vector<const Node*>& nodes) const {
  const auto is_of = [](const Node* node, const Output& output) {
    return output.node == node;
  };
  return std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
    return part->kind == Part::kComputed &&
           std::equal(nodes.begin(), nodes.end(), part->outputs.begin(), is_of);
  });
}

// The part whose value after a step is that of outputs before the next.
Part* Matcher::After(const StepOutputs& outputs) {
  const auto is_of_node = [](const Output& a, const Output& b) {
    return a.node == b.node;
  };
  const Part* node = nullptr;
  for (const auto& part : parts_) {
    if (part->kind != Part::kComputed) continue;
    if (std::equal(outputs.begin() + 1, outputs.end(), part->outputs.begin())) {
      return part.get();
    }
    if (std::equal(outputs.begin() + 1, outputs.end(), part->outputs.begin(),
                   is_of_node)) {
      node = part.get();
    }
  }
  if (node == nullptr) return nullptr;
  // Another output of the node.
  StepOutputs others = node->outputs;
  for (Output& each : others) each.index = outputs[1].index;
  if (!std::equal(outputs.begin() + 1, outputs.end(), others.begin())) {
    return nullptr;
  }
  Part* const part = New(Part::kComputed, std::move(others));
  part->inputs = node->inputs;
  part->has_state = true;
  part->has_product = node->has_product;
  return part;
}

Part* Matcher::New(Part::Kind kind, StepOutputs outputs) {
  auto part = std::make_unique<Part>();
  part->kind = kind;
  part->outputs = std::move(outputs);
  part->is_invariant = kind == Part::kSame;
  part->has_state = kind == Part::kState;
  parts_.push_back(std::move(part));
  return parts_.back().get();
}

Part* Matcher::Match(StepOutputs outputs) {
  if (parts_.size() > kMaxReach) return nullptr;
  outputs = Follow(std::move(outputs));
  if (Part* const known = Known(outputs)) return known;
  if (AreSame(outputs) || AreEqualReads(outputs) ||
      AreEqualConstants(outputs)) {
    return New(Part::kSame, std::move(outputs));
  }
  if (Part* const next = After(outputs)) {
    Part* const state = New(Part::kState, std::move(outputs));
    state->next = next;
    return state;
  }
  const bool is_other = std::any_of(
      outputs.begin(), outputs.end(),
      [&](const Output& each) { return claimed_.count(each.node) > 0; });
  return is_other || !AreCopies(outputs) ? New(Part::kInput, std::move(outputs))
                                         : Compute(std::move(outputs));
}

Part* Matcher::Compute(StepOutputs outputs) {
  Part* const part = New(Part::kComputed, std::move(outputs));
  const Node* const node = part->outputs[0].node;
  part->inputs = std::make_shared<std::vector<const Part*>>();
  part->is_invariant = true;
  part->has_product = Has(node, "MatMul");
  for (int i = 0; i < node->num_inputs(); ++i) {
    StepOutputs inputs;
    for (const Output& each : part->outputs) {
      inputs.push_back(InputOf(each.node, i));
    }
    const size_t num_parts = parts_.size();
    Part* input = Match(inputs);
    if (input == nullptr && !IsData(node, i)) return nullptr;
    const bool is_of_sequence =
        input == nullptr ||
        (input->kind == Part::kComputed && !input->is_invariant &&
         !input->has_state && (IsData(node, i) || !input->has_product));
    if (is_of_sequence) {
      // What computes it is not part of the step.
      parts_.resize(num_parts);
      input = New(Part::kInput, Follow(std::move(inputs)));
    }
    part->inputs->push_back(input);
    part->is_invariant &= input->is_invariant;
    part->has_state |= input->has_state;
    part->has_product |= input->has_product;
  }
  return part;
}

}  // namespace tf_rnn_ops
