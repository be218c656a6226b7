// The kernels of arrays.h, for host and device. A kernel is a struct with its
// arguments; Compute computes one element.

#ifndef TF_RNN_OPS_CC_GPU_ARRAYS_DEVICE_H_
#define TF_RNN_OPS_CC_GPU_ARRAYS_DEVICE_H_

#include <cstdint>

#include "cc/gpu/device_math.h"
#include "cc/gpu/dropout_device.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::gpu {

// An array [outer, inner, width] whose rows are dense. Strides are in elements.
struct RowCounts {
  std::int64_t outer;
  std::int64_t inner;
  std::int64_t width;
};
struct RowStrides {
  std::int64_t outer;
  std::int64_t inner;
};

// E: an integer type of the size of an element.
template <typename E>
struct CopyRowsKernel {
  RowCounts counts;
  const E* source;
  RowStrides source_strides;
  E* target;
  RowStrides target_strides;

  std::int64_t num_rows() const { return counts.outer * counts.inner; }
  std::int64_t width() const { return counts.width; }

  void Compute(std::int64_t row, std::int64_t col) const {
    const std::int64_t outer = row / counts.inner;
    const std::int64_t inner = row % counts.inner;
    target[outer * target_strides.outer + inner * target_strides.inner + col] =
        source[outer * source_strides.outer + inner * source_strides.inner +
               col];
  }
};

struct WidenBFloat16Kernel {
  std::int64_t count;
  const rnn::BFloat16* source;
  float* target;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return count; }

  void Compute(std::int64_t, std::int64_t col) const {
    target[col] = ToCompute(source[col]);
  }
};

struct RoundToBFloat16Kernel {
  std::int64_t count;
  const float* source;
  rnn::BFloat16* target;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return count; }

  void Compute(std::int64_t, std::int64_t col) const {
    Round(source[col], &target[col]);
  }
};

// Multiplies rows by a mask. Compute computes up to kColumns columns, which
// share random bits.
template <typename T>
struct ApplyDropoutKernel {
  RowCounts counts;
  const T* source;  // null for ones; may be the target
  T* target;
  RowStrides strides;  // of source and target
  DropoutMask mask;
  std::int64_t mask_offset;  // of the first row in the mask, in elements
  RowStrides mask_strides;

  static constexpr std::int64_t kColumns = 4;

  std::int64_t num_rows() const { return counts.outer * counts.inner; }
  std::int64_t width() const {
    return (counts.width + kColumns - 1) / kColumns;
  }

  void Compute(std::int64_t row, std::int64_t group) const {
    using C = rnn::ComputeType<T>;
    const std::int64_t outer = row / counts.inner;
    const std::int64_t inner = row % counts.inner;
    const std::int64_t array_row =
        outer * strides.outer + inner * strides.inner;
    const std::int64_t mask_row =
        mask_offset + outer * mask_strides.outer + inner * mask_strides.inner;
    const std::int64_t begin = group * kColumns;
    const std::int64_t end =
        begin + kColumns < counts.width ? begin + kColumns : counts.width;
    PhiloxWords random = mask.RandomBits(mask_row + begin);
    for (std::int64_t col = begin; col < end; ++col) {
      const std::int64_t index = mask_row + col;
      if (col > begin && index % 4 == 0) random = mask.RandomBits(index);
      const std::int64_t at = array_row + col;
      C result = 0;
      if (mask.Keeps(random.words[index % 4])) {
        result = (source == nullptr ? C(1) : ToCompute(source[at])) *
                 static_cast<C>(mask.scale);
      }
      Round(result, &target[at]);
    }
  }
};

// Writes bytes that are passed as kernel arguments.
struct WriteBytesKernel {
  static constexpr std::int64_t kWords = 32;

  std::uint64_t words[kWords];
  std::uint64_t* target;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return kWords; }

  void Compute(std::int64_t, std::int64_t col) const {
    target[col] = words[col];
  }
};

