#include "absl/status/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::InferenceContext;

REGISTER_OP("TfRnnOps>AlignTensor")
    .Attr("T: {bfloat16, half, float, double}")
    .Input("tensor: T")
    .Output("aligned: T")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(0));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Copies a tensor that other ops would abort on.

Most of TensorFlow's own ops end the process where a tensor's memory is not
aligned to 64 bytes, as that of another library need not be. Gradients that are
made of such ops begin and end with this one, and conversions of weights begin
with it.

tensor: A tensor of any shape.
aligned: The same: the tensor itself if it is aligned, or a copy that is.
)doc");

}  // namespace
}  // namespace tf_rnn_ops
