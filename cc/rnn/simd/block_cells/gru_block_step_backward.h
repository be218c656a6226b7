// The backward pass of one step of GRUBlockCell.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_BACKWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_BACKWARD_H_

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/simd/block_cells/panel_blocks.h"
#include "cc/rnn/simd/matmul/dot_product.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/simd/vector/activations.h"
#include "cc/rnn/simd/vector/sizes.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether to pack the weights. Transposing them costs as much as multiplying
// kMostDotRows rows by them. Fewer rows use dot products.
inline bool PacksTransposedWeights(const BlockCellSize& size) {
  constexpr std::int64_t kMostDotRows = 16;
  return size.batch > kMostDotRows;
}

// Scratch memory of a step with B > 0 and C > 0.
template <typename T>
struct GruBlockStepBackwardScratch {
  // Left operands [B, C], if weights are packed; otherwise empty.
  T* d_c_bar;
  T* d_r_bar;
  T* d_u_bar;
  PanelScratch<T> workers;

  GruBlockStepBackwardScratch(const BlockCellSize& size, int num_threads,
                              Arena& arena)
      : d_c_bar(TakeOperand(size, arena)),
        d_r_bar(TakeOperand(size, arena)),
        d_u_bar(TakeOperand(size, arena)),
        workers(size.batch, num_threads, arena) {}

 private:
  static T* TakeOperand(const BlockCellSize& size, Arena& arena) {
    const CheckedInt rows = PacksTransposedWeights(size) ? size.batch : 0;
    return arena.Take<T>(LeftMatrix<T>::Size(rows, size.cell_size));
  }
};

template <typename T>
class GruBlockStepBackward {
 public:
  // a: requires B > 0 and C > 0. Its workspace is ignored.
  GruBlockStepBackward(const GruBlockCellBackward<T>& a,
                       const GruBlockStepBackwardScratch<T>& scratch,
                       Executor& executor)
      : a_(a),
        scratch_(scratch),
        executor_(executor),
        batch_(a.size.batch),
        input_size_(a.size.input_size),
        cell_size_(a.size.cell_size),
        packs_weights_(PacksTransposedWeights(a.size)),
        d_c_bar_(Operand(MatrixView<T>(a.d_c_bar, batch_, cell_size_),
                         scratch.d_c_bar)),
        d_r_bar_(Operand(Gates().Cols(0, cell_size_), scratch.d_r_bar)),
        d_u_bar_(
            Operand(Gates().Cols(cell_size_, cell_size_), scratch.d_u_bar)),
        reset_state_blocks_(Blocks(1, cell_size_)),
        state_blocks_(Blocks(2, cell_size_)),
        input_blocks_(Blocks(3, input_size_)) {
    const std::int64_t fan_in = input_size_ + cell_size_;
    const MatrixView<const T> w_ru(a.w_ru, fan_in, 2 * cell_size_);
    const MatrixView<const T> w_r = w_ru.Cols(0, cell_size_);
    const MatrixView<const T> w_u = w_ru.Cols(cell_size_, cell_size_);
    const MatrixView<const T> w_c(a.w_c, fan_in, cell_size_);
    d_reset_state_.Add(d_c_bar_, OfState(w_c));
    d_state_.Add(d_r_bar_, OfState(w_r));
    d_state_.Add(d_u_bar_, OfState(w_u));
    d_input_.Add(d_c_bar_, OfInput(w_c));
    d_input_.Add(d_r_bar_, OfInput(w_r));
    d_input_.Add(d_u_bar_, OfInput(w_u));
  }

  void Run() const {
    const std::int64_t rows = RowsPerTask();
    executor_.ParallelFor(
        CeilDiv(batch_, rows), [this, rows](std::int64_t task) {
          CandidateAndUpdateGate(task * rows, Min((task + 1) * rows, batch_));
        });
    executor_.ParallelFor(reset_state_blocks_.size(),
                          [this](std::int64_t task, int worker) {
                            ResetGate(reset_state_blocks_.block(task), worker);
                          });
    executor_.ParallelFor(
        state_blocks_.size() + input_blocks_.size(),
        [this](std::int64_t task, int worker) {
          if (task < state_blocks_.size()) {
            State(state_blocks_.block(task), worker);
          } else {
            Input(input_blocks_.block(task - state_blocks_.size()), worker);
          }
        });
  }

 private:
  // A matrix [B, C], also as a left operand if weights are packed.
  struct OperandMatrix {
    MatrixView<T> rows;
    MutableLeftMatrix<T> packed;

    template <typename Units>
    TF_RNN_OPS_VECTOR_INLINE void Write(std::int64_t row, std::int64_t unit,
                                        const Units& units, Vector<T> x) const {
      units.Write(x, rows.At(row, unit));
      if (packed.data != nullptr) units.Write(x, packed.At(row, unit));
    }
  };

  // A sum of products of OperandMatrix with transposed weights, computed in
  // either way.
  struct Product {
    WeightProduct<T, /*kTransposed=*/true> packed;
    DotProduct<T> dots;

    void Add(const OperandMatrix& left, const MatrixView<const T>& weights) {
      packed.Add(left.packed, weights);
      dots.Add(Constant(left.rows), weights);
    }
  };

  OperandMatrix Operand(const MatrixView<T>& rows, T* packed) const {
    return {rows, {packed, batch_, cell_size_}};
  }
  MatrixView<T> Gates() const {
    return {a_.d_r_bar_u_bar, batch_, 2 * cell_size_};
  }
  MatrixView<const T> OfInput(const MatrixView<const T>& weights) const {
    return weights.Rows(0, input_size_);
  }
  MatrixView<const T> OfState(const MatrixView<const T>& weights) const {
    return weights.Rows(input_size_, cell_size_);
  }

