// The signatures of the ops: their arguments and attributes, with
// documentation, and what else is known of an op. Op definitions, handlers, the
// registration of kernels and the tables in Python follow from them and from
// the list of bodies (bodies.h).

#ifndef TF_RNN_OPS_CC_OPS_SIGNATURE_H_
#define TF_RNN_OPS_CC_OPS_SIGNATURE_H_

#include <string>
#include <string_view>
#include <vector>

namespace tf_rnn_ops {

// An input or output.
struct Argument {
  std::string name;
  // With the shape.
  std::string doc;
  // The element type, or the attribute that holds it.
  const char* type = "T";
  // For a list, the attribute with the number of its arrays; else null.
  const char* count = nullptr;
  // Whether it is in host memory on every device.
  bool is_on_host = false;
  // Whether sizes of outputs depend on the values of this input. Such inputs
  // come first, and are no lists.
  bool is_size = false;
  // Whether it holds weights, which an op packs only once if they are constants
  // of a graph.
  bool is_weight = false;
  // Whether it is data of a forward op for its gradient. Its size and contents
  // depend on the device, and nothing but these ops reads it.
  bool is_opaque = false;
};
using Arguments = std::vector<Argument>;

struct Attribute {
  // Name, type and default, in the syntax of TensorFlow's REGISTER_OP.
  std::string definition;
  // Empty for element types.
  std::string doc;
};

// TensorFlow's op of the same name, if there is one.
enum class BuiltinOp { kNone, kRunsOnGpusOnly, kRunsOnCpus };

struct Signature {
  // Without a prefix.
  std::string name;
  std::string summary;
  // More documentation; may be empty.
  std::string doc;
  Arguments inputs, outputs;
  std::vector<Attribute> attributes;
  // The attribute that holds the element type that the op runs on.
  const char* type_attribute = "T";
  // Whether two calls with the same inputs may have different results.
  bool is_stateful = false;
  BuiltinOp builtin = BuiltinOp::kNone;
  // Whether it has GPU kernels. Every op has CPU kernels.
  bool runs_on_gpus = false;
};

// All ops but AlignTensor, which has no body in this folder.
const std::vector<Signature>& Signatures();

// The signature of an op; it must exist.
const Signature& FindSignature(std::string_view name);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_SIGNATURE_H_
