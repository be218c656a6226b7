// One step of LSTMBlockCell, forward and backward.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_STEP_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_STEP_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/lstm_block_cell.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/block_cells/panel_blocks.h"
#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/cell_run.h"
#include "cc/rnn/simd/cells/lstm_cell.h"
#include "cc/rnn/simd/matmul/matrix_view.h"
#include "cc/rnn/simd/matmul/parallel_product.h"
#include "cc/rnn/simd/matmul/weight_product.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

constexpr int kLstmGates = 4;

// The place in the weights of each gate of LstmCell: i, f, g, o.
constexpr std::array<std::int64_t, kLstmGates> GatePlaces() {
  return {0, 2, 1, 3};
}

// The run of LstmCell in a step forward, for a vector of units of one sample.
template <typename T, typename Units>
struct LstmStepForwardRun : ValueRun<T, Units, StandardActivations<T>> {
  using PeepholeRun<T, Units>::units;

  const T* c_prev;
  T forget_bias;
  LstmActivations<T> kept;                    // null if not needed
  std::array<const T*, kLstmGates> products;  // [x h_prev] * w
  std::array<const T*, kLstmGates> biases;

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Sum(std::int64_t gate) const {
    const Vector<T> sum = Load<T>(products[gate]) + units.Read(biases[gate]);
    return gate == 1 ? sum + forget_bias : sum;
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> CellState() const {
    return units.Read(c_prev);
  }
  // It is among the kept values, too.
  TF_RNN_OPS_VECTOR_INLINE void StoreCellState(Vector<T>) const {}
  TF_RNN_OPS_VECTOR_INLINE void Keep(std::int64_t index, Vector<T> x) const {
    T* const to = kept.arrays[index];
    if (to != nullptr) units.Write(x, to);
  }
};

// Scratch memory of a step forward with B > 0 and C > 0.
template <typename T>
struct LstmBlockStepForwardScratch {
  StepInputs<T> inputs;
  PanelScratch<T> workers;

  LstmBlockStepForwardScratch(const BlockCellSize& size, int num_threads,
                              Arena& arena)
      : inputs(size, arena),
        workers(size.batch, num_threads, arena, kLstmGates) {}
};

template <typename T>
class LstmBlockStepForward {
 public:
  // a: requires B > 0 and C > 0. Its workspace is ignored.
  LstmBlockStepForward(const LstmBlockCellForward<T>& a,
                       const LstmBlockStepForwardScratch<T>& scratch,
                       Executor& executor)
      : a_(a),
        scratch_(scratch),
        executor_(executor),
        batch_(a.size.batch),
        input_size_(a.size.input_size),
        cell_size_(a.size.cell_size),
        x_(scratch.inputs.X(a.x)),
        h_prev_(scratch.inputs.HPrev(a.h_prev)),
        blocks_(batch_, input_size_ + cell_size_, cell_size_, kLstmGates,
                executor.num_threads()) {
    const MatrixView<const T> w(a.w, input_size_ + cell_size_,
                                kLstmGates * cell_size_);
    for (int gate = 0; gate < kLstmGates; ++gate) {
      const auto of_gate = w.Cols(GatePlaces()[gate] * cell_size_, cell_size_);
      products_[gate].Add(x_, of_gate.Rows(0, input_size_));
      products_[gate].Add(h_prev_, of_gate.Rows(input_size_, cell_size_));
    }
  }

  void Run() const {
    scratch_.inputs.Pack(a_.x, a_.h_prev, executor_);
    executor_.ParallelFor(
        blocks_.size() / kLstmGates, [this](std::int64_t task, int worker) {
          blocks_.block(task).template ForEachPart<T>(
              [&](const PanelBlock& part) { RunCells(part, worker); });
        });
  }

 private:
  void RunCells(const PanelBlock& part, int worker) const {
    std::array<MatrixView<T>, kLstmGates> products = {
        scratch_.workers.Product(part, worker, 0),
        scratch_.workers.Product(part, worker, 1),
        scratch_.workers.Product(part, worker, 2),
        scratch_.workers.Product(part, worker, 3)};
    for (int gate = 0; gate < kLstmGates; ++gate) {
      products_[gate].Multiply(part.row, part.rows, part.col, part.cols,
                               scratch_.workers.Packed(worker), products[gate]);
    }
    for (std::int64_t i = 0; i < part.rows; ++i) {
      part.ForEachVector<T>([&](std::int64_t unit, auto units) {
        const std::int64_t at = (part.row + i) * cell_size_ + unit;
        LstmStepForwardRun<T, decltype(units)> run{};
        run.units = units;
        run.peepholes = a_.peepholes.At(unit);
        run.clip = static_cast<T>(a_.options.cell_clip);
        run.c_prev = a_.c_prev + at;
        run.forget_bias = static_cast<T>(a_.options.forget_bias);
        run.kept = a_.activations.At(at);
        for (int gate = 0; gate < kLstmGates; ++gate) {
          run.products[gate] = products[gate].At(i, unit - part.col);
          run.biases[gate] = a_.b + GatePlaces()[gate] * cell_size_ + unit;
        }
        const Vector<T> h = LstmCell<T, /*kIsBlock=*/true>::Forward(run);
        if (a_.h != nullptr) units.Write(h, a_.h + at);
      });
    }
  }

