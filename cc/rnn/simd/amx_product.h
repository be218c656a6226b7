// Products of bfloat16 matrices, added up in float, by the CPU's tile unit
// (AMX).

#ifndef TF_RNN_OPS_CC_RNN_SIMD_AMX_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_AMX_PRODUCT_H_

#if defined(__AMX_BF16__)

#include <immintrin.h>

#include <cstdint>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/simd/block_product.h"
#include "cc/rnn/simd/matrix_view.h"
#include "cc/rnn/simd/pack.h"
#include "cc/rnn/simd/tile_product.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// A right operand, in blocks of 32 columns with pairs of rows interleaved:
// [blocks, pairs of rows, 32, 2]. Each block has rows up to a multiple of 32;
// what it has beyond the matrix is zero. S: BFloat16 or const BFloat16.
template <typename S>
struct PairMatrix {
  static constexpr std::int64_t kCols = 32;
  static constexpr std::int64_t kRowsMultiple = 32;

  S* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t stride;  // from block to block

  PairMatrix() : PairMatrix(nullptr, 0, 0) {}
  PairMatrix(S* data, std::int64_t rows, std::int64_t cols)
      : PairMatrix(data, rows, cols,
                   CeilDiv(rows, kRowsMultiple) * kRowsMultiple * kCols) {}
  PairMatrix(S* data, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  operator PairMatrix<const S>() const { return {data, rows, cols, stride}; }

  static CheckedInt Size(CheckedInt rows, std::int64_t cols) {
    const std::int64_t rest = rows.value() % kRowsMultiple;
    return (rows + (rest == 0 ? 0 : kRowsMultiple - rest)) *
           CeilDiv(cols, kCols) * kCols;
  }

  std::int64_t num_blocks() const { return CeilDiv(cols, kCols); }
  S* At(std::int64_t row, std::int64_t col) const {
    return data + col / kCols * stride + row / 2 * 2 * kCols + col % kCols * 2 +
           row % 2;
  }
  // From an even row on.
  PairMatrix Rows(std::int64_t row, std::int64_t num_rows) const {
    return {At(row, 0), num_rows, cols, stride};
  }
  // From a block's first column on.
  PairMatrix Cols(std::int64_t col, std::int64_t num_cols) const {
    return {At(0, col), rows, num_cols, stride};
  }
};
template <>
struct RightMatrixOf<BFloat16> {
  using Type = PairMatrix<const BFloat16>;
  using Mutable = PairMatrix<BFloat16>;
};

// Interleaves two vectors of 16-bit elements.
inline void Interleave(__m512i a, __m512i b, BFloat16* to) {
  alignas(64) static constexpr struct Indices {
    constexpr Indices() {
      for (int i = 0; i < 64; ++i) element[i] = i / 2 + i % 2 * 32;
    }
    std::uint16_t element[64] = {};
  } kIndices;
  const __m512i low = _mm512_load_si512(kIndices.element);
  const __m512i high = _mm512_load_si512(kIndices.element + 32);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
  _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi16(a, high, b));
}

// 16 pairs of elements, as what a float takes.
inline Vector<float> LoadPairs(const BFloat16* from) {
  return (Vector<float>)_mm512_loadu_si512(from);
}

// The elements of a row from a block's first column on, and zeros; only zeros
// past the last row.
template <typename Rows>
__m512i LoadRow(const Rows& from, std::int64_t row, std::int64_t col) {
  BFloat16 elements[PairMatrix<BFloat16>::kCols] = {};
  if (row < from.rows) {
    Convert(from.Row(row) + col, elements,
            Min(PairMatrix<BFloat16>::kCols, from.cols - col));
  }
  return _mm512_loadu_si512(elements);
}

// Packs `count` rows from a block's first on: to = from, of the same size;
// rounded to nearest.
template <typename Rows>
void PackRows(const Rows& from, std::int64_t first, std::int64_t count,
              const PairMatrix<BFloat16>& to) {
  constexpr std::int64_t kMultiple = PairMatrix<BFloat16>::kRowsMultiple;
  const std::int64_t end = first + CeilDiv(count, kMultiple) * kMultiple;
  for (std::int64_t row = first; row < end; row += 2) {
    PrefetchRowAfter(from, row);
    PrefetchRowAfter(from, row + 1);
    for (std::int64_t col = 0; col < from.cols; col += to.kCols) {
      Interleave(LoadRow(from, row, col), LoadRow(from, row + 1, col),
                 to.At(row, col));
    }
  }
}

