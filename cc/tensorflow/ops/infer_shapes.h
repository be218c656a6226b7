// The shape function of the ops.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_OPS_INFER_SHAPES_H_
#define TF_RNN_OPS_CC_TENSORFLOW_OPS_INFER_SHAPES_H_

#include "absl/status/status.h"
#include "cc/ops/signature.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_rnn_ops {

// Infers the shapes of an op's outputs, and rejects wrong inputs, with the code
// that checks the inputs of a call.
absl::Status InferShapes(const Signature& op,
                         tensorflow::shape_inference::InferenceContext* c);

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_OPS_INFER_SHAPES_H_
