// Overflow-checked integer arithmetic.

#ifndef TF_RNN_OPS_CC_RNN_CHECKED_MATH_H_
#define TF_RNN_OPS_CC_RNN_CHECKED_MATH_H_

#include <cstdint>

namespace tf_rnn_ops::rnn {

// An integer that records whether computing it overflowed. Zero times an
// overflowed value is zero.
class CheckedInt {
 public:
  // Implicit, so that plain sizes convert to checked ones.
  CheckedInt(std::int64_t value) : value_(value) {}

  bool valid() const { return valid_; }
  std::int64_t value() const { return value_; }

  friend CheckedInt operator+(CheckedInt a, CheckedInt b) {
    CheckedInt sum(0);
    sum.valid_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) &&
                 a.valid_ && b.valid_;
    return sum;
  }
  friend CheckedInt operator*(CheckedInt a, CheckedInt b) {
    CheckedInt product(0);
    if (a.is_nothing() || b.is_nothing()) return product;
    product.valid_ =
        !__builtin_mul_overflow(a.value_, b.value_, &product.value_) &&
        a.valid_ && b.valid_;
    return product;
  }

 private:
  bool is_nothing() const { return valid_ && value_ == 0; }

  std::int64_t value_;
  bool valid_ = true;
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_CHECKED_MATH_H_
