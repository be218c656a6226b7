// Finds what the steps of a recurrent layer compute that follow each other
// without a loop.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_STEPS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cc/tensorflow/loops/loop.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// An output of each step: that of the same node in each copy.
using StepOutputs = std::vector<Output>;

// What a step computes or reads, in all steps.
struct Part {
  enum Kind {
    kSame,      // the same in all steps
    kInput,     // an item of a sequence
    kState,     // before a step: what `next` was after the one before
    kComputed,  // by copies of a node
  };
  Kind kind = kSame;
  StepOutputs outputs;
  // Of the node, if it is computed. All outputs of a node share them.
  std::shared_ptr<std::vector<const Part*>> inputs;
  const Part* next = nullptr;  // of a state
  bool is_invariant = false;
  bool has_state = false;    // whether a state is among what computes it
  bool has_product = false;  // and whether a product of matrices is
};

// A step of a GRU has 30 nodes. Searches within a step reach no further.
inline constexpr size_t kMaxReach = 150;

// The two matrices whose columns a node puts beside each other, or none.
std::vector<Output> HalvesOf(const tensorflow::Node* node);

// Whether nodes must run before a node without being its inputs.
bool HasControlInputs(const tensorflow::Node* node);

// Whether a node only computes values from its inputs.
bool IsPure(const tensorflow::Node* node);

// Whether a step computes a value itself that is the same in all steps: if it
// is a part of weights, or a small constant.
bool IsComputedInStep(const tensorflow::Node* node);

// Finds what copies of a step compute, beginning with their output.
class Matcher {
 public:
  // claimed: the nodes of other chains.
  explicit Matcher(
      const absl::flat_hash_map<const tensorflow::Node*, size_t>& claimed)
      : claimed_(claimed) {}

  // What an output passes on: behind identities, and a column of columns.
  Output Follow(Output output);

  // Returns null if the step is too large.
  Part* Match(StepOutputs outputs);

  // The part of outputs, or null.
  Part* Find(StepOutputs outputs) { return Known(Follow(std::move(outputs))); }

  // Whether the steps compute outputs of nodes.
  bool Computes(const std::vector<const tensorflow::Node*>& nodes) const;

  std::vector<std::unique_ptr<Part>>& parts() { return parts_; }

  // The nodes that pass on values of steps, with what they pass on.
  const std::vector<
      std::pair<const tensorflow::Node*, const tensorflow::Node*>>&
  passed() const {
    return passed_;
  }

 private:
  StepOutputs Follow(StepOutputs outputs);
  Part* Known(const StepOutputs& outputs) const;
  Part* After(const StepOutputs& outputs);
  Part* New(Part::Kind kind, StepOutputs outputs);
  Part* Compute(StepOutputs outputs);

  const absl::flat_hash_map<const tensorflow::Node*, size_t>& claimed_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::pair<const tensorflow::Node*, const tensorflow::Node*>>
      passed_;
  int64_t width_ = 0;  // of a half of a state
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_STEPS_H_