// to = from^T, for one block: from has at most 32 rows, and to as many rows as
// from has columns. Pairs of rows of `to` are pairs of neighbours in from's.
inline void PackTransposed(const MatrixView<const BFloat16>& from,
                           const PairMatrix<BFloat16>& to) {
  constexpr std::int64_t kMultiple = PairMatrix<BFloat16>::kRowsMultiple;
  constexpr std::int64_t kLanes = kVectorElements<float>;
  const std::int64_t rows = CeilDiv(from.cols, kMultiple) * kMultiple;
  std::int64_t k = 0;
  if (from.rows == to.kCols) {
    for (; k + 2 * kLanes <= from.cols; k += 2 * kLanes) {
      for (std::int64_t j = 0; j < to.kCols; j += kLanes) {
        Vector<float> pairs[kLanes];
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          pairs[i] = LoadPairs(from.At(j + i, k));
        }
        Transpose<float>(pairs);
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < kLanes; ++i) {
          _mm512_storeu_si512(to.At(k + 2 * i, j), (__m512i)pairs[i]);
        }
      }
    }
  }
  for (; k < rows; ++k) {
    for (std::int64_t j = 0; j < to.kCols; ++j) {
      *to.At(k, j) =
          j < from.rows && k < from.cols ? *from.At(j, k) : BFloat16{0};
    }
  }
}

// to = from^T, for the rows of `to` that are the columns of one block of
// `from`: `from` has at most kLeftCols columns.
inline void PackTransposed(const LeftMatrix<BFloat16>& from,
                           const MutableLeftMatrix<BFloat16>& to) {
  constexpr std::int64_t kLanes = kVectorElements<float>;
  alignas(64) static constexpr struct Indices {
    constexpr Indices() {
      for (int i = 0; i < 64; ++i) element[i] = i % 32 * 2 + i / 32;
    }
    std::uint16_t element[64] = {};
  } kIndices;
  const __m512i even = _mm512_load_si512(kIndices.element);
  const __m512i odd = _mm512_load_si512(kIndices.element + 32);
  for (std::int64_t row = 0; row < from.rows; row += 2 * kLanes) {
    // [16 pairs of columns, 32 rows]
    Vector<float> pairs[2][kLanes];
    for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < kLanes; ++i) {
        const std::int64_t from_row = row + half * kLanes + i;
        pairs[half][i] = from_row < from.rows ? LoadPairs(from.At(from_row, 0))
                                              : Vector<float>{};
      }
      Transpose<float>(pairs[half]);
    }
    for (std::int64_t j = 0; j < from.cols; ++j) {
      const __m512i a = (__m512i)pairs[0][j / 2];
      const __m512i b = (__m512i)pairs[1][j / 2];
      _mm512_storeu_si512(to.At(j, row), _mm512_permutex2var_epi16(
                                             a, j % 2 == 0 ? even : odd, b));
    }
  }
}

// The shapes of the tiles of a product of some rows, in the tile registers
//
//          | right 6 | right 7 |
//   -------+---------+---------+
//   left 4 |  sum 0  |  sum 1  |   up to 16 rows, of 16 sums or 32 factors
//   left 5 |  sum 2  |  sum 3  |   the rows beyond 16
//
// `right`: 16 pairs of rows, of 16 columns.
class TileShapes {
 public:
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kMostRows = 2 * kRows;

  // rows: 1 to kMostRows.
  explicit TileShapes(std::int64_t rows) {
    const std::int64_t upper = Min(rows, kRows);
    const std::int64_t lower = Max(rows - kRows, 1);
    for (int tile : {0, 1, 4}) Set(tile, upper);
    for (int tile : {2, 3, 5}) Set(tile, lower);
    for (int tile : {6, 7}) Set(tile, kRows);
    _tile_loadconfig(&config_);
  }
  ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;

 private:
  void Set(int tile, std::int64_t rows) {
    config_.rows[tile] = static_cast<std::uint8_t>(rows);
    config_.row_bytes[tile] = 64;
  }

  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config_;
};

// What a tile of a product is made from: a chunk of the depth.
struct TileFactors {
  static constexpr std::int64_t kLine = 32;  // elements of a cache line
  // The lines of a right operand that a tile reads with each step of the depth.
  static constexpr std::int64_t kLines = PairMatrix<BFloat16>::kCols;

  LeftMatrix<BFloat16> left;
  RightMatrix<BFloat16> right;
  // What the CPU is to fetch meanwhile: so many lines with each step.
  const BFloat16* next;
  std::int64_t next_lines;
};

template <>
inline constexpr std::int64_t kWholeTileRows<BFloat16> = TileShapes::kMostRows;

