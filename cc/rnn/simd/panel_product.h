// The product of rows with a packed matrix, on one thread.
//
// The right factor is packed into panels: [depth, kPanelCols] each, so that the
// innermost loop reads it from one end to the other. The left factor is read
// where it lies. An element of the product is always the sum over chunks of
// kDepthChunk terms, each added up in ascending order from zero: its bits
// depend neither on the place of the element in the matrix nor on how the work
// is cut.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_PANEL_PRODUCT_H_
#define TF_RNN_OPS_CC_RNN_SIMD_PANEL_PRODUCT_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/rnn/simd/matrix_view.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The widest vector, and how many of them make a row of a panel. With these,
// the sums of a tile of kMaxTileRows rows fill most of the vector registers.
#if defined(__AVX512F__)
constexpr std::int64_t kVectorBytes = 64;
constexpr std::int64_t kPanelVectors = 2;
constexpr std::int64_t kMaxTileRows = 12;
#elif defined(__AVX__)
constexpr std::int64_t kVectorBytes = 32;
constexpr std::int64_t kPanelVectors = 2;
constexpr std::int64_t kMaxTileRows = 6;
#else
constexpr std::int64_t kVectorBytes = 16;
constexpr std::int64_t kPanelVectors = 4;
constexpr std::int64_t kMaxTileRows = 2;
#endif
template <typename T>
constexpr std::int64_t kVectorElements = kVectorBytes / sizeof(T);
template <typename T>
constexpr std::int64_t kPanelCols = kPanelVectors * kVectorElements<T>;
// A panel of so many rows stays in the first-level cache.
constexpr std::int64_t kDepthChunk = 256;

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes), aligned(alignof(T)),
                                may_alias));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;

inline std::int64_t CeilDiv(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
inline std::int64_t Min(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// How many panels hold `cols` columns.
template <typename T>
std::int64_t NumPanels(std::int64_t cols) {
  return CeilDiv(cols, kPanelCols<T>);
}

// Packs a matrix [depth, cols] of at most kPanelCols columns, filled up with
// zeros.
template <typename T>
void PackPanel(const MatrixView<const T>& matrix, T* panel) {
  for (std::int64_t k = 0; k < matrix.rows; ++k) {
    const T* row = matrix.At(k, 0);
    T* to = panel + k * kPanelCols<T>;
    if (matrix.cols == kPanelCols<T>) {
      std::memcpy(to, row, kPanelCols<T> * sizeof(T));
    } else {
      for (std::int64_t j = 0; j < kPanelCols<T>; ++j) {
        to[j] = j < matrix.cols ? row[j] : T(0);
      }
    }
  }
}

// Packs the transpose of a matrix [cols, depth] of at most kPanelCols rows.
template <typename T>
void PackTransposedPanel(const MatrixView<const T>& matrix, T* panel) {
  constexpr std::int64_t kBlock = 16;  // what is written stays in the cache
  for (std::int64_t k = 0; k < matrix.cols; k += kBlock) {
    const std::int64_t end = Min(k + kBlock, matrix.cols);
    for (std::int64_t j = 0; j < kPanelCols<T>; ++j) {
      T* to = panel + j;
      if (j < matrix.rows) {
        const T* row = matrix.At(j, 0);
        for (std::int64_t i = k; i < end; ++i) to[i * kPanelCols<T>] = row[i];
      } else {
        for (std::int64_t i = k; i < end; ++i) to[i * kPanelCols<T>] = T(0);
      }
    }
  }
}

// What a tile of the product is made from.
template <typename T>
struct TileArguments {
  const T* left;               // the tile's first row
  std::int64_t left_stride;    // from row to row
  const T* panels;             // from the chunk's first row on
  std::int64_t panels_stride;  // from panel to panel
  std::int64_t depth;
  T* out;
  std::int64_t out_stride;  // from row to row
  const T* initial;         // what the product is added to, or null for zero
  std::int64_t initial_stride;
  // What the CPU is to fetch meanwhile, some elements for each of the chunk's
  // rows: another tile will read it.
  const T* next;
  std::int64_t next_stride;
};

// out = initial + left * panels, for kRows rows and kPanels panels. With
// left_is_packed, the tile is [depth, kRows].
template <typename T, int kRows, int kPanels, bool left_is_packed>
__attribute__((noinline)) void MultiplyTile(const TileArguments<T>& a) {
  constexpr int kVectors = kPanels * kPanelVectors;
  Vector<T> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Vector<T>{};
  }
  const T* left = a.left;
  const T* panels = a.panels;
  const T* next = a.next;
  for (std::int64_t k = 0; k < a.depth; ++k) {
    __builtin_prefetch(next);
    next += a.next_stride;
    Vector<T> row[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      row[v] = *reinterpret_cast<const Vector<T>*>(
          panels + (v / kPanelVectors) * a.panels_stride +
          (v % kPanelVectors) * kVectorElements<T>);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      // Less zero: GCC then loads the element into all lanes at once.
      const Vector<T> element =
          left[left_is_packed ? i : i * a.left_stride] - Vector<T>{};
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[i][v] += element * row[v];
    }
    panels += kPanelCols<T>;
    left += left_is_packed ? kRows : 1;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t col = v * kVectorElements<T>;
      if (a.initial != nullptr) {
        sums[i][v] += *reinterpret_cast<const Vector<T>*>(
            a.initial + i * a.initial_stride + col);
      }
      *reinterpret_cast<Vector<T>*>(a.out + i * a.out_stride + col) =
          sums[i][v];
    }
  }
}

