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

// Words of which no one is NaN or infinite as a number of its size, and where
// the bits for this come from: the highest bit of the exponent of each word is
// moved to another array, where each word holds those of a group.
// W: an unsigned integer type of the size of an element.
template <typename W>
struct ExponentBits {
  static constexpr int kBit = 8 * sizeof(W) - 2;
  static constexpr std::int64_t kGroup = kBit;

  std::int64_t count;  // of words
  W* bits;

  std::int64_t num_groups() const { return (count + kGroup - 1) / kGroup; }
  // Calls function(index of a word, index of its bit) for a group.
  template <typename Function>
  void ForEachOf(std::int64_t group, const Function& function) const {
    const std::int64_t first = group * kGroup;
    for (int i = 0; i < kGroup && first + i < count; ++i) {
      function(first + i, i);
    }
  }
};

template <typename W>
struct MoveExponentBitsKernel {
  ExponentBits<W> exponents;
  W* words;

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return exponents.num_groups(); }

  void Compute(std::int64_t, std::int64_t group) const {
    constexpr W kMask = W(1) << ExponentBits<W>::kBit;
    W bits = 0;
    exponents.ForEachOf(group, [&](std::int64_t at, int i) {
      const W word = words[at];
      bits |= W((word & kMask) != 0) << i;
      words[at] = word & W(~kMask);
    });
    exponents.bits[group] = bits;
  }
};

template <typename W>
struct RestoreExponentBitsKernel {
  ExponentBits<W> exponents;
  const W* words;
  W* target;  // may be `words`

  std::int64_t num_rows() const { return 1; }
  std::int64_t width() const { return exponents.num_groups(); }

  void Compute(std::int64_t, std::int64_t group) const {
    const W bits = exponents.bits[group];
    exponents.ForEachOf(group, [&](std::int64_t at, int i) {
      target[at] = words[at] | W(W(bits >> i & 1) << ExponentBits<W>::kBit);
    });
  }
};

// Calls F(name, Kernel) for every kernel.
#define TF_RNN_OPS_ARRAY_KERNELS(F)                                  \
  F(CopyRows16, CopyRowsKernel<std::uint16_t>)                       \
  F(CopyRows32, CopyRowsKernel<std::uint32_t>)                       \
  F(CopyRows64, CopyRowsKernel<std::uint64_t>)                       \
  F(MoveExponentBits16, MoveExponentBitsKernel<std::uint16_t>)       \
  F(MoveExponentBits32, MoveExponentBitsKernel<std::uint32_t>)       \
  F(MoveExponentBits64, MoveExponentBitsKernel<std::uint64_t>)       \
  F(RestoreExponentBits16, RestoreExponentBitsKernel<std::uint16_t>) \
  F(RestoreExponentBits32, RestoreExponentBitsKernel<std::uint32_t>) \
  F(RestoreExponentBits64, RestoreExponentBitsKernel<std::uint64_t>) \
  F(WidenBFloat16, WidenBFloat16Kernel)                              \
  F(WriteBytes, WriteBytesKernel)                                    \
  F(RoundToBFloat16, RoundToBFloat16Kernel)                          \
  F(ApplyDropoutHalf, ApplyDropoutKernel<rnn::Half>)                 \
  F(ApplyDropoutBFloat16, ApplyDropoutKernel<rnn::BFloat16>)         \
  F(ApplyDropoutFloat, ApplyDropoutKernel<float>)                    \
  F(ApplyDropoutDouble, ApplyDropoutKernel<double>)

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_ARRAYS_DEVICE_H_
