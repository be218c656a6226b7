// Builds the graph of a function.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FUNCTION_BUILDER_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FUNCTION_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"

namespace tf_rnn_ops {

// After an error, it does nothing.
class FunctionBuilder {
 public:
  using NodeOut = tensorflow::NodeBuilder::NodeOut;

  explicit FunctionBuilder(const tensorflow::FunctionLibraryDefinition& library)
      : graph_(library) {}

  // Adds a node. Attributes are set by `set`.
  template <typename Set>
  tensorflow::Node* Add(const char* op, const std::vector<NodeOut>& inputs,
                        const Set& set) {
    tensorflow::Node* node = nullptr;
    if (!status_.ok()) return node;
    tensorflow::NodeBuilder builder(graph_.NewName(op), op);
    for (const NodeOut& input : inputs) builder.Input(input);
    set(&builder);
    status_ = builder.Finalize(&graph_, &node, /*consume=*/true);
    return node;
  }
  tensorflow::Node* Add(const char* op, const std::vector<NodeOut>& inputs) {
    return Add(op, inputs, [](tensorflow::NodeBuilder*) {});
  }

  NodeOut Constant(const tensorflow::Tensor& tensor) {
    return Add("Const", {}, [&](tensorflow::NodeBuilder* builder) {
      builder->Attr("value", tensor).Attr("dtype", tensor.dtype());
    });
  }

  // Adds the next argument.
  void AddArgument(tensorflow::DataType type) {
    const auto index = static_cast<int64_t>(arguments_.size());
    arguments_.push_back(Add("_Arg", {}, [&](tensorflow::NodeBuilder* builder) {
      builder->Attr("T", type).Attr("index", index);
    }));
  }

  NodeOut Argument(int index) const { return arguments_[index]; }

  // Adds the next result.
  void AddResult(const NodeOut& result) {
    Add("_Retval", {result}, [&](tensorflow::NodeBuilder* builder) {
      builder->Attr("T", result.dt).Attr("index", num_results_++);
    });
  }

  // The copy of a node of another graph, which `make` makes at the first call.
  template <typename Make>
  tensorflow::Node* CopyOf(const tensorflow::Node* node, const Make& make) {
    tensorflow::Node*& copy = copies_[node];
    if (copy == nullptr && status_.ok()) copy = make();
    return copy;
  }
  int64_t num_copies() const { return static_cast<int64_t>(copies_.size()); }

  // Adds a copy of a node. Its inputs are those that `copy_input` returns for
  // the edges to the node.
  template <typename CopyInput>
  tensorflow::Node* AddCopy(const tensorflow::Node* node,
                            const CopyInput& copy_input) {
    tensorflow::NodeDef definition = node->def();
    definition.clear_input();
    definition.set_name(graph_.NewName("copy"));
    tensorflow::Node* const copy = graph_.AddNode(definition, &status_);
    std::vector<const tensorflow::Edge*> edges;
    if (status_.ok()) status_ = node->input_edges(&edges);
    for (const tensorflow::Edge* edge : edges) {
      const NodeOut input = copy_input(edge);
      if (!status_.ok()) break;
      graph_.AddEdge(input.node, input.index, copy, edge->dst_input());
    }
    return copy;
  }

  void Fail(absl::string_view reason) {
    if (status_.ok()) status_ = absl::UnimplementedError(reason);
  }

  bool ok() const { return status_.ok(); }

  absl::Status Finish(const std::string& name,
                      tensorflow::FunctionDef* function) const {
    return status_.ok() ? tensorflow::GraphToFunctionDef(graph_, name, function)
                        : status_;
  }

 private:
  tensorflow::Graph graph_;
  absl::Status status_;
  std::vector<tensorflow::Node*> arguments_;
  int64_t num_results_ = 0;
  std::map<const tensorflow::Node*, tensorflow::Node*> copies_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_FUNCTION_BUILDER_H_
