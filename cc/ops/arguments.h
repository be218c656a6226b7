// Reads inputs and makes outputs of ops by name, and checks their shapes.

#ifndef TF_RNN_OPS_CC_OPS_ARGUMENTS_H_
#define TF_RNN_OPS_CC_OPS_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The error for an array, the argument `name`, of another shape than expected.
// meaning: the names of the expected dimensions, such as "[batch, time]".
inline Status WrongShape(std::string_view name, std::string_view meaning,
                         const Shape& expected, const Array& array) {
  return InvalidArgument(name, " must have the shape ", meaning, " = ",
                         expected.ToString(), ", but has ",
                         array.shape.ToString());
}

// Rejects an array that does not have the expected shape.
inline Status CheckShape(std::string_view name, std::string_view meaning,
                         const Shape& expected, const Array& array) {
  return array.shape.Fits(expected)
             ? Status()
             : WrongShape(name, meaning, expected, array);
}

// Finds an input and rejects it if it does not have the expected shape.
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

// Whether to compute an output.
// skip: the names of outputs not to compute.
inline bool IsWanted(const CallFrame& frame,
                     const std::vector<std::string>& skip, const char* output) {
  return std::find(skip.begin(), skip.end(), output) == skip.end() &&
         frame.IsWanted(output);
}

// Rejects a sequence without features that has more steps than any real one.
// Such a sequence needs no memory, so nothing else limits the time it takes.
inline Status CheckNumSteps(std::string_view name, std::int64_t num_steps,
                            const Array& sequence) {
  constexpr std::int64_t kMost = std::int64_t{1} << 27;
  if (sequence.num_elements != 0 || num_steps <= kMost) return Status();
  return InvalidArgument(name, " must have at most ", kMost,
                         " steps if it has no features, but has the shape ",
                         sequence.shape.ToString());
}

// Rejects an array that is not aligned to its element size, which C++ requires.
// Memory that a framework borrows from other libraries may have any address.
inline Status CheckAddress(std::string_view name, const Array& array) {
  if (array.num_elements == 0) return Status();
  const auto address = reinterpret_cast<std::uintptr_t>(array.data);
  const std::int64_t size = array.num_bytes / array.num_elements;
  if (address % size == 0) return Status();
  return InvalidArgument(
      name, " must be aligned to ", size,
      " bytes, the size of its elements, but its address modulo ", size, " is ",
      address % size, ". Pass an aligned copy.");
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_ARGUMENTS_H_
