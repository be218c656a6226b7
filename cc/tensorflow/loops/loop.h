// A loop over the steps of sequences, as Keras and TensorFlow write it: a While
// whose variables are counters, tensor lists, states, and values that no step
// changes.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LOOP_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LOOP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/tensorflow/inputs.h"
#include "cc/tensorflow/loops/value.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// Whether a node has the attributes of another of the same op, except those
// that only tell about it.
bool HaveEqualAttributes(const tensorflow::Node* a, const tensorflow::Node* b);

// Whether two outputs have the same value, as far as the graph shows.
bool AreEqual(const Output& a, const Output& b);

// Whether an output consists of zeros, as far as the graph shows.
bool IsZero(const Output& output);

// What a variable of a loop is for.
enum class Role {
  kInvariant,   // no step changes it
  kCounter,     // the number of the step
  kInputList,   // a tensor list that is read at each step; no step changes it
  kOutputList,  // a tensor list into which each step writes
  kHalves,      // two states beside each other
  kHalf,        // one of them; it is no variable of the While
  kState,       // anything else
};

struct Variable {
  Output initial;               // before the first step
  const Value* next = nullptr;  // after a step
  Role role = Role::kState;
  int halves = -1;  // of kHalves: the first
  int whole = -1;   // of kHalf
};

// A number of steps: a variable that no step changes, or a constant.
struct Limit {
  int variable = -1;
  int64_t constant = -1;
};

struct Loop {
  const tensorflow::Node* node = nullptr;  // the While
  std::unique_ptr<tensorflow::FunctionBody> body;
  std::unique_ptr<Values> values;
  std::vector<Variable> variables;  // those of the While, then halves
  // The loop ends at the least of these, which differ as far as is known.
  std::vector<Limit> limits;
};

// Whether a limit of a loop has the value of an output.
bool IsEqual(const Limit& limit, const Output& output, const Loop& loop);

// The shape of a variable of a loop, as far as the graph contains it.
tensorflow::PartialTensorShape ShapeOfVariable(int index, const Loop& loop);

// The shape of a value in a loop, as far as the graph contains it.
tensorflow::PartialTensorShape ShapeOf(const Value& value, const Loop& loop);

// A body of a recurrent layer has about 60 nodes.
constexpr int kMaxNodes = 1000;

// The error of a loop that is not understood.
absl::Status NotUnderstood(absl::string_view reason);

// The names of the functions in attributes of a node.
std::vector<std::string> FunctionsOf(const tensorflow::AttrSlice& attributes);

// Whether a node calls functions.
bool CallsFunctions(const tensorflow::Node* node);

// Instantiates a function. An error tells what is wrong with it.
absl::Status Instantiate(const tensorflow::FunctionDef& function,
                         const tensorflow::AttrSlice& attributes,
                         const tensorflow::FunctionLibraryDefinition& library,
                         std::unique_ptr<tensorflow::FunctionBody>* body);

// Reads a loop. An error tells why it is no loop over the steps of sequences.
absl::Status ReadLoop(const tensorflow::Node* node,
                      const tensorflow::FunctionLibraryDefinition& library,
                      Loop* loop);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_LOOP_H_
