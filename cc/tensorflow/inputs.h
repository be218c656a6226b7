// The inputs of the nodes of a graph.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_INPUTS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_INPUTS_H_

#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// An output of a node.
struct Output {
  const tensorflow::Node* node = nullptr;
  int index = 0;

  friend bool operator==(const Output& a, const Output& b) {
    return a.node == b.node && a.index == b.index;
  }
};

// The edge to an input of a node. Throws std::logic_error if the node lacks it,
// as in a file that TensorFlow cannot import.
const tensorflow::Edge* EdgeTo(const tensorflow::Node* node, int input);

// The source of an input of a node.
Output InputOf(const tensorflow::Node* node, int input);

// Whether a node has an op.
inline bool Has(const tensorflow::Node* node, const char* op) {
  return node->type_string() == op;
}

// What Identities pass on.
Output WithoutIdentity(Output output);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_INPUTS_H_
