#include "cc/tensorflow/inputs.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace tf_rnn_ops {

const tensorflow::Edge* EdgeTo(const tensorflow::Node* node, int input) {
  const tensorflow::Edge* edge = nullptr;
  if (!node->input_edge(input, &edge).ok()) {
    throw std::logic_error(absl::StrCat(node->name(), " has no input ", input));
  }
  return edge;
}

Output InputOf(const tensorflow::Node* node, int input) {
  const tensorflow::Edge* const edge = EdgeTo(node, input);
  return {edge->src(), edge->src_output()};
}

Output WithoutIdentity(Output output) {
  while (Has(output.node, "Identity")) output = InputOf(output.node, 0);
  return output;
}

}  // namespace tf_rnn_ops
