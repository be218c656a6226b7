// Products on the CPU's tile unit (AMX): of bfloat16 matrices, accumulated in
// float, and of matrices of integers.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_MATMUL_AMX_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_MATMUL_AMX_PRODUCT_H_

#if defined(__AMX_TILE__)

#include <immintrin.h>

#include <cstdint>

#include "cc/rnn/float16.h"
#include "cc/rnn/simd/matmul/block_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/pair_matrix.h"
#include "cc/rnn/simd/matmul/quantized_matrix.h"
#include "cc/rnn/simd/matmul/tile_product.h"
#include "cc/rnn/simd/vector/sizes.h"
#include "cc/rnn/simd/vector/vector.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Shapes that are active from Load to the end of this object's life.
class TileConfiguration {
 public:
  TileConfiguration() = default;
  ~TileConfiguration() { _tile_release(); }
  TileConfiguration(const TileConfiguration&) = delete;

  // row_bytes: up to 64.
  void Set(int tile, std::int64_t rows, std::int64_t row_bytes) {
    config_.rows[tile] = static_cast<std::uint8_t>(rows);
    config_.row_bytes[tile] = static_cast<std::uint16_t>(row_bytes);
  }
  void Load() const {
    // GCC does not know that the instruction reads all of it.
    asm volatile("" : : "r"(&config_) : "memory");
    _tile_loadconfig(&config_);
  }

 private:
  struct alignas(64) {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config_;
};

// The shapes of the tiles in a product of up to 32 rows, in the tile registers
//
//          | right 6 | right 7 |
//   -------+---------+---------+
//   left 4 |  sum 0  |  sum 1  |   up to 16 rows, of 16 sums or 32 factors
//   left 5 |  sum 2  |  sum 3  |   the rows beyond 16
//
// `right`: 16 pairs of rows, with 16 columns each.
class TileShapes {
 public:
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kMostRows = 2 * kRows;

  // rows: 1 to kMostRows.
  explicit TileShapes(std::int64_t rows) {
    const std::int64_t upper = Min(rows, kRows);
    const std::int64_t lower = Max(rows - kRows, 1);
    for (int tile : {0, 1, 4}) config_.Set(tile, upper, kRowBytes);
    for (int tile : {2, 3, 5}) config_.Set(tile, lower, kRowBytes);
    for (int tile : {6, 7}) config_.Set(tile, kRows, kRowBytes);
    config_.Load();
  }

 private:
  static constexpr std::int64_t kRowBytes = 64;

  TileConfiguration config_;
};

// The factors of a product tile: a chunk of the depth.
struct TileFactors {
  static constexpr std::int64_t kLine = 32;  // elements per cache line
  // The cache lines of a right operand that a tile reads in each step of the
  // depth.
  static constexpr std::int64_t kLines = PairMatrix<BFloat16>::kCols;

