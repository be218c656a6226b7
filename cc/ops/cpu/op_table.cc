// Exported function of the engine library about the ops.

#include <string>

#include "cc/ops/signature.h"
#include "cc/rnn/join.h"

namespace tf_rnn_ops {
namespace {

const char* NameOf(BuiltinOp builtin) {
  switch (builtin) {
    case BuiltinOp::kNone:
      return "none";
    case BuiltinOp::kRunsOnGpusOnly:
      return "gpu";
    case BuiltinOp::kRunsOnCpus:
      return "cpu";
  }
  return "";
}

}  // namespace

// What is known of the ops but is not part of their definitions: one line for
// each op with its name, the device of TensorFlow's op of the same name ("none"
// if there is no such op, "gpu" if it runs on GPUs only, else "cpu"), the
// devices that ours runs on ("cpu" or "cpu,gpu"), and the inputs that are
// weights (w1,w2,... or "none"). The string lives as long as the library.
extern "C" __attribute__((visibility("default"))) const char*
TfRnnOps_OpTable() {
  static const std::string* const table = [] {
    auto* lines = new std::string;
    for (const Signature& op : Signatures()) {
      std::string weights;
      for (const Argument& input : op.inputs) {
        if (input.is_weight)
          weights += (weights.empty() ? "" : ",") + input.name;
      }
      *lines += rnn::Join(op.name, " ", NameOf(op.builtin),
                          op.runs_on_gpus ? " cpu,gpu " : " cpu ",
                          weights.empty() ? "none" : weights, "\n");
    }
    return lines;
  }();
  return table->c_str();
}

}  // namespace tf_rnn_ops
