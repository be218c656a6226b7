// The steps of a recurrent layer one after the other, without a loop, as While
// nodes with tensor lists. TensorFlow 1's static_rnn writes them so, and Keras
// with unroll=True.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_CHAIN_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_CHAIN_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/loops/loop.h"
#include "cc/tensorflow/loops/steps.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// The steps of one layer.
class Chain {
 public:
  // The name of the While node. It is new in the graph.
  const std::string& name() const { return name_; }

  // Why no While can replace the steps, or "".
  const std::string& why_not() const { return why_not_; }

  // Adds the functions of the While to a library, and one that computes what
  // the While does by the steps of the graph.
  absl::Status AddFunctions(
      tensorflow::FunctionLibraryDefinition* library) const;

  // Puts the While into the nodes of a graph. The nodes of the steps stay if
  // their values may be fetched: if the graph is no function's. Nothing else
  // uses them any more.
  void AddLoop(tensorflow::GraphDef* graph) const;

  // Puts it into those of a function.
  void AddLoop(tensorflow::FunctionDef* function) const;

 private:
  friend class ChainFinder;

  class Definition;
  void AddLoop(Definition* definition) const;
  std::string AddSequence(size_t list, Definition* definition) const;
  void ReplaceOutputs(const std::string& shape, Definition* definition) const;
  std::string NameOf(const char* function) const;
  int NumSteps() const { return static_cast<int>(root_->outputs.size()); }
  int IndexOf(const Part* state) const;

  std::string name_;
  std::string why_not_;
  std::vector<std::unique_ptr<Part>> parts_;
  const Part* root_ = nullptr;  // the outputs of the steps
  std::vector<const Part*> lists_;
  std::vector<const Part*> states_;
  StepOutputs invariants_;       // values from outside that no step changes
  std::set<std::string> nodes_;  // those of the steps
  // The nodes that only stack the outputs of all steps.
  std::vector<std::string> stacks_;
  bool returns_sequences_ = false;
};

// Whether a graph may have such steps.
bool MayHaveChain(const tensorflow::Graph& graph);
bool MayHaveChain(
    const google::protobuf::RepeatedPtrField<tensorflow::NodeDef>& nodes);

// Finds the steps of layers in a graph.
std::vector<std::unique_ptr<Chain>> FindChains(const tensorflow::Graph& graph);

// The attribute of a While that tells which function computes what it does by
// the steps of the graph. No other While has it.
inline constexpr char kStepsAttribute[] = "_tf_rnn_ops_steps";

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_CHAIN_H_
