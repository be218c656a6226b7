// Arrays: the inputs and outputs of a call of an op.

#ifndef TF_RNN_OPS_CC_OPS_ARRAY_H_
#define TF_RNN_OPS_CC_OPS_ARRAY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cc/rnn/join.h"

namespace tf_rnn_ops {

// An unknown size, as all negative ones.
constexpr std::int64_t kAnySize = -1;

// The sizes of the dimensions of an array. It comes from the user and may have
// any rank and any sizes. While a graph is built, sizes and even the rank may
// be unknown.
class Shape {
 public:
  Shape() = default;
  static Shape OfAnyRank() {
    Shape shape;
    shape.has_rank_ = false;
    return shape;
  }
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(sizes.begin(), sizes.size()) {}
  Shape(const std::int64_t* sizes, std::size_t rank) : rank_(rank) {
    if (rank > few_.size()) many_.resize(rank);
    std::copy_n(sizes, rank, data());
  }

  bool has_rank() const { return has_rank_; }
  // 0 if it is unknown.
  int rank() const { return static_cast<int>(rank_); }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + rank_; }

  // The size of a dimension; 0 for a dimension beyond the rank.
  std::int64_t operator[](int dimension) const {
    return dimension < rank() ? data()[dimension] : 0;
  }

  // Whether the sizes equal the expected ones. Unknown sizes fit any size.
  bool Fits(const Shape& expected) const {
    if (!has_rank_ || !expected.has_rank_) return true;
    return std::equal(begin(), end(), expected.begin(), expected.end(),
                      [](std::int64_t size, std::int64_t wanted) {
                        return size < 0 || wanted < 0 || wanted == size;
                      });
  }

  bool is_known() const {
    return has_rank_ && std::all_of(begin(), end(), [](std::int64_t size) {
             return size >= 0;
           });
  }

  // The number of elements, or -1 if it overflows std::int64_t. As in
  // TensorFlow, the other sizes may overflow even if one size is 0. Unknown
  // sizes count as 0.
  std::int64_t NumElements() const {
    std::int64_t count = 1;
    for (const std::int64_t each : *this) {
      const std::int64_t size = std::max<std::int64_t>(each, 0);
      if (__builtin_mul_overflow(count, size, &count)) return -1;
    }
    return count;
  }

  // For example "[2,3]"; "?" for what is unknown.
  std::string ToString() const {
    if (!has_rank_) return "?";
    std::string text = "[";
    for (const std::int64_t size : *this) {
      if (text.size() > 1) text += ",";
      text += size < 0 ? "?" : std::to_string(size);
    }
    return text + "]";
  }

 private:
  const std::int64_t* data() const {
    return rank_ > few_.size() ? many_.data() : few_.data();
  }
  std::int64_t* data() {
    return rank_ > few_.size() ? many_.data() : few_.data();
  }

  bool has_rank_ = true;
  std::size_t rank_ = 0;
  std::array<std::int64_t, 4> few_{};
  std::vector<std::int64_t> many_;  // if rank_ > few_.size()
};

// A dense, row-major array. The caller owns the memory, which is valid during
// the call. Inputs are not written to.
struct Array {
  Shape shape;
  void* data = nullptr;
  // kAnySize if the shape does not determine it.
  std::int64_t num_elements = 0;
  std::int64_t num_bytes = 0;

  // E: the type of the elements.
  template <typename E>
  E* As() const {
    return static_cast<E*>(data);
  }
};

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_ARRAY_H_
