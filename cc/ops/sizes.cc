#include "cc/ops/sizes.h"

#include <cstddef>
#include <string>
#include <vector>

#include "cc/ops/arguments.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/join.h"

namespace tf_rnn_ops {
namespace {

// For example "[batch, 2 * cell_size]".
std::string NamesOf(Dimensions dimensions) {
  std::string names;
  for (const Dimension& dimension : dimensions) {
    names += (names.empty() ? "" : ", ") + dimension.name();
  }
  return "[" + names + "]";
}

Status WrongSizes(std::string_view name, Dimensions dimensions,
                  const Array& array) {
  return WrongShape(name, NamesOf(dimensions), ShapeOf(dimensions), array);
}

// Rejects sizes that differ from known ones.
Status CheckSizes(std::string_view name, Dimensions dimensions,
                  const Array& array) {
  const Shape& shape = array.shape;
  if (shape.rank() != static_cast<int>(dimensions.size())) {
    return WrongSizes(name, dimensions, array);
  }
  for (int i = 0; i < shape.rank(); ++i) {
    const Dimension& dimension = dimensions.begin()[i];
    const std::int64_t expected = dimension.value();
    if (expected == Dimension::kTooLarge) {
      return InvalidArgument(name, " must be smaller: ", dimension.name(),
                             " overflows int64");
    }
    if (expected >= 0 && shape[i] >= 0 && expected != shape[i]) {
      return WrongSizes(name, dimensions, array);
    }
  }
  return Status();
}

}  // namespace

std::string Dimension::name() const {
  if (second_ != nullptr) {
    return rnn::Join(first_->name(), " + ", second_->name());
  }
  if (factor_name_ != nullptr) {
    return rnn::Join(factor_name_, " * ", first_->name());
  }
  if (factor_ != 1) return rnn::Join(factor_, " * ", first_->name());
  return first_->name();
}

std::int64_t Dimension::value() const {
  const bool is_known =
      first_->is_known() && (second_ == nullptr || second_->is_known());
  if (!is_known) {
    const bool is_size = second_ == nullptr && factor_ == 1;
    return is_size ? first_->value() : kAnySize;
  }
  const rnn::CheckedInt product = rnn::CheckedInt(factor_) * first_->value();
  const rnn::CheckedInt sum =
      second_ == nullptr ? product : product + second_->value();
  return sum.valid() ? sum.value() : kTooLarge;
}

bool Dimension::Solve(std::int64_t value) const {
  if (second_ == nullptr && factor_ == 1) {
    // Numbers of unknown sizes are negative, too.
    if (!first_->is_known() && (value >= 0 || first_->value() == kAnySize)) {
      first_->set(value);
    }
    return true;
  }
  if (value < 0) return true;
  if (second_ == nullptr) {
    if (!first_->is_known() && value % factor_ == 0) {
      first_->set(value / factor_);
    }
    return value % factor_ == 0;
  }
  if (first_->is_known() == second_->is_known()) return true;
  Size* const unknown = first_->is_known() ? second_ : first_;
  const Size* const known = first_->is_known() ? first_ : second_;
  if (value < known->value()) return false;
  unknown->set(value - known->value());
  return true;
}

std::string Dimension::Multiple() const {
  if (factor_ == 1) return "";
  return factor_name_ == nullptr
             ? rnn::Join("a multiple of ", factor_)
             : rnn::Join("a multiple of ", factor_name_, " = ", factor_);
}

Shape ShapeOf(Dimensions dimensions) {
  std::int64_t sizes[8];
  std::size_t rank = 0;
  for (const Dimension& dimension : dimensions) {
    sizes[rank++] = dimension.value();
  }
  return Shape(sizes, rank);
}

Status ReadInput(CallFrame* frame, const char* name, Dimensions dimensions,
                 Array* array) {
  TF_RNN_OPS_RETURN_IF_ERROR(frame->FindInput(name, array));
  TF_RNN_OPS_RETURN_IF_ERROR(MatchShape(name, dimensions, *array));
  if (frame->has_values()) return Status();
  std::vector<std::int64_t> sizes;
  for (const Dimension& dimension : dimensions) {
    const std::int64_t value = dimension.value();
    const bool is_unknown = value == kAnySize && array->shape.has_rank();
    sizes.push_back(is_unknown ? array->shape[static_cast<int>(sizes.size())]
                               : value);
  }
  array->shape = Shape(sizes.data(), sizes.size());
  return Status();
}

Status MatchShape(std::string_view name, Dimensions dimensions,
                  const Array& array) {
  const Shape& shape = array.shape;
  if (!shape.has_rank()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(CheckSizes(name, dimensions, array));
  for (int i = 0; i < shape.rank(); ++i) {
    const Dimension& dimension = dimensions.begin()[i];
    if (dimension.Solve(shape[i])) continue;
    const std::string multiple = dimension.Multiple();
    if (multiple.empty()) return WrongSizes(name, dimensions, array);
    return InvalidArgument(name, " must have ", multiple, " as dimension ", i,
                           " (", dimension.name(), "), but has the shape ",
                           shape.ToString());
  }
  // Sizes that only now became known may contradict one another.
  return CheckSizes(name, dimensions, array);
}

}  // namespace tf_rnn_ops
