// The cells that there are.
//
// A cell has
//   kGates: the gates that W x and R h_prev are made for;
//   kBlocks: the sums that it makes for each unit before it activates them. The
//     first kGates get W x + bW, where block i is of gate
//     (i + kFirstInputGate) % kGates; those from kFirstRecurrent on, kGates of
//     them, get R h_prev + bR in the order of the gates;
//   kKept: the values that it keeps for the backward pass;
//   kHasCellState: whether there is a c beside h. Then c is the last value
//   kept; kReadsPreviousHidden: whether h_prev is read other than by R h_prev;
//   Forward: returns h or, with a projection, what P is multiplied by;
//   Backward: returns the gradient with respect to h_prev, but for what comes
//     through R h_prev.
// A name with _bar is a sum before its activation.
// Both take a run (cell_run.h) of vectors or of dual numbers, which has the
// activations (activation.h).

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/gru_cell.h"
#include "cc/rnn/simd/cells/lstm_cell.h"
#include "cc/rnn/simd/cells/plain_cell.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The gate of a block of W x.
template <typename Cell>
constexpr std::int64_t InputGate(std::int64_t block) {
  return (block + Cell::kFirstInputGate) % Cell::kGates;
}

// A cell, which is what its mode's traits say.
template <RnnMode mode, typename Cell>
constexpr Cell CellOf() {
  static_assert(Cell::kGates == TraitsOf(mode).gates);
  static_assert(Cell::kBlocks == TraitsOf(mode).blocks);
  static_assert(Cell::kKept == TraitsOf(mode).kept);
  static_assert(Cell::kHasCellState == TraitsOf(mode).has_cell_state);
  return {};
}

// Calls run(cell), where the cell's type is that of the mode.
template <typename T, typename Run>
void WithCell(RnnMode mode, const Run& run) {
  switch (mode) {
    case RnnMode::kRelu:
      return run(CellOf<RnnMode::kRelu, ReluCell<T>>());
    case RnnMode::kTanh:
      return run(CellOf<RnnMode::kTanh, TanhCell<T>>());
    case RnnMode::kLstm:
      return run(CellOf<RnnMode::kLstm, LstmCell<T>>());
    case RnnMode::kGru:
      return run(CellOf<RnnMode::kGru, GruCell<T>>());
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
