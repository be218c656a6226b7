#include "absl/status/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_rnn_ops {
namespace {

using ::tensorflow::shape_inference::InferenceContext;

REGISTER_OP("TfRnnOps>AlignTensor")
    .Attr("T: {bfloat16, half, float, double, bool}")
    .Input("tensor: T")
    .Output("aligned: T")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(0));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Aligns the memory of a tensor to 64 bytes.

Most TensorFlow ops abort the process if the memory of a tensor is not aligned
to 64 bytes. Memory that another library owns may not be. Gradients composed of
such ops start and end with this op; weight conversions start with it.

tensor: A tensor of any shape.
aligned: The tensor itself if it is aligned, else an aligned copy.
)doc");

}  // namespace
}  // namespace tf_rnn_ops
