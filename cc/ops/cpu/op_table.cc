// Exported function of the engine library about the ops.

#include <algorithm>
#include <string>
#include <vector>

#include "cc/ops/signature.h"

namespace tf_rnn_ops {
namespace {

using Names = std::vector<std::string>;

// A member of a JSON object: a list of names, which have no special characters.
std::string ToJson(const char* key, const Names& names) {
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "\"" : ", \"") + name + "\"";
  }
  return std::string("\"") + key + "\": [" + list + "]";
}

Names NamesOf(const Arguments& arguments) {
  Names names;
  for (const Argument& argument : arguments) names.push_back(argument.name);
  return names;
}

std::string ToJson(const Signature& op) {
  Names weights, opaque;
  for (const auto* arguments : {&op.inputs, &op.outputs}) {
    for (const Argument& argument : *arguments) {
      if (argument.is_weight) weights.push_back(argument.name);
      if (argument.is_opaque) opaque.push_back(argument.name);
    }
  }
  Names attributes;
  for (const Attribute& attribute : op.attributes) {
    const std::string& definition = attribute.definition;
    const std::string name = definition.substr(0, definition.find(':'));
    const bool follows_from_inputs = std::any_of(
        op.inputs.begin(), op.inputs.end(), [&name](const Argument& input) {
          return input.type == name ||
                 (input.count != nullptr && input.count == name);
        });
    if (!follows_from_inputs) attributes.push_back(name);
  }
  Names builtin_devices;
  if (op.builtin == BuiltinOp::kRunsOnCpus) builtin_devices.push_back("CPU");
  if (op.builtin != BuiltinOp::kNone) builtin_devices.push_back("GPU");
  return "{" + ToJson("inputs", NamesOf(op.inputs)) + ", " +
         ToJson("outputs", NamesOf(op.outputs)) + ", " +
         ToJson("attributes", attributes) + ", " + ToJson("weights", weights) +
         ", " + ToJson("opaque", opaque) + ", " +
         ToJson("devices",
                op.runs_on_gpus ? Names{"CPU", "GPU"} : Names{"CPU"}) +
         ", " + ToJson("builtin_devices", builtin_devices) + "}";
}

}  // namespace

// All ops but AlignTensor in JSON, by name: their arguments, except attributes
// that follow from the inputs, which of them are weights or opaque, the
// devices that they run on, and those that TensorFlow's ops of the same names
// run on. The string lives as long as the library.
extern "C" __attribute__((visibility("default"))) const char*
TfRnnOps_OpTable() {
  static const std::string* const table = [] {
    auto* json = new std::string;
    for (const Signature& op : Signatures()) {
      *json +=
          (json->empty() ? "{\"" : ",\n\"") + op.name + "\": " + ToJson(op);
    }
    *json += "}";
    return json;
  }();
  return table->c_str();
}

}  // namespace tf_rnn_ops
