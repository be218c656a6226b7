// How ops take their inputs: by name, and of the shape that they should be.

#ifndef TF_RNN_OPS_CC_CALLS_READ_INPUT_H_
#define TF_RNN_OPS_CC_CALLS_READ_INPUT_H_

#include <string>

#include "cc/calls/array.h"
#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"

namespace tf_rnn_ops {

// Refuses an array, the argument `name`, that has not the expected shape.
// meaning: what the shape's dimensions are.
inline Status CheckShape(const std::string& name, const std::string& meaning,
                         const Shape& expected, const Array& array) {
  if (array.shape.Fits(expected)) return Status();
  return InvalidArgument(name, " must be ", meaning, " = ", expected.ToString(),
                         ", but is ", array.shape.ToString());
}

// Finds an input, and refuses it if it has not the expected shape.
inline Status ReadInput(CallFrame* frame, const char* name,
                        const std::string& meaning, const Shape& expected,
                        Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput(name, array));
  return CheckShape(name, meaning, expected, *array);
}

// Refuses an array whose elements lie at addresses that C++ has none of their
// type at. Other libraries lend frameworks memory that lies anywhere.
inline Status CheckAddress(const std::string& name, const Array& array) {
  if (array.num_elements == 0) return Status();
  const auto address = reinterpret_cast<std::uintptr_t>(array.data);
  const std::int64_t size = array.num_bytes / array.num_elements;
  if (address % size == 0) return Status();
  return InvalidArgument(name, " must start at a multiple of ", size,
                         " bytes, the size of its elements, but starts ",
                         address % size, " past one");
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_READ_INPUT_H_
