#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace tf_rnn_ops {
namespace {

REGISTER_OP("TfRnnOps>FunctionCaller")
    .Attr("shapes: list(shape) >= 0")
    .Input("function: string")
    .Output("caller: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Makes what CallInThread needs to call a function.

shapes: The shapes of its arguments, as far as they are known.
function: A serialized FunctionDef, which calls no other functions.
caller: Keeps the function until no tensor refers to it.
)doc");

REGISTER_OP("TfRnnOps>CallInThread")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Input("caller: resource")
    .Input("arguments: Tin")
    .Output("results: Tout")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Calls a function in the thread that executes this op.

TensorFlow's own calls hand a function over to another thread and wait for it,
which takes longer than a small function.

caller: The function, from FunctionCaller.
arguments: Its arguments.
results: Its results.
)doc");

}  // namespace
}  // namespace tf_rnn_ops