  const LstmBlockCellForward<T> a_;
  const LstmBlockStepForwardScratch<T> scratch_;
  Executor& executor_;
  const std::int64_t batch_;
  const std::int64_t input_size_;
  const std::int64_t cell_size_;
  const LeftMatrix<T> x_;       // [B, I]
  const LeftMatrix<T> h_prev_;  // [B, C]
  // Of one gate. A task has the same block of all gates, as wide as if each
  // gate were a task, because long pieces of the weights' rows are faster.
  const PanelBlocks<T> blocks_;
  // [B, C] of each gate, excluding biases.
  std::array<WeightProduct<T, /*kTransposed=*/false>, kLstmGates> products_;
};

// The run of LstmCell in a step backward.
template <typename T, typename Units>
struct LstmStepBackwardRun : PeepholeRun<T, Units> {
  using PeepholeRun<T, Units>::units;

  StandardActivations<T> activations;
  LstmActivations<const T> kept;
  const T* c_prev;
  const T* d_c;
  const T* d_h;
  T* d_c_prev;
  std::array<T*, kLstmGates> d_gates;
  Vector<T>* d_peepholes;  // sums over the samples

  TF_RNN_OPS_VECTOR_INLINE Vector<T> Kept(std::int64_t index) const {
    return units.Read(kept.arrays[index]);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> PreviousCellState() const {
    return units.Read(c_prev);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> HiddenGradient() const {
    return units.Read(d_h);
  }
  TF_RNN_OPS_VECTOR_INLINE Vector<T> CellStateGradient() const {
    return units.Read(d_c);
  }
  // Only c and h have gradients.
  TF_RNN_OPS_VECTOR_INLINE Vector<T> AddOutputGradient(std::int64_t /*index*/,
                                                       Vector<T> sum) const {
    return sum;
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreBlock(std::int64_t block,
                                           Vector<T> x) const {
    if (block < kLstmGates) {
      units.Write(x, d_gates[block]);
    } else {
      d_peepholes[block - kLstmGates] += x;
    }
  }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellStateGradient(Vector<T> x) const {
    units.Write(x, d_c_prev);
  }
  TF_RNN_OPS_VECTOR_INLINE bool has_cell_output() const { return false; }
  TF_RNN_OPS_VECTOR_INLINE void StoreCellOutput(Vector<T>) const {}
};

// a: requires B > 0 and C > 0. Its workspace is ignored.
template <typename T>
void RunLstmBlockStepBackward(const LstmBlockCellBackward<T>& a,
                              Executor& executor) {
  const std::int64_t rows = a.size.batch, cell_size = a.size.cell_size;
  constexpr auto places = GatePlaces();
  // Of a task. It sums over all samples.
  constexpr std::int64_t kUnits = 4 * kTileCols<T>;
  executor.ParallelFor(CeilDiv(cell_size, kUnits), [&](std::int64_t task) {
    const std::int64_t first = task * kUnits;
    const PanelBlock block{0, rows, first, Min(kUnits, cell_size - first)};
    block.ForEachVector<T>([&](std::int64_t unit, auto units) {
      Vector<T> d_peepholes[kNumPeepholes] = {};
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = row * cell_size + unit;
        LstmStepBackwardRun<T, decltype(units)> run{};
        run.units = units;
        run.peepholes = a.peepholes.At(unit);
        run.kept = a.activations.At(at);
        run.c_prev = a.c_prev + at;
        run.d_c = a.d_c + at;
        run.d_h = a.d_h + at;
        run.d_c_prev = a.d_c_prev + at;
        run.d_peepholes = d_peepholes;
        for (int gate = 0; gate < kLstmGates; ++gate) {
          run.d_gates[gate] =
              a.d_gates + (row * kLstmGates + places[gate]) * cell_size + unit;
        }
        LstmCell<T, /*kIsBlock=*/true>::Backward(run);
      }
      for (int i = 0; i < kNumPeepholes && a.d_peepholes.any(); ++i) {
        units.Write(d_peepholes[i], a.d_peepholes.arrays[i] + unit);
      }
    });
  });
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_LSTM_BLOCK_STEP_H_
