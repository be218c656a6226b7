// Makes nodes for the definitions of graphs and functions.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_LOOPS_NODE_DEFS_H_
#define TF_RNN_OPS_CC_TENSORFLOW_LOOPS_NODE_DEFS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/types.h"

namespace tf_rnn_ops {

// A node without attributes.
inline tensorflow::NodeDef NewNode(const std::string& name, const char* op,
                                   const std::vector<std::string>& inputs) {
  tensorflow::NodeDef node;
  node.set_name(name);
  node.set_op(op);
  for (const std::string& input : inputs) node.add_input(input);
  return node;
}

// A constant of type int32.
inline tensorflow::NodeDef NewInteger(const std::string& name, int32_t value) {
  tensorflow::NodeDef node = NewNode(name, "Const", {});
  auto& attributes = *node.mutable_attr();
  attributes["dtype"].set_type(tensorflow::DT_INT32);
  auto& tensor = *attributes["value"].mutable_tensor();
  tensor.set_dtype(tensorflow::DT_INT32);
  tensor.mutable_tensor_shape();
  tensor.add_int_val(value);
  return node;
}

// A node that makes a tensor list, from the inputs of its op.
inline tensorflow::NodeDef NewList(const std::string& name, const char* op,
                                   const std::vector<std::string>& inputs,
                                   tensorflow::DataType element) {
  tensorflow::NodeDef node = NewNode(name, op, inputs);
  (*node.mutable_attr())["element_dtype"].set_type(element);
  (*node.mutable_attr())["shape_type"].set_type(tensorflow::DT_INT32);
  return node;
}

// A node that stacks a tensor list. shape: of the elements.
inline tensorflow::NodeDef NewStack(const std::string& name,
                                    const std::string& list,
                                    const std::string& shape,
                                    tensorflow::DataType element) {
  tensorflow::NodeDef node = NewNode(name, "TensorListStack", {list, shape});
  (*node.mutable_attr())["element_dtype"].set_type(element);
  (*node.mutable_attr())["num_elements"].set_i(-1);
  return node;
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_LOOPS_NODE_DEFS_H_
