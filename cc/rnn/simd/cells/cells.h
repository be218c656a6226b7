// The recurrent cells.
//
// A cell has
//   kGates: the number of gates, which W x and R have;
//   kRecurrentGates: how many of them, the first ones, multiply R with h_prev.
//     If not all do, a step has a second half. It multiplies R of the last gate
//     with the result of the first half;
//   kBlocks: the number of pre-activation sums for each unit. The first kGates
//     get W x + bW, where block i belongs to gate
//     (i + kFirstInputGate) % kGates. The kRecurrentGates blocks from
//     kFirstRecurrent on get R h_prev + bR in the order of the gates;
//   kKept: the number of values kept for the backward pass, without h in rnn;
//   kHasCellState: whether there is a cell state c. If so, c is the last kept
//     value;
//   kReadsPreviousHidden: whether h_prev is read other than through R h_prev;
//   kIsBlockLstm: whether it is the cell of TensorFlow's LSTM ops;
//   Forward: returns h or, if the step has a second half, what that multiplies;
//   Finish: the second half, unless it is a projection; returns h;
//   Backward: returns the gradient with respect to h_prev, except the part
//     through R h_prev;
//   FinishBackward: the gradient of the first half, unless the second is a
//     projection; returns what it adds to the gradient with respect to h_prev.
// A name with the suffix _bar is a pre-activation sum.
// They take a run (cell_run.h) of vectors or dual numbers,
// which holds the activations (activation.h).

#ifndef TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_

#include <cstdint>

#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/cells/activation.h"
#include "cc/rnn/simd/cells/gru_cell.h"
#include "cc/rnn/simd/cells/gru_reset_before_cell.h"
#include "cc/rnn/simd/cells/lstm_cell.h"
#include "cc/rnn/simd/cells/plain_cell.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// The gate to which a block of W x belongs.
template <typename Cell>
constexpr std::int64_t InputGate(std::int64_t block) {
  return (block + Cell::kFirstInputGate) % Cell::kGates;
}

// Checks a cell against the traits of its mode.
template <RnnMode mode, typename Cell>
constexpr Cell CellOf() {
  static_assert(Cell::kGates == TraitsOf(mode).gates);
  static_assert(Cell::kRecurrentGates == TraitsOf(mode).recurrent_gates);
  static_assert(Cell::kBlocks == TraitsOf(mode).blocks);
  static_assert(Cell::kKept == TraitsOf(mode).kept);
  static_assert(Cell::kHasCellState == TraitsOf(mode).has_cell_state);
  return {};
}

// Whether a step of the cell has a second half other than a projection.
template <typename Cell>
constexpr bool kHasFinish = Cell::kRecurrentGates < Cell::kGates;

// Calls run(cell, activations) with the types of one of cuDNN's modes.
template <typename T, typename Run>
void WithCudnnCell(RnnMode mode, const Run& run) {
  switch (mode) {
    case RnnMode::kRelu:
      return run(CellOf<RnnMode::kRelu, PlainCell<T>>(), ReluActivations<T>());
    case RnnMode::kTanh:
      return run(CellOf<RnnMode::kTanh, PlainCell<T>>(),
                 StandardActivations<T>());
    case RnnMode::kLstm:
      return run(CellOf<RnnMode::kLstm, LstmCell<T>>(),
                 StandardActivations<T>());
    case RnnMode::kGru:
      return run(CellOf<RnnMode::kGru, GruCell<T>>(), StandardActivations<T>());
    case RnnMode::kGruResetBefore:
    case RnnMode::kRnn:
      return;  // not of cuDNN
  }
}

// Calls run(cell) with the cell type of the mode.
template <typename T, typename Run>
void WithCell(RnnMode mode, const Run& run) {
  switch (mode) {
    case RnnMode::kRelu:
    case RnnMode::kTanh:
    case RnnMode::kRnn:
      return run(CellOf<RnnMode::kTanh, PlainCell<T>>());
    case RnnMode::kLstm:
      return run(CellOf<RnnMode::kLstm, LstmCell<T>>());
    case RnnMode::kGru:
      return run(CellOf<RnnMode::kGru, GruCell<T>>());
    case RnnMode::kGruResetBefore:
      return run(CellOf<RnnMode::kGruResetBefore, GruResetBeforeCell<T>>());
  }
}

// Calls run(cell) with the cell type of a network.
template <typename T, typename Run>
void WithCell(const RnnConfig& config, const Run& run) {
  if (config.block_lstm.is_used) return run(LstmCell<T, /*kIsBlock=*/true>());
  WithCell<T>(config.mode, run);
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_CELLS_CELLS_H_
