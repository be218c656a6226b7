// Replaces the loops of recurrent layers in graphs by calls of functions with
// the op KerasRNN.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_ACCELERATE_GRAPHS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_ACCELERATE_GRAPHS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace tf_rnn_ops {

// What became of a loop over the steps of sequences.
struct LoopReport {
  std::string function;  // that has the loop; empty for the main graph
  std::string node;
  std::string mode;     // rnn_mode of the op, or empty
  std::string why_not;  // why it is not replaced, or empty
  std::string layer;    // the function that replaces it, or empty
};

// Replaces the loops in a graph and its functions. Other nodes do not change.
absl::Status AccelerateGraph(tensorflow::GraphDef* graph,
                             std::vector<LoopReport>* loops);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_ACCELERATE_GRAPHS_H_
