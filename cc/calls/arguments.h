// How ops take their inputs and make their outputs: by name, and of the shape
// that they should be.

#ifndef TF_RNN_OPS_CC_CALLS_ARGUMENTS_H_
#define TF_RNN_OPS_CC_CALLS_ARGUMENTS_H_

#include <cstdint>
#include <string_view>

#include "cc/calls/array.h"
#include "cc/calls/call_frame.h"
#include "cc/calls/status.h"

namespace tf_rnn_ops {

// Refuses an array, the argument `name`, that has not the expected shape.
// meaning: what the shape's dimensions are.
inline Status CheckShape(std::string_view name, std::string_view meaning,
                         const Shape& expected, const Array& array) {
  if (array.shape.Fits(expected)) return Status();
  return InvalidArgument(name, " must be ", meaning, " = ", expected.ToString(),
                         ", but is ", array.shape.ToString());
}

// Finds an input, and refuses it if it has not the expected shape.
inline Status ReadInput(CallFrame* frame, const char* name,
                        std::string_view meaning, const Shape& expected,
                        Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput(name, array));
  return CheckShape(name, meaning, expected, *array);
}
template <typename E>
Status ReadInput(CallFrame* frame, const char* name, std::string_view meaning,
                 const Shape& expected, const E** data) {
  Array array;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadInput(frame, name, meaning, expected, &array));
  *data = array.As<E>();
  return Status();
}

// Makes an output.
template <typename E>
Status MakeOutput(CallFrame* frame, const char* name, const Shape& shape,
                  E** data) {
  Array array;
  TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeOutput(name, shape, &array));
  *data = array.As<E>();
  return Status();
}

// Refuses an array whose elements lie at addresses that C++ has none of their
// type at. Other libraries lend frameworks memory that lies anywhere.
inline Status CheckAddress(std::string_view name, const Array& array) {
  if (array.num_elements == 0) return Status();
  const auto address = reinterpret_cast<std::uintptr_t>(array.data);
  const std::int64_t size = array.num_bytes / array.num_elements;
  if (address % size == 0) return Status();
  return InvalidArgument(name, " must start at a multiple of ", size,
                         " bytes, the size of its elements, but starts ",
                         address % size, " past one");
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_CALLS_ARGUMENTS_H_
