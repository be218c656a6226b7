// Products of matrices of integers, on one thread. Sums are exact.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_PRODUCT_H_

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/rnn/simd/matmul/amx_product.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/quantized_matrix.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The speed of these products relative to those of float, about.
#if defined(__AVX512VNNI__)
constexpr std::int64_t kQuantizedSpeed = 8;
#else
constexpr std::int64_t kQuantizedSpeed = 2;
#endif

// sums + left * right, for each lane. left: kQuantizedTerms elements, as
// stored; right: kQuantizedTerms elements for each lane.
TF_RNN_OPS_VECTOR_INLINE Sums AddQuantizedTerms(Sums sums,
                                                const std::int8_t* left,
                                                const std::int8_t* right) {
#if defined(__SSE2__)
  std::int32_t elements;
  std::memcpy(&elements, left, sizeof(elements));
#endif
#if defined(__AVX512VNNI__)
  return (Sums)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(elements),
                                   _mm512_loadu_si512(right));
#elif defined(__AVX512F__)
  const __m512i a = _mm512_set1_epi32(elements);
  const __m512i b = _mm512_loadu_si512(right);
  const auto odd = [](__m512i x) { return _mm512_srai_epi16(x, 8); };
  const auto even = [&](__m512i x) { return odd(_mm512_slli_epi16(x, 8)); };
  return sums + (Sums)_mm512_madd_epi16(even(a), even(b)) +
         (Sums)_mm512_madd_epi16(odd(a), odd(b));
#elif defined(__AVX2__)
  const __m256i a = _mm256_set1_epi32(elements);
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(right));
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
  return sums + (Sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__aarch64__)
  std::int32_t elements;
  std::memcpy(&elements, left, sizeof(elements));
  const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(elements));
  const int8x16_t b = vld1q_s8(right);
  const int16x8_t pairs =
      vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
  return (Sums)vpadalq_s16((int32x4_t)sums, pairs);
#elif defined(__SSE2__)
  const __m128i a = _mm_set1_epi32(elements);
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(right));
  const auto odd = [](__m128i x) { return _mm_srai_epi16(x, 8); };
  const auto even = [&](__m128i x) { return odd(_mm_slli_epi16(x, 8)); };
  return sums + (Sums)_mm_madd_epi16(even(a), even(b)) +
         (Sums)_mm_madd_epi16(odd(a), odd(b));
#else
  for (std::int64_t lane = 0; lane < kVectorElements<std::int32_t>; ++lane) {
    for (std::int64_t i = 0; i < kQuantizedTerms; ++i) {
      sums[lane] += left[i] * right[lane * kQuantizedTerms + i];
    }
  }
  return sums;
#endif
}

// The arguments of a tile.
struct QuantizedTile {
  const std::int8_t* left;
  std::int64_t left_stride;
  const float* left_scales;
  const std::int8_t* right;
  std::int64_t right_stride;  // between blocks
  const float* right_scales;
  const std::int32_t* right_sums;
  std::int64_t num_terms;
  const float* initial;  // or null
  std::int64_t initial_stride;
  float* out;
  std::int64_t out_stride;
};

// A tile of out = initial + left * right, as MultiplyTile.
template <int kRows, int kVectors>
__attribute__((noinline)) void MultiplyQuantizedTile(const QuantizedTile& a) {
  constexpr std::int64_t kLanes = kVectorElements<float>;
  Sums sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const Sums initial = Load<std::int32_t>(a.right_sums + v * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sums[i][v] = initial;
  }
  const std::int8_t* left = a.left;
  const std::int8_t* right = a.right;
  for (std::int64_t k = 0; k < a.num_terms; ++k) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] =
            AddQuantizedTerms(sums[i][v], left + i * a.left_stride,
                              right + v / kTileVectors * a.right_stride +
                                  v % kTileVectors * kVectorBytes);
      }
    }
    left += kQuantizedTerms;
    right += kTileVectors * kVectorBytes;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t col = v * kLanes;
      StoreScaled(sums[i][v], a.right_scales + col, a.left_scales[i],
                  a.initial == nullptr ? nullptr
                                       : a.initial + i * a.initial_stride + col,
                  a.out + i * a.out_stride + col);
    }
  }
}

#if defined(__AVX512F__)
constexpr std::int64_t kMostQuantizedRows = kMaxTileRows;
#else
constexpr std::int64_t kMostQuantizedRows = 4;
#endif

template <int kRows, std::size_t... i>
constexpr std::array<void (*)(const QuantizedTile&), kWidest>
QuantizedTileWidths(std::index_sequence<i...>) {
  return {&MultiplyQuantizedTile<kRows, int{i + 1} * int{kTileVectors}>...};
}
template <std::size_t... i>
constexpr std::array<std::array<void (*)(const QuantizedTile&), kWidest>,
                     sizeof...(i)>
QuantizedTileTable(std::index_sequence<i...>) {
  return {QuantizedTileWidths<int{i + 1}>(
      std::make_index_sequence<MostWidth(i + 1)>())...};
}

// The product of vectors.
inline void MultiplyQuantizedVectors(const QuantizedLeft& left,
                                     const QuantizedRight& right,
                                     const MatrixView<const float>& initial,
                                     const MatrixView<float>& out) {
  static constexpr auto kTable =
      QuantizedTileTable(std::make_index_sequence<kMostQuantizedRows>());
  assert(left.depth == right.depth);
  const RowTiles<kMostQuantizedRows> tiles(left.rows);
  const std::int64_t most_width = MostWidth(left.rows);
  for (std::int64_t col = 0; col < out.cols;) {
    const std::int64_t width =
        Min(most_width, (out.cols - col) / QuantizedRight::kCols);
    for (std::int64_t i = 0; i < tiles.size(); ++i) {
      const std::int64_t row = tiles.begin(i);
      const QuantizedRight block =
          right.Cols(col, width * QuantizedRight::kCols);
      kTable[tiles.rows(i) - 1][width - 1](
          {left.Row(row), left.stride, left.scales + row, block.data,
           block.stride, block.scales, block.sums,
           CeilDiv(left.depth, kQuantizedTerms),
           initial.data == nullptr ? nullptr : initial.At(row, col),
           initial.stride, out.At(row, col), out.stride});
    }
    col += width * QuantizedRight::kCols;
  }
}

// out = initial + left * right. initial: see Multiply. The bits do not depend
// on how the product is computed.
inline void MultiplyQuantized(const QuantizedLeft& left,
                              const QuantizedRight& right,
                              const MatrixView<const float>& initial,
                              const MatrixView<float>& out) {
#if defined(__AMX_TILE__)
  constexpr std::int64_t kLeastRows = 2;
  if (left.rows >= kLeastRows) {
    AmxMultiplyQuantized(left, right, initial, out);
    return;
  }
#endif
  MultiplyQuantizedVectors(left, right, initial, out);
}

// The same for numbers of two digits.
inline void MultiplyQuantized(const TwoDigitLeft& left,
                              const TwoDigitRight& right,
                              const MatrixView<const float>& initial,
                              const MatrixView<float>& out) {
  MultiplyQuantized(left.high, right.high, initial, out);
  MultiplyQuantized(left.cross, right.cross, Constant(out), out);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_QUANTIZED_PRODUCT_H_
