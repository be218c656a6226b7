// Sizes that arguments of an op share, and shapes in terms of them. The same
// code checks the inputs of a call and, where sizes are still unknown, infers
// shapes.

#ifndef TF_RNN_OPS_CC_OPS_SIZES_H_
#define TF_RNN_OPS_CC_OPS_SIZES_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// A size, for example of the batch. Negative while unknown: kAnySize, or the
// number of an unknown size that CallFrame::FindInput returned.
class Size {
 public:
  // name: as in the documentation of the op.
  explicit Size(const char* name, std::int64_t value = kAnySize)
      : name_(name), value_(value) {}

  const char* name() const { return name_; }
  bool is_known() const { return value_ >= 0; }
  std::int64_t value() const { return value_; }
  void set(std::int64_t value) { value_ = value; }

 private:
  const char* name_;
  std::int64_t value_;
};

// A dimension of an argument: a size, a multiple of a size, or the sum of two.
// While both sizes of a sum are unknown, it has any value.
class Dimension {
 public:
  // Implicit, so that a size is a dimension.
  Dimension(Size& size) : first_(&size) {}
  Dimension(Size& first, Size& second) : first_(&first), second_(&second) {}
  // name: of the factor; null for the number.
  Dimension(std::int64_t factor, Size& size, const char* name = nullptr)
      : first_(&size), factor_(factor), factor_name_(name) {}

  // For example "2 * cell_size".
  std::string name() const;
  // kAnySize if it is unknown, kTooLarge if it overflows.
  std::int64_t value() const;
  // Sets the unknown size, if there is only one, so that the dimension has this
  // value. Returns whether that is possible.
  bool Solve(std::int64_t value) const;
  // "a multiple of num_directions = 2", or empty if any value is possible.
  std::string Multiple() const;

  static constexpr std::int64_t kTooLarge =
      std::numeric_limits<std::int64_t>::min();

 private:
  Size* first_;
  Size* second_ = nullptr;
  std::int64_t factor_ = 1;
  const char* factor_name_ = nullptr;
};

using Dimensions = std::initializer_list<Dimension>;

// The shape with the values of these dimensions.
Shape ShapeOf(Dimensions dimensions);

// Rejects an argument whose shape does not have these dimensions. Sets unknown
// sizes that follow from the shape.
Status MatchShape(std::string_view name, Dimensions dimensions,
                  const Array& array);

// Finds an input and matches its shape. Completes a shape that is not known.
Status ReadInput(CallFrame* frame, const char* name, Dimensions dimensions,
                 Array* array);

// Calls read(), which reads all inputs. Calls it three times if sizes may be
// unknown: the first finds sizes that are dimensions or multiples, the second
// those that follow from sums, the third completes the shapes of all inputs.
template <typename Read>
Status ReadAll(const CallFrame& frame, const Read& read) {
  const int times = frame.has_values() ? 1 : 3;
  for (int i = 0; i < times; ++i) TF_RNN_OPS_RETURN_IF_ERROR(read());
  return Status();
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_SIZES_H_
