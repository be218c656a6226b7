// Shape checks for shape functions.

#ifndef TF_RNN_OPS_CC_TENSORFLOW_OPS_MERGE_SHAPE_H_
#define TF_RNN_OPS_CC_TENSORFLOW_OPS_MERGE_SHAPE_H_

#include <exception>
#include <new>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tf_rnn_ops {

// The shape function, with an error instead of an exception, which TensorFlow
// does not catch.
template <typename ShapeFunction>
auto CatchExceptions(ShapeFunction function) {
  return [function](tensorflow::shape_inference::InferenceContext* c) {
    try {
      return function(c);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("");  // needs no memory
    } catch (const std::exception& error) {
      return absl::InternalError(error.what());
    }
  };
}

// The shape of the first tensor of an input; unknown if there is none.
inline tensorflow::shape_inference::ShapeHandle InputShape(
    tensorflow::shape_inference::InferenceContext* c, const char* name) {
  std::vector<tensorflow::shape_inference::ShapeHandle> shapes;
  const absl::Status status = c->input(name, &shapes);
  return status.ok() ? shapes[0] : c->UnknownShape();
}

// Merges the shape of the argument `name` with the expected shape.
// meaning: the names of the expected dimensions, for the error message.
inline absl::Status MergeShape(
    tensorflow::shape_inference::InferenceContext* c, absl::string_view name,
    absl::string_view meaning, tensorflow::shape_inference::ShapeHandle actual,
    tensorflow::shape_inference::ShapeHandle expected,
    tensorflow::shape_inference::ShapeHandle* merged) {
  if (c->Merge(actual, expected, merged).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " must have the shape ", meaning, " = ", c->DebugString(expected),
      ", but has ", c->DebugString(actual)));
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_TENSORFLOW_OPS_MERGE_SHAPE_H_
