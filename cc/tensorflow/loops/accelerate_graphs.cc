// Replaces the loops of recurrent layers in each graph that TensorFlow
// prepares, if a program asks for it.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/rnn/status.h"
#include "cc/tensorflow/conversions.h"
#include "cc/tensorflow/loops/replace_loops.h"
#include "tensorflow/core/common_runtime/device_set.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::Graph;
using ::tensorflow::Node;

// The loops that were found in the process, each counted once: TensorFlow may
// prepare a function several times.
class LoopCounts {
 public:
  // Never destroyed.
  static LoopCounts* Get() {
    static LoopCounts& counts = *new LoopCounts;
    return &counts;
  }

  void Add(const std::vector<LoopReport>& loops) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const LoopReport& loop : loops) {
      const bool is_replaced = loop.why_not.empty();
      const bool is_new =
          (is_replaced ? replaced_ : others_)
              .insert(absl::StrCat(loop.function, "/", loop.node))
              .second;
      if (!is_new) continue;
      VLOG(1) << "loop " << loop.node << " of function " << loop.function
              << (is_replaced ? " runs on the op as " : " stays: ")
              << (is_replaced ? loop.mode : loop.why_not);
    }
  }

  int64_t NumReplaced() { return Size(replaced_); }
  int64_t NumOther() { return Size(others_); }

 private:
  int64_t Size(const std::set<std::string>& loops) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(loops.size());
  }

  std::mutex mutex_;
  std::set<std::string> replaced_;
  std::set<std::string> others_;
};

// Replaces the loops in each graph before TensorFlow lowers and inlines them.
class AccelerateGraphs final : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(
      const tensorflow::GraphOptimizationPassOptions& options) override {
    if (!is_on || options.graph == nullptr || *options.graph == nullptr ||
        options.flib_def == nullptr || HasAccelerator(options.device_set)) {
      return absl::OkStatus();
    }
    const absl::Status status = CatchInKernel("AccelerateGraphs", [&] {
      return FromAbslStatus(Accelerate(options));
    });
    // A graph that stays as it is still runs.
    if (!status.ok()) LOG(WARNING) << "graph not accelerated: " << status;
    return absl::OkStatus();
  }

  inline static std::atomic<bool> is_on = false;

 private:
  static bool HasAccelerator(const tensorflow::DeviceSet* devices) {
    if (devices == nullptr) return false;
    for (const tensorflow::Device* device : devices->devices()) {
      const std::string& type = device->device_type();
      if (type != tensorflow::DEVICE_CPU && type != "XLA_CPU") return true;
    }
    return false;
  }

  static absl::Status Accelerate(
      const tensorflow::GraphOptimizationPassOptions& options);
};

absl::Status AccelerateGraphs::Accelerate(
    const tensorflow::GraphOptimizationPassOptions& options) {
  std::unique_ptr<Graph>* const graph = options.graph;
  std::vector<std::string> called;
  // Other nodes with functions prepare graphs for these when they run them.
  for (const Node* node : (*graph)->op_nodes()) {
    const bool calls = node->IsFunctionCall() || node->IsWhileNode() ||
                       node->IsIfNode() || node->IsCaseNode();
    if (!calls) continue;
    // Its function is differentiated later.
    if (node->type_string() == "SymbolicGradient") return absl::OkStatus();
    AppendCalled(node->attrs(), &called);
  }
  LoopReplacer replacer(options.flib_def);
  replacer.ReplaceInFunctions(called);
  const std::string name = options.function_def != nullptr
                               ? options.function_def->signature().name()
                               : options.session_handle;
  absl::Status status = replacer.ReplaceInGraph(name, graph);
  if (!status.ok()) return status;
  LoopCounts::Get()->Add(replacer.loops());
  return absl::OkStatus();
}

[[maybe_unused]] const bool registered = [] {
  const char* const wanted = std::getenv("TF_RNN_OPS_ACCELERATE_GRAPHS");
  AccelerateGraphs::is_on =
      wanted != nullptr && absl::string_view(wanted) == "1";
  // Phase 10 lowers the loops.
  tensorflow::OptimizationPassRegistry::Global()->Register(
      tensorflow::OptimizationPassRegistry::PRE_PLACEMENT, /*phase=*/5,
      std::make_unique<AccelerateGraphs>());
  return true;
}();

}  // namespace
}  // namespace tf_rnn_ops

extern "C" {

// Replaces loops in all graphs that TensorFlow prepares from now on.
__attribute__((visibility("default"))) void TfRnnOps_AccelerateGraphs() {
  tf_rnn_ops::AccelerateGraphs::is_on = true;
}

// Ends that.
__attribute__((visibility("default"))) void TfRnnOps_RestoreGraphs() {
  tf_rnn_ops::AccelerateGraphs::is_on = false;
}

// The number of loops over the steps of sequences that were replaced.
__attribute__((visibility("default"))) int64_t TfRnnOps_NumAcceleratedLoops() {
  return tf_rnn_ops::LoopCounts::Get()->NumReplaced();
}

// The number of those that were not.
__attribute__((visibility("default"))) int64_t TfRnnOps_NumOtherLoops() {
  return tf_rnn_ops::LoopCounts::Get()->NumOther();
}
}