  // The blocks of a sum of `num_terms` products [B, C] * [C, cols].
  PanelBlocks<T> Blocks(std::int64_t num_terms, std::int64_t cols) const {
    return {batch_, num_terms * cell_size_, cols, 1, executor_.num_threads()};
  }
  std::int64_t RowsPerTask() const {
    constexpr std::int64_t kElements = 1 << 13;
    return kElements / cell_size_ + 1;
  }

  // d_c_bar = (d_c + d_h ∘ (1 - u)) ∘ (1 - c ∘ c)
  // d_u_bar = (d_u + d_h ∘ (h_prev - c)) ∘ u ∘ (1 - u)
  void CandidateAndUpdateGate(std::int64_t row, std::int64_t end) const {
    for (; row < end; ++row) {
      const PanelBlock units_of_row{row, 1, 0, cell_size_};
      units_of_row.ForEachVector<T>([&](std::int64_t unit, auto units) {
        const std::int64_t i = row * cell_size_ + unit;
        const Vector<T> h_prev = units.Read(a_.h_prev + i);
        const Vector<T> u = units.Read(a_.u + i);
        const Vector<T> c = units.Read(a_.c + i);
        const Vector<T> d_h = units.Read(a_.d_h + i);
        Vector<T> d_c = d_h * (T(1) - u);
        Vector<T> d_u = d_h * (h_prev - c);
        if (a_.d_c != nullptr) d_c += units.Read(a_.d_c + i);
        if (a_.d_u != nullptr) d_u += units.Read(a_.d_u + i);
        d_c_bar_.Write(row, unit, units, d_c * TanhSlope<T>(c));
        d_u_bar_.Write(row, unit, units, d_u * u * (T(1) - u));
      });
    }
  }

  // Computes a block of a sum and calls body(row, unit, units, x) for its
  // vectors.
  template <typename Body>
  void ForEachVector(const PanelBlock& block, int worker, const Product& sum,
                     const Body& body) const {
    block.ForEachPart<T>([&](const PanelBlock& part) {
      const MatrixView<T> product = scratch_.workers.Product(part, worker);
      if (packs_weights_) {
        sum.packed.Multiply(part.row, part.rows, part.col, part.cols,
                            scratch_.workers.Packed(worker), product);
      } else {
        sum.dots.Multiply(part.row, part.rows, part.col, part.cols, product);
      }
      for (std::int64_t i = 0; i < part.rows; ++i) {
        part.ForEachVector<T>([&](std::int64_t unit, auto units) {
          body(part.row + i, unit, units,
               units.Read(product.At(i, unit - part.col)));
        });
      }
    });
  }

  // d_h_prevr = d_c_bar * w_c^T, for the state
  // d_r_bar = (d_r + d_h_prevr ∘ h_prev) ∘ r ∘ (1 - r)
  // d_h_prev = d_h_prevr ∘ r + d_h ∘ u; State() adds the rest
  void ResetGate(const PanelBlock& block, int worker) const {
    ForEachVector(block, worker, d_reset_state_,
                  [&](std::int64_t row, std::int64_t unit, auto units,
                      Vector<T> d_h_prevr) TF_RNN_OPS_LAMBDA_INLINE {
                    const std::int64_t i = row * cell_size_ + unit;
                    const Vector<T> r = units.Read(a_.r + i);
                    Vector<T> d_r = d_h_prevr * units.Read(a_.h_prev + i);
                    if (a_.d_r != nullptr) d_r += units.Read(a_.d_r + i);
                    d_r_bar_.Write(row, unit, units, d_r * r * (T(1) - r));
                    units.Write(
                        SumOfProducts<T>(d_h_prevr, r, units.Read(a_.d_h + i),
                                         units.Read(a_.u + i)),
                        a_.d_h_prev + i);
                  });
  }

  // d_h_prev += [d_r_bar d_u_bar] * w_ru^T, for the state
  void State(const PanelBlock& block, int worker) const {
    ForEachVector(block, worker, d_state_,
                  [&](std::int64_t row, std::int64_t unit, auto units,
                      Vector<T> d_h_prev) TF_RNN_OPS_LAMBDA_INLINE {
                    T* const sum = a_.d_h_prev + row * cell_size_ + unit;
                    units.Write(units.Read(sum) + d_h_prev, sum);
                  });
  }

  // d_x = d_c_bar * w_c^T + [d_r_bar d_u_bar] * w_ru^T, for the input
  void Input(const PanelBlock& block, int worker) const {
    ForEachVector(block, worker, d_input_,
                  [&](std::int64_t row, std::int64_t unit, auto units,
                      Vector<T> d_x) TF_RNN_OPS_LAMBDA_INLINE {
                    units.Write(d_x, a_.d_x + row * input_size_ + unit);
                  });
  }

  const GruBlockCellBackward<T> a_;
  const GruBlockStepBackwardScratch<T> scratch_;
  Executor& executor_;
  const std::int64_t batch_;
  const std::int64_t input_size_;
  const std::int64_t cell_size_;
  const bool packs_weights_;
  const OperandMatrix d_c_bar_;
  const OperandMatrix d_r_bar_;
  const OperandMatrix d_u_bar_;
  const PanelBlocks<T> reset_state_blocks_;
  const PanelBlocks<T> state_blocks_;
  const PanelBlocks<T> input_blocks_;
  Product d_reset_state_;  // d_h_prevr, [B, C]
  Product d_state_;        // [B, C]
  Product d_input_;        // [B, I]
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_BACKWARD_H_
