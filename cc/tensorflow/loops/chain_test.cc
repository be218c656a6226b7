#include "cc/tensorflow/loops/chain.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/graph_constructor.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

// A graph with steps h = tanh(x W + h R), whose nodes are named after them.
class Steps {
 public:
  Steps() {
    for (const char* name : {"W", "R", "other", "h0"}) Add(name, "Placeholder");
  }

  NodeDef* Add(const std::string& name, const std::string& op,
               const std::vector<std::string>& inputs = {}) {
    NodeDef* const node = graph_.add_node();
    node->set_name(name);
    node->set_op(op);
    for (const std::string& input : inputs) node->add_input(input);
    const char* const type = op == "Placeholder" ? "dtype" : "T";
    (*node->mutable_attr())[type].set_type(tensorflow::DT_FLOAT);
    return node;
  }

  // Adds a step and returns its state.
  std::string AddStep(const std::string& name, const std::string& state,
                      const std::string& weights = "R",
                      const std::string& activation = "Tanh") {
    const auto named = [&](const char* part) {
      return absl::StrCat(name, "/", part);
    };
    Add(named("x"), "Placeholder");
    Add(named("of_x"), "MatMul", {named("x"), "W"});
    Add(named("of_h"), "MatMul", {state, weights});
    Add(named("sum"), "AddV2", {named("of_x"), named("of_h")});
    Add(named("h"), activation, {named("sum")});
    return named("h");
  }

  // The chains of the graph.
  std::vector<std::unique_ptr<Chain>> Find() {
    graph =
        std::make_unique<tensorflow::Graph>(tensorflow::OpRegistry::Global());
    const absl::Status status = tensorflow::ConvertGraphDefToGraph(
        tensorflow::GraphConstructorOptions(), graph_, graph.get());
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(MayHaveChain(*graph), MayHaveChain(graph_.node()));
    return MayHaveChain(*graph) ? FindChains(*graph)
                                : std::vector<std::unique_ptr<Chain>>();
  }

  GraphDef& definition() { return graph_; }

  std::unique_ptr<tensorflow::Graph> graph;

 private:
  GraphDef graph_;
};

// Why each chain cannot be replaced.
std::vector<std::string> ReasonsOf(
    const std::vector<std::unique_ptr<Chain>>& chains) {
  std::vector<std::string> reasons;
  for (const auto& chain : chains) reasons.push_back(chain->why_not());
  return reasons;
}

using Reasons = std::vector<std::string>;

TEST(ChainTest, FindsSteps) {
  for (int num_steps = 0; num_steps < 5; ++num_steps) {
    Steps steps;
    std::string state = "h0";
    for (int i = 0; i < num_steps; ++i) {
      state = steps.AddStep(absl::StrCat("step_", i), state);
    }
    EXPECT_EQ(ReasonsOf(steps.Find()), num_steps < 2 ? Reasons{} : Reasons{""});
  }
}

TEST(ChainTest, StepsThatDifferAreNotOfOneChain) {
  Steps steps;
  std::string state = steps.AddStep("a", "h0");
  state = steps.AddStep("b", state);
  state = steps.AddStep("c", state, "other");
  EXPECT_EQ(ReasonsOf(steps.Find()), Reasons{""});
  Steps others;
  others.AddStep("b", others.AddStep("a", "h0", "R", "Relu"));
  EXPECT_TRUE(others.Find().empty());
}

TEST(ChainTest, ValuesOfStepsMayBeUsedIfTheyAreOutputs) {
  Steps steps;
  steps.AddStep("c", steps.AddStep("b", steps.AddStep("a", "h0")));
  steps.Add("user", "Tanh", {"b/h"});
  steps.Add("of_user", "Tanh", {"user"});
  EXPECT_EQ(ReasonsOf(steps.Find()), Reasons{""});
  steps.Add("other_user", "Tanh", {"b/sum"});
  steps.Add("of_other_user", "Tanh", {"other_user"});
  EXPECT_EQ(ReasonsOf(steps.Find()),
            Reasons{"a value within its steps is used elsewhere"});
}

TEST(ChainTest, InputsMustNotDependOnTheSteps) {
  Steps steps;
  steps.AddStep("c", steps.AddStep("b", steps.AddStep("a", "h0")));
  for (NodeDef& node : *steps.definition().mutable_node()) {
    if (node.name() != "c/x") continue;
    node.set_op("Tanh");
    node.add_input("a/h");
    node.clear_attr();
    (*node.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  }
  EXPECT_EQ(ReasonsOf(steps.Find()),
            Reasons{"an input of a step is computed from an earlier step"});
}

TEST(ChainTest, ProductsWithoutAStateAreNoChain) {
  Steps steps;
  for (int i = 0; i < 3; ++i) steps.AddStep(absl::StrCat("step_", i), "h0");
  EXPECT_TRUE(steps.Find().empty());
  // Layers of a network that share their weights have no inputs of steps.
  Steps layers;
  layers.Add("a", "MatMul", {"h0", "R"});
  layers.Add("b", "Tanh", {"a"});
  layers.Add("c", "MatMul", {"b", "R"});
  layers.Add("d", "Tanh", {"c"});
  EXPECT_TRUE(layers.Find().empty());
}

TEST(ChainTest, ALoopReplacesTheSteps) {
  Steps steps;
  steps.AddStep("c", steps.AddStep("b", steps.AddStep("a", "h0")));
  steps.Add("user", "Tanh", {"b/h"});
  const auto chains = steps.Find();
  ASSERT_EQ(chains.size(), 1);
  EXPECT_EQ(chains[0]->name(), "a/unrolled");
  GraphDef replaced = steps.definition();
  chains[0]->AddLoop(&replaced);
  tensorflow::FunctionLibraryDefinition library(
      tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary());
  EXPECT_EQ(chains[0]->AddFunctions(&library), absl::OkStatus());
  *replaced.mutable_library() = library.ToProto();
  tensorflow::Graph graph(tensorflow::OpRegistry::Global());
  EXPECT_EQ(tensorflow::ConvertGraphDefToGraph(
                tensorflow::GraphConstructorOptions(), replaced, &graph),
            absl::OkStatus());
  std::set<std::string> identities;
  for (const NodeDef& node : replaced.node()) {
    if (node.op() == "Identity") identities.insert(node.name());
  }
  EXPECT_EQ(identities, (std::set<std::string>{"a/h", "b/h", "c/h"}));
}

}  // namespace
}  // namespace tf_rnn_ops
