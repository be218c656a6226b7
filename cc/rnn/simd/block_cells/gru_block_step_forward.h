// The forward pass of one step of GRUBlockCell.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_FORWARD_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_FORWARD_H_

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/simd/block_cells/panel_blocks.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/simd/vector/activations.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Scratch memory of a step with B > 0 and C > 0.
template <typename T>
struct GruBlockStepForwardScratch {
  StepInputs<T> inputs;
  T* reset_state;  // a left operand [B, C]: r ∘ h_prev
  PanelScratch<T> workers;

  GruBlockStepForwardScratch(const BlockCellSize& size, int num_threads,
                             Arena& arena)
      : inputs(size, arena),
        reset_state(arena.Take<T>(
            LeftMatrix<T>::Size(CheckedInt(size.batch), size.cell_size))),
        workers(size.batch, num_threads, arena) {}
};

template <typename T>
class GruBlockStepForward {
 public:
  // a: requires B > 0 and C > 0. Its workspace is ignored.
  GruBlockStepForward(const GruBlockCellForward<T>& a,
                      const GruBlockStepForwardScratch<T>& scratch,
                      Executor& executor)
      : a_(a),
        scratch_(scratch),
        executor_(executor),
        batch_(a.size.batch),
        input_size_(a.size.input_size),
        cell_size_(a.size.cell_size),
        x_(scratch.inputs.X(a.x)),
        h_prev_(scratch.inputs.HPrev(a.h_prev)),
        reset_state_(scratch.reset_state, batch_, cell_size_),
        gate_blocks_(Blocks(2)),
        candidate_blocks_(Blocks(1)) {
    const MatrixView<const T> w_ru(a.w_ru, input_size_ + cell_size_,
                                   2 * cell_size_);
    AddProducts(h_prev_, w_ru.Cols(0, cell_size_), &r_bar_);
    AddProducts(h_prev_, w_ru.Cols(cell_size_, cell_size_), &u_bar_);
    AddProducts(
        reset_state_,
        MatrixView<const T>(a.w_c, input_size_ + cell_size_, cell_size_),
        &c_bar_);
  }

  void Run() const {
    scratch_.inputs.Pack(a_.x, a_.h_prev, executor_);
    executor_.ParallelFor(gate_blocks_.size(),
                          [this](std::int64_t task, int worker) {
                            if (gate_blocks_.product(task) == 0) {
                              ResetGate(gate_blocks_.block(task), worker);
                            } else {
                              UpdateGate(gate_blocks_.block(task), worker);
                            }
                          });
    executor_.ParallelFor(candidate_blocks_.size(),
                          [this](std::int64_t task, int worker) {
                            Candidate(candidate_blocks_.block(task), worker);
                          });
  }

 private:
  using Product = WeightProduct<T, /*kTransposed=*/false>;

  PanelBlocks<T> Blocks(std::int64_t num_products) const {
    return {batch_, input_size_ + cell_size_, cell_size_, num_products,
            executor_.num_threads()};
  }

  // sum += [x state] * weights
  void AddProducts(const LeftMatrix<T>& state,
                   const MatrixView<const T>& weights, Product* sum) const {
    sum->Add(x_, weights.Rows(0, input_size_));
    sum->Add(state, weights.Rows(input_size_, cell_size_));
  }

  // Computes a block of x = sum + bias and calls body(row, unit, units, x) for
  // its vectors.
  template <typename Body>
  void ForEachVector(const PanelBlock& block, int worker, const Product& sum,
                     const T* bias, const Body& body) const {
    block.ForEachPart<T>([&](const PanelBlock& part) {
      const MatrixView<T> product = scratch_.workers.Product(part, worker);
      sum.Multiply(part.row, part.rows, part.col, part.cols,
                   scratch_.workers.Packed(worker), product);
      for (std::int64_t i = 0; i < part.rows; ++i) {
        part.ForEachVector<T>([&](std::int64_t unit, auto units) {
          body(part.row + i, unit, units,
               Load<T>(product.At(i, unit - part.col)) +
                   units.Read(bias + unit));
        });
      }
    });
  }

  // r = sigmoid(r_bar), and h_prev ∘ r
  void ResetGate(const PanelBlock& block, int worker) const {
    ForEachVector(block, worker, r_bar_, a_.b_ru,
                  [&](std::int64_t row, std::int64_t unit, auto units,
                      Vector<T> r_bar) TF_RNN_OPS_LAMBDA_INLINE {
                    const std::int64_t i = row * cell_size_ + unit;
                    const Vector<T> r = Sigmoid<T>(r_bar);
                    units.Write(r, a_.r + i);
                    units.Write(units.Read(a_.h_prev + i) * r,
                                reset_state_.At(row, unit));
                  });
  }

  // u = sigmoid(u_bar)
  void UpdateGate(const PanelBlock& block, int worker) const {
    ForEachVector(
        block, worker, u_bar_, a_.b_ru + cell_size_,
        [&](std::int64_t row, std::int64_t unit, auto units, Vector<T> u_bar)
            TF_RNN_OPS_LAMBDA_INLINE {
              units.Write(Sigmoid<T>(u_bar), a_.u + row * cell_size_ + unit);
            });
  }

  // c = tanh(c_bar), h = u ∘ h_prev + (1 - u) ∘ c
  void Candidate(const PanelBlock& block, int worker) const {
    ForEachVector(block, worker, c_bar_, a_.b_c,
                  [&](std::int64_t row, std::int64_t unit, auto units,
                      Vector<T> c_bar) TF_RNN_OPS_LAMBDA_INLINE {
                    const std::int64_t i = row * cell_size_ + unit;
                    const Vector<T> c = Tanh<T>(c_bar);
                    const Vector<T> u = units.Read(a_.u + i);
                    units.Write(c, a_.c + i);
                    units.Write(SumOfProducts<T>(u, units.Read(a_.h_prev + i),
                                                 T(1) - u, c),
                                a_.h + i);
                  });
  }

  const GruBlockCellForward<T> a_;
  const GruBlockStepForwardScratch<T> scratch_;
  Executor& executor_;
  const std::int64_t batch_;
  const std::int64_t input_size_;
  const std::int64_t cell_size_;
  const LeftMatrix<T> x_;                   // [B, I]
  const LeftMatrix<T> h_prev_;              // [B, C]
  const MutableLeftMatrix<T> reset_state_;  // [B, C]
  const PanelBlocks<T> gate_blocks_;        // of r_bar and of u_bar
  const PanelBlocks<T> candidate_blocks_;   // of c_bar
  // [B, C], excluding biases.
  Product r_bar_;
  Product u_bar_;
  Product c_bar_;
};

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_GRU_BLOCK_STEP_FORWARD_H_
