// What the nodes of a loop's body compute. Equal expressions are one object, so
// that a cell is recognized by comparing pointers.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_VALUE_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"

namespace tf_rnn_ops {

// Columns of a matrix, or elements of a vector: part `index` of `count` equal
// parts, or, if `count` is 0, those from `begin` to `end`, or to the last if
// `end` is 0.
struct Columns {
  int64_t axis = 1;  // 0: of a vector. 1: of a matrix. -1: of either.
  int64_t index = 0;
  int64_t count = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// The columns that an output of a node takes of its input `InputOfColumns`.
// None if it takes something else.
std::optional<Columns> ColumnsOf(const tensorflow::Node* node, int output);
int InputOfColumns(const tensorflow::Node* node);

// Which half of a state [c, h] columns are, or -1. All columns that are halves
// of one state must have the same `*width`, which is 0 at first: a step adds
// and multiplies values with the columns of c, so there are as many of each.
int HalfOf(const Columns& columns, int64_t* width);

// The value of an output of a node, in each step.
struct Value {
  // One of the names below, or the op of a node that is not understood.
  //   variable  a variable of the loop, before the step
  //   constant
  //   read      of a TensorFlow variable (resource)
  //   add, sub, mul, div, matmul, less, greater, greater_equal, and: of two
  //   inputs
  //   Select, SelectV2: of mask, value, value; the mask is no greater_equal
  //   columns   of a matrix or vector
  //   item      of a tensor list: list, step
  //   write     of a value into a tensor list: list, step, value
  //   Minimum, Maximum: of two inputs
  //   Relu, Relu6, Sigmoid, Tanh: of an input
  std::string op;
  std::vector<const Value*> inputs;
  int variable = -1;
  Columns columns;
  // A node that computes it, in the graph of the body.
  const tensorflow::Node* node = nullptr;
  int output = 0;
  // Whether it is the same in all steps.
  bool is_invariant = false;
};

// The value of a node that is a constant, also behind Identity.
std::optional<tensorflow::Tensor> ConstantOf(const tensorflow::Node* node);

// The integers of a constant of one dimension or none. Empty if it is not one.
std::vector<int64_t> IntegersOf(const tensorflow::Node* node);

// Whether a node is a constant with one integer, which has a value.
bool IsInteger(const tensorflow::Node* node, int64_t integer);

// The floating-point number of a constant with one. None if it is not one.
std::optional<double> NumberOf(const Value* value);

// Whether a node puts the columns of two matrices beside each other.
bool IsConcatenation(const tensorflow::Node* node);

// Whether a value is that of a variable of the loop before the step.
bool IsVariable(const Value* value, int index);

// The values in a graph of a body, whose arguments are the variables of a loop.
class Values {
 public:
  // is_invariant[i]: whether no step changes variable i.
  // halves[i]: the first of two more variables, the halves of variable i, or -1
  Values(std::vector<bool> is_invariant, std::vector<int> halves)
      : is_invariant_(std::move(is_invariant)),
        halves_(std::move(halves)),
        widths_(halves_.size()) {}

  // The value of an output of a node in the graph, which has no cycles.
  const Value* Of(const tensorflow::Node* node, int output);

  // The value of a variable before the step. Null if no step uses it.
  const Value* OfVariable(int index) const;

 private:
  const Value* Make(const tensorflow::Node* node, int output);
  const Value* OfHalf(const Value& columns);
  const Value* OfInput(const tensorflow::Node* node, int input);
  const Value* Negation(Value comparison);
  const Value* Unique(Value value, const std::string& attributes = "");

  std::vector<bool> is_invariant_;
  std::vector<int> halves_;
  std::vector<int64_t> widths_;  // of the halves, see HalfOf
  std::map<std::pair<const tensorflow::Node*, int>, const Value*> known_;
  std::map<std::string, std::unique_ptr<Value>> values_;
  std::map<int, const Value*> variables_;
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_VALUE_H_