// How many panels a tile of so many rows takes at once: few rows alone do not
// keep the multipliers busy.
constexpr int PanelsAtOnce(int rows) {
  return rows == 1 ? 4 : rows <= 3 && kMaxTileRows >= 6 ? 2 : 1;
}

template <typename T>
using MultiplyTileFunction = void (*)(const TileArguments<T>&);

template <typename T, bool left_is_packed, bool many_panels, std::size_t... i>
constexpr std::array<MultiplyTileFunction<T>, sizeof...(i)> MultiplyTileTable(
    std::index_sequence<i...>) {
  return {&MultiplyTile < T, int{i + 1}, many_panels ? PanelsAtOnce(i + 1) : 1,
          left_is_packed > ...};
}

// The function for `rows` rows, and for one panel or PanelsAtOnce(rows).
template <typename T, bool left_is_packed, bool many_panels>
MultiplyTileFunction<T> GetMultiplyTile(std::int64_t rows) {
  static constexpr auto kTable =
      MultiplyTileTable<T, left_is_packed, many_panels>(
          std::make_index_sequence<kMaxTileRows>());
  return kTable[rows - 1];
}

// Cuts rows into tiles of nearly equal height, at most kMaxTileRows.
class RowTiles {
 public:
  explicit RowTiles(std::int64_t rows)
      : size_(CeilDiv(rows, kMaxTileRows)),
        least_(size_ == 0 ? 0 : rows / size_),
        num_higher_(rows - size_ * least_) {}

  std::int64_t size() const { return size_; }
  std::int64_t begin(std::int64_t tile) const {
    return tile * least_ + Min(tile, num_higher_);
  }
  std::int64_t rows(std::int64_t tile) const {
    return least_ + (tile < num_higher_ ? 1 : 0);
  }

 private:
  std::int64_t size_;
  std::int64_t least_;       // rows of a tile
  std::int64_t num_higher_;  // the first tiles, which have one row more
};

// Calls multiply(a) for a tile of one panel, of which the last columns may be
// missing in `out` and `initial`.
template <typename T>
void MultiplyPartialTile(MultiplyTileFunction<T> multiply, TileArguments<T> a,
                         std::int64_t rows, std::int64_t cols) {
  T tile[kMaxTileRows * kPanelCols<T>];
  T* const out = a.out;
  const std::int64_t out_stride = a.out_stride;
  const T* const initial = a.initial;
  a.out = tile;
  a.out_stride = kPanelCols<T>;
  a.initial = nullptr;
  multiply(a);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const T sum = tile[i * kPanelCols<T> + j];
      out[i * out_stride + j] =
          initial == nullptr ? sum : initial[i * a.initial_stride + j] + sum;
    }
  }
}

// One chunk of the depth of MultiplyPanels.
template <typename T>
void MultiplyPanelsChunk(const MatrixView<const T>& left, const T* panels,
                         std::int64_t panels_stride,
                         const MatrixView<const T>& initial,
                         const MatrixView<T>& out) {
  const std::int64_t num_whole = out.cols / kPanelCols<T>;
  const int at_once =
      out.rows < kMaxTileRows ? PanelsAtOnce(static_cast<int>(out.rows)) : 1;
  const RowTiles tiles(out.rows);
  for (std::int64_t col = 0; col < out.cols;) {
    const std::int64_t panel = col / kPanelCols<T>;
    const bool many = at_once > 1 && panel + at_once <= num_whole;
    for (std::int64_t tile = 0; tile < tiles.size(); ++tile) {
      const std::int64_t row = tiles.begin(tile);
      const std::int64_t rows = tiles.rows(tile);
      const T* const chunk = panels + panel * panels_stride;
      // The tiles of a panel share in fetching the next one.
      const std::int64_t next_stride =
          many ? 0 : CeilDiv(kPanelCols<T>, tiles.size());
      const T* const next =
          (panel + 1 < num_whole ? chunk + panels_stride : chunk) +
          tile * next_stride * left.cols;
      const TileArguments<T> a{
          left.At(row, 0),
          left.stride,
          chunk,
          panels_stride,
          left.cols,
          out.At(row, col),
          out.stride,
          initial.data == nullptr ? nullptr : initial.At(row, col),
          initial.stride,
          next,
          next_stride};
      if (many) {
        GetMultiplyTile<T, false, true>(rows)(a);
      } else if (panel < num_whole) {
        GetMultiplyTile<T, false, false>(rows)(a);
      } else {
        MultiplyPartialTile(GetMultiplyTile<T, false, false>(rows), a, rows,
                            out.cols - col);
      }
    }
    col += (many ? at_once : 1) * kPanelCols<T>;
  }
}

// out = initial + left * panels, where `panels` is [depth, out.cols] packed,
// one panel panels_stride after the other. initial: like `out`, or with a
// stride of 0 for one row that serves all, or null for zero.
template <typename T>
void MultiplyPanels(const MatrixView<const T>& left, const T* panels,
                    std::int64_t panels_stride,
                    const MatrixView<const T>& initial,
                    const MatrixView<T>& out) {
  MatrixView<const T> add_to = initial;
  std::int64_t k = 0;
  do {  // once for a depth of zero too: the initial values are then the result
    const std::int64_t depth = Min(kDepthChunk, left.cols - k);
    MultiplyPanelsChunk(left.Cols(k, depth), panels + k * kPanelCols<T>,
                        panels_stride, add_to, out);
    add_to = Constant(out);
    k += depth;
  } while (k < left.cols);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_PANEL_PRODUCT_H_