// Words, of which those that are NaN or infinite as numbers of their size are
// marked in a bit map and lack the highest bit of the exponent. These are few,
// so that one kernel mostly reads the words, and the other one the bit map.
//
// A thread handles kLength words that are kStride apart, so that the threads of
// a warp access adjacent words. Their marks are in one word of the bit map.
// W: an unsigned integer type of the size of an element.
template <typename W>
struct MarkedWords {
  static constexpr std::int64_t kStride = 32;
  static constexpr std::int64_t kAtOnce = 4;  // independent loads
  // Leaves the highest bits of the marks zero, so that these are finite, too.
  static constexpr std::int64_t kLength = 8 * sizeof(W) - kAtOnce;
  static constexpr W kHighestBit = W(W(1) << (8 * sizeof(W) - 2));
  // The exponent; of 16-bit types, what half and bfloat16 have in common.
  static constexpr W kExponent = sizeof(W) == 2   ? W(0x7c00)
                                 : sizeof(W) == 4 ? W(0x7f800000)
                                                  : W(0x7ff0000000000000);

  std::int64_t count;
  W* words;
  W* marks;

  // Number of words in the bit map.
  static std::int64_t NumMarks(std::int64_t count) {
    constexpr std::int64_t kTile = kStride * kLength;
    return (count + kTile - 1) / kTile * kStride;
  }
  // One thread for each.
  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return NumMarks(count); }

  // Index of a thread's word.
  std::int64_t At(std::int64_t thread, std::int64_t i) const {
    return (thread / kStride * kLength + i) * kStride + thread % kStride;
  }
};

template <typename W>
struct MarkNonFiniteKernel : MarkedWords<W> {
  using Words = MarkedWords<W>;

  void Compute(std::int64_t, std::int64_t thread) const {
    W marks = 0;
    for (std::int64_t i = 0; i < Words::kLength; i += Words::kAtOnce) {
      W words[Words::kAtOnce];
      for (std::int64_t j = 0; j < Words::kAtOnce; ++j) {
        const std::int64_t at = this->At(thread, i + j);
        words[j] = at < this->count ? this->words[at] : W(0);
      }
      for (std::int64_t j = 0; j < Words::kAtOnce; ++j) {
        if ((words[j] & Words::kExponent) != Words::kExponent) continue;
        this->words[this->At(thread, i + j)] =
            W(words[j] & W(~Words::kHighestBit));
        marks = W(marks | W(W(1) << (i + j)));
      }
    }
    this->marks[thread] = marks;
  }
};

template <typename W>
struct RestoreMarkedKernel : MarkedWords<W> {
  using Words = MarkedWords<W>;

  void Compute(std::int64_t, std::int64_t thread) const {
    const W marks = this->marks[thread];
    for (std::int64_t i = 0; marks >> i != 0; ++i) {
      if ((marks >> i & 1) == 0) continue;
      W& word = this->words[this->At(thread, i)];
      word = W(word | Words::kHighestBit);
    }
  }
};

// Calls F(name, Kernel) for every kernel.
#define TF_RNN_OPS_ARRAY_KERNELS(F)                          \
  F(CopyRows16, CopyRowsKernel<std::uint16_t>)               \
  F(CopyRows32, CopyRowsKernel<std::uint32_t>)               \
  F(CopyRows64, CopyRowsKernel<std::uint64_t>)               \
  F(MarkNonFinite16, MarkNonFiniteKernel<std::uint16_t>)     \
  F(MarkNonFinite32, MarkNonFiniteKernel<std::uint32_t>)     \
  F(MarkNonFinite64, MarkNonFiniteKernel<std::uint64_t>)     \
  F(RestoreMarked16, RestoreMarkedKernel<std::uint16_t>)     \
  F(RestoreMarked32, RestoreMarkedKernel<std::uint32_t>)     \
  F(RestoreMarked64, RestoreMarkedKernel<std::uint64_t>)     \
  F(WidenBFloat16, WidenBFloat16Kernel)                      \
  F(WriteBytes, WriteBytesKernel)                            \
  F(RoundToBFloat16, RoundToBFloat16Kernel)                  \
  F(ApplyDropoutHalf, ApplyDropoutKernel<rnn::Half>)         \
  F(ApplyDropoutBFloat16, ApplyDropoutKernel<rnn::BFloat16>) \
  F(ApplyDropoutFloat, ApplyDropoutKernel<float>)            \
  F(ApplyDropoutDouble, ApplyDropoutKernel<double>)

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_ARRAYS_DEVICE_H_