  LeftMatrix<BFloat16> left;
  RightMatrix<BFloat16> right;
  // The data to prefetch: next_lines cache lines in each step.
  const BFloat16* next;
  std::int64_t next_lines;
};

// out = initial + left * right, for rows of 32 columns. TileShapes must be
// active. kLower: whether there are more than 16 rows.
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
  asm volatile("" : : : "memory");  // GCC does not know what tiles are loaded
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

// The same for up to 32 columns.
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

// out = initial + left * right, for rows of a block of 32 columns, in tiles of
// `height` rows. The number of rows is a multiple of `height`. next: the data
// read after `right`, or null.
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

// The same for a sum of products. then: as in Multiply.
inline void MultiplyBlock(const ProductSum<BFloat16>& sum,
                          const MatrixView<const float>& initial,
                          const MatrixView<float>& out, std::int64_t height,
                          const ProductSum<BFloat16>& then) {
  // With this depth, the rows of a block stay in the first-level cache.
  constexpr std::int64_t kDepth = 512;
  MultiplyInChunks(sum, then, kDepth, initial, out,
                   [&](const auto& left, const auto& right, const auto& add_to,
                       const BFloat16* next) {
                     MultiplyBlock(left, right, add_to, out, height, next);
                   });
}

// Multiply on the tile unit. The padding columns in the last block of each left
// operand must be finite.
inline void AmxMultiply(const ProductSum<BFloat16>& sum,
                        const MatrixView<const float>& initial,
                        const MatrixView<float>& out,
                        const ProductSum<BFloat16>& then) {
  constexpr std::int64_t kCols = PairMatrix<BFloat16>::kCols;
  for (std::int64_t row = 0; row < out.rows;) {
    // Rows with the same tile height, so the tile shapes do not change.
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

// The shapes of the tiles in a product of up to 16 rows, in the tile registers
//
//            | right 3 | right 4 |   16 terms; in the tiles 5 to 7, the terms
//   ---------+---------+---------+   that remain
//    left 2  |  sum 0  |  sum 1  |
class QuantizedTileShapes {
 public:
  static constexpr std::int64_t kRows = 16;
  static constexpr std::int64_t kTerms = 16;

  // rows: 1 to kRows. remaining_terms: 0 to kTerms - 1.
  QuantizedTileShapes(std::int64_t rows, std::int64_t remaining_terms) {
    const std::int64_t remaining = Max(remaining_terms, 1);
    for (int tile : {0, 1, 2}) config_.Set(tile, rows, 4 * kTerms);
    for (int tile : {3, 4}) config_.Set(tile, kTerms, 4 * kTerms);
    config_.Set(5, rows, 4 * remaining);
    for (int tile : {6, 7}) config_.Set(tile, remaining, 4 * kTerms);
    config_.Load();
  }

 private:
  TileConfiguration config_;
};

// sums = left * right, for up to 16 rows and a block of columns.
// QuantizedTileShapes must be active. sums: [rows, QuantizedRight::kCols]
inline void AddQuantizedTiles(const QuantizedLeft& left,
                              const std::int8_t* right, std::int32_t* sums) {
  constexpr std::int64_t kTerms = QuantizedTileShapes::kTerms;
  constexpr std::int64_t kHalf = 64;  // bytes of 16 columns of a term
  const std::int64_t terms = CeilDiv(left.depth, kQuantizedTerms);
  const std::int8_t* row = left.data;
  asm volatile("" : : : "memory");  // GCC does not know what tiles are loaded
  _tile_zero(0);
  _tile_zero(1);
  for (std::int64_t k = kTerms; k <= terms; k += kTerms) {
    _tile_loadd(3, right, 2 * kHalf);
    _tile_loadd(4, right + kHalf, 2 * kHalf);
    _tile_loadd(2, row, left.stride);
    _tile_dpbusd(0, 2, 3);
    _tile_dpbusd(1, 2, 4);
    row += kTerms * kQuantizedTerms;
    right += kTerms * 2 * kHalf;
  }
  if (terms % kTerms > 0) {
    _tile_loadd(6, right, 2 * kHalf);
    _tile_loadd(7, right + kHalf, 2 * kHalf);
    _tile_loadd(5, row, left.stride);
    _tile_dpbusd(0, 5, 6);
    _tile_dpbusd(1, 5, 7);
  }
  _tile_stored(0, sums, 2 * kHalf);
  _tile_stored(1, sums + 16, 2 * kHalf);
}

// The same with scales: out = initial + left * right.
inline void MultiplyQuantizedTiles(const QuantizedLeft& left,
                                   const QuantizedRight& right,
                                   const MatrixView<const float>& initial,
                                   const MatrixView<float>& out) {
  constexpr std::int64_t kCols = QuantizedRight::kCols;
  alignas(64) std::int32_t sums[QuantizedTileShapes::kRows * kCols];
  AddQuantizedTiles(left, right.data, sums);
  for (std::int64_t i = 0; i < left.rows; ++i) {
    for (std::int64_t j = 0; j < kCols; j += kVectorElements<float>) {
      StoreScaled(Load<std::int32_t>(sums + i * kCols + j) +
                      Load<std::int32_t>(right.sums + j),
                  right.scales + j, left.scales[i],
                  initial.data == nullptr ? nullptr : initial.At(i, j),
                  out.At(i, j));
    }
  }
}

// The product on the tile unit.
inline void AmxMultiplyQuantized(const QuantizedLeft& left,
                                 const QuantizedRight& right,
                                 const MatrixView<const float>& initial,
                                 const MatrixView<float>& out) {
  constexpr std::int64_t kCols = QuantizedRight::kCols;
  static_assert(kCols == 32 && kLeftOffset == 128);
  const std::int64_t terms = CeilDiv(left.depth, kQuantizedTerms);
  for (std::int64_t first = 0; first < left.rows;) {
    // Rows with the same tile height, so the tile shapes do not change.
    const std::int64_t height =
        Min(QuantizedTileShapes::kRows, left.rows - first);
    const std::int64_t end = first + (left.rows - first) / height * height;
    const QuantizedTileShapes shapes(height,
                                     terms % QuantizedTileShapes::kTerms);
    for (std::int64_t col = 0; col < out.cols; col += kCols) {
      for (std::int64_t row = first; row < end; row += height) {
        MultiplyQuantizedTiles(left.Rows(row, height), right.Cols(col, kCols),
                               BlockIfAny(initial, row, col, height, kCols),
                               out.Block(row, col, height, kCols));
      }
    }
    first = end;
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // __AMX_TILE__

#endif  // TF_RNN_OPS_CC_RNN_SIMD_MATMUL_AMX_PRODUCT_H_
