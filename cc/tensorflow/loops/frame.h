// Loops of TensorFlow 1, which consist of Enter, Merge, Switch, NextIteration
// and Exit nodes with TensorArrays, as While nodes with tensor lists.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FRAME_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FRAME_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// Whether a graph has such a loop that reads TensorArrays.
bool HasFrame(const tensorflow::Graph& graph);

// Replaces loops in the nodes of a graph by While nodes, of the same name as
// their LoopCond, and adds their bodies to a library.
//
// is_wanted: whether to replace the loop of a name.
// others: gets the names of other loops that read TensorArrays, and why they
// stay.
void ReplaceFrames(const tensorflow::Graph& graph,
                   const std::function<bool(const std::string&)>& is_wanted,
                   tensorflow::GraphDef* definition,
                   tensorflow::FunctionLibraryDefinition* library,
                   std::vector<std::pair<std::string, std::string>>* others);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FRAME_H_
