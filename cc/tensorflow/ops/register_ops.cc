// Registers the definitions of our ops, which follow from their signatures,
// when the op library is loaded.

#include <string>

#include "absl/strings/str_cat.h"
#include "cc/ops/signature.h"
#include "cc/tensorflow/ops/infer_shapes.h"
#include "tensorflow/core/framework/op.h"

namespace tf_rnn_ops {
namespace {

std::string Declare(const Argument& argument) {
  const std::string list =
      argument.count == nullptr ? "" : absl::StrCat(argument.count, " * ");
  return absl::StrCat(argument.name, ": ", list, argument.type);
}

// The documentation, in the syntax of REGISTER_OP.
std::string DocOf(const Signature& op) {
  std::string doc = absl::StrCat(op.summary, "\n", op.doc, "\n");
  for (const auto* arguments : {&op.inputs, &op.outputs}) {
    for (const Argument& argument : *arguments) {
      absl::StrAppend(&doc, argument.name, ": ", argument.doc, "\n");
    }
  }
  for (const Attribute& attribute : op.attributes) {
    if (attribute.doc.empty()) continue;
    const std::string& definition = attribute.definition;
    absl::StrAppend(&doc, definition.substr(0, definition.find(':')), ": ",
                    attribute.doc, "\n");
  }
  return doc;
}

[[maybe_unused]] const bool registered = [] {
  for (const Signature& op : Signatures()) {
    tensorflow::register_op::OpDefBuilderWrapper definition(
        absl::StrCat("TfRnnOps>", op.name).c_str());
    for (const Attribute& attribute : op.attributes) {
      definition.Attr(attribute.definition);
    }
    for (const Argument& input : op.inputs) definition.Input(Declare(input));
    for (const Argument& output : op.outputs) {
      definition.Output(Declare(output));
    }
    if (op.is_stateful) definition.SetIsStateful();
    definition.SetShapeFn(
        [&op](tensorflow::shape_inference::InferenceContext* c) {
          return InferShapes(op, c);
        });
    definition.Doc(DocOf(op));
    definition();
  }
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops
