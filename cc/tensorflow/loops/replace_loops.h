// Replaces the loops of recurrent layers in graphs and functions by calls of
// functions with our ops.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_REPLACE_LOOPS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_REPLACE_LOOPS_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/loops/chain.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/recurrent_layer.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// A loop over the steps of sequences, and what became of it.
struct LoopReport {
  std::string function;  // that has the loop, or what else it is in
  std::string node;
  std::string mode;     // rnn_mode of each cell, or empty
  std::string why_not;  // why it is not replaced, or empty
};

// A loop that can be replaced by a function.
struct Candidate {
  const LoopReport& report;
  const Loop& loop;
  const RecurrentLayer& layer;
  const tensorflow::FunctionDef& function;
  // The graph with the loop, or with the function that has it, if it is not the
  // one that was given.
  const tensorflow::GraphDef* graph;
};

// How to replace a loop by a call.
struct Replacement {
  tensorflow::FunctionDef layer;
  std::map<int, std::string> lists;  // by input: the node that makes its list
  std::vector<std::string> stacks;   // the nodes that stack the outputs
};

// Appends the functions that a node calls, unless XLA compiles them.
void AppendCalled(const tensorflow::AttrSlice& attributes,
                  std::vector<std::string>* names);

class LoopReplacer {
 public:
  // accept: whether to replace a loop. None: replace all that can be.
  explicit LoopReplacer(tensorflow::FunctionLibraryDefinition* library,
                        std::function<bool(const Candidate&)> accept = nullptr)
      : library_(library), accept_(std::move(accept)) {}

  // Replaces loops in functions of the library, and in those that they call.
  void ReplaceInFunctions(std::vector<std::string> names);

  // Replaces loops in a graph, which reports call `name`.
  absl::Status ReplaceInGraph(const std::string& name,
                              std::unique_ptr<tensorflow::Graph>* graph);

  // Replaces loops in a graph and in all functions of its library, which is
  // the replacer's.
  absl::Status ReplaceInGraphDef(tensorflow::GraphDef* graph);

  // All loops over the steps of sequences that were found.
  const std::vector<LoopReport>& loops() const { return loops_; }

 private:
  using Replacements = std::map<std::string, Replacement>;  // by node

  Replacements Find(const std::string& name, const tensorflow::Graph& graph,
                    const tensorflow::FunctionLibraryDefinition& library,
                    const tensorflow::GraphDef* definition);
  std::vector<std::unique_ptr<Chain>> FindChainsIn(
      const std::string& name, const tensorflow::Graph& graph);
  Replacements FindWithChains(
      const tensorflow::FunctionDef& function,
      const std::vector<std::unique_ptr<Chain>>& chains);
  absl::Status ReplaceInNodes(const std::string& name,
                              const tensorflow::Graph& graph, bool* has_changed,
                              tensorflow::GraphDef* definition);
  absl::Status ReplaceInFunction(const tensorflow::FunctionDef& function);
  absl::Status AddLayers(const Replacements& replacements);

  tensorflow::FunctionLibraryDefinition* const library_;
  const std::function<bool(const Candidate&)> accept_;
  std::vector<LoopReport> loops_;
  std::set<std::string> changed_;  // the functions with replaced loops
  std::set<std::string> layers_;   // the functions that replace them
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_REPLACE_LOOPS_H_