// Rows of 32 columns: out = initial + left * right, with the shapes of
// TileShapes in place. kLower: whether there are more than 16 rows.
template <bool kLower>
void MultiplyTiles(const TileFactors& factors,
                   const MatrixView<const float>& initial,
                   const MatrixView<float>& out) {
  constexpr std::int64_t kHalf = 16;  // columns of a tile of sums
  if (initial.data == nullptr) {
    _tile_zero(0);
    _tile_zero(1);
    if (kLower) _tile_zero(2);
    if (kLower) _tile_zero(3);
  } else {
    const std::int64_t stride = initial.stride * 4;
    _tile_loadd(0, initial.At(0, 0), stride);
    _tile_loadd(1, initial.At(0, kHalf), stride);
    if (kLower) _tile_loadd(2, initial.At(kHalf, 0), stride);
    if (kLower) _tile_loadd(3, initial.At(kHalf, kHalf), stride);
  }
  const BFloat16* left = factors.left.data;
  const BFloat16* right = factors.right.data;
  const BFloat16* next = factors.next;
  for (std::int64_t k = 0; k < factors.left.cols; k += kLeftCols<BFloat16>) {
    for (std::int64_t line = 0; line < factors.next_lines; ++line) {
      __builtin_prefetch(next + line * TileFactors::kLine, 0, 2);
    }
    next += factors.next_lines * TileFactors::kLine;
    _tile_loadd(6, right, 128);
    _tile_loadd(7, right + 2 * kHalf, 128);
    _tile_loadd(4, left, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (kLower) {
      _tile_loadd(5, left + kHalf * kLeftCols<BFloat16>, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    left += factors.left.stride;
    right += TileFactors::kLines * TileFactors::kLine;
  }
  const std::int64_t stride = out.stride * 4;
  _tile_stored(0, out.At(0, 0), stride);
  _tile_stored(1, out.At(0, kHalf), stride);
  if (kLower) _tile_stored(2, out.At(kHalf, 0), stride);
  if (kLower) _tile_stored(3, out.At(kHalf, kHalf), stride);
}

// The same for at most 32 columns.
template <bool kLower>
void MultiplyPartialTiles(const TileFactors& factors,
                          const MatrixView<const float>& initial,
                          const MatrixView<float>& out) {
  constexpr std::int64_t kCols = PairMatrix<BFloat16>::kCols;
  if (out.cols == kCols) {
    MultiplyTiles<kLower>(factors, initial, out);
    return;
  }
  float tile[TileShapes::kMostRows * kCols];
  const MatrixView<float> product(tile, out.rows, kCols);
  MultiplyTiles<kLower>(factors, NoMatrix<float>(), product);
  for (std::int64_t i = 0; i < out.rows; ++i) {
    for (std::int64_t j = 0; j < out.cols; ++j) {
      *out.At(i, j) =
          *product.At(i, j) + (initial.data == nullptr ? 0 : *initial.At(i, j));
    }
  }
}

// Rows of a block of 32 columns, in tiles of `height` rows, of which there is a
// whole number: out = initial + left * right. next: what is read after `right`,
// or null.
inline void MultiplyBlock(const LeftMatrix<BFloat16>& left,
                          const RightMatrix<BFloat16>& right,
                          const MatrixView<const float>& initial,
                          const MatrixView<float>& out, std::int64_t height,
                          const BFloat16* next) {
  const std::int64_t tiles = out.rows / height;
  const std::int64_t next_lines =
      next == nullptr ? 0 : CeilDiv(TileFactors::kLines, tiles);
  const auto multiply = height > TileShapes::kRows
                            ? &MultiplyPartialTiles<true>
                            : &MultiplyPartialTiles<false>;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t row = tile * height;
    const std::int64_t steps = CeilDiv(left.cols, left.kCols);
    const std::int64_t fetched = tile * steps * next_lines * TileFactors::kLine;
    multiply({left.Rows(row, height), right, next + fetched, next_lines},
             BlockIfAny(initial, row, 0, height, out.cols),
             out.Block(row, 0, height, out.cols));
  }
}

// The same for a sum. then: as in Multiply.
inline void MultiplyBlock(const ProductSum<BFloat16>& sum,
                          const MatrixView<const float>& initial,
                          const MatrixView<float>& out, std::int64_t height,
                          const ProductSum<BFloat16>& then) {
  // A block's rows for so many terms stay in the first-level cache.
  constexpr std::int64_t kDepth = 512;
  MultiplyInChunks(sum, then, kDepth, initial, out,
                   [&](const auto& left, const auto& right, const auto& add_to,
                       const BFloat16* next) {
                     MultiplyBlock(left, right, add_to, out, height, next);
                   });
}

// out = initial + sum. initial, then: as for other types. What the left
// operands' last blocks have beyond their columns must be finite.
inline void Multiply(
    const ProductSum<BFloat16>& sum, const MatrixView<const float>& initial,
    const MatrixView<float>& out,
    const ProductSum<BFloat16>& then = ProductSum<BFloat16>()) {
  constexpr std::int64_t kCols = PairMatrix<BFloat16>::kCols;
  for (std::int64_t row = 0; row < out.rows;) {
    // Rows of one height, so that the tiles' shapes stay.
    const std::int64_t left = out.rows - row;
    const std::int64_t height = Min(left, TileShapes::kMostRows);
    const std::int64_t rows = left / height * height;
    const TileShapes shapes(height);
    const std::int64_t rows_left = out.rows - row - rows;
    for (std::int64_t col = 0; col < out.cols; col += kCols) {
      const std::int64_t cols = Min(kCols, out.cols - col);
      const ProductSum<BFloat16> next =
          col + cols < out.cols ? sum.Block(row, col + cols, rows, kCols)
          : rows_left > 0       ? sum.Block(row + rows, 0, rows_left, kCols)
                                : then;
      MultiplyBlock(sum.Block(row, col, rows, cols),
                    BlockIfAny(initial, row, col, rows, cols),
                    out.Block(row, col, rows, cols), height, next);
    }
    row += rows;
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // __AMX_BF16__

#endif  // TF_RNN_OPS_CC_RNN_SIMD_AMX_PRODUCT_H_
