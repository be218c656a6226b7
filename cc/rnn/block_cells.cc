#include "cc/rnn/simd/block_cells/block_cells.h"

#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/lstm_block_cell.h"

namespace tf_rnn_ops::rnn {

#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
#define TF_RNN_OPS_CHOOSE(Cell)       \
  switch (instruction_set) {          \
    case InstructionSet::kAmx:        \
    case InstructionSet::kAvx512Bf16: \
    case InstructionSet::kAvx512Vnni: \
    case InstructionSet::kAvx512:     \
      return avx512::Cell<T>();       \
    case InstructionSet::kAvx2:       \
      return avx2::Cell<T>();         \
    default:                          \
      return baseline::Cell<T>();     \
  }
#else
#define TF_RNN_OPS_CHOOSE(Cell) return baseline::Cell<T>()
#endif

template <typename T>
GruBlockCellKernels<T> GetGruBlockCellKernels(
    [[maybe_unused]] InstructionSet instruction_set) {
  TF_RNN_OPS_CHOOSE(GruBlockCell);
}

template <typename T>
LstmBlockCellKernels<T> GetLstmBlockCellKernels(
    [[maybe_unused]] InstructionSet instruction_set) {
  TF_RNN_OPS_CHOOSE(LstmBlockCell);
}

#define INSTANTIATE(T)                                                       \
  template GruBlockCellKernels<T> GetGruBlockCellKernels<T>(InstructionSet); \
  template LstmBlockCellKernels<T> GetLstmBlockCellKernels<T>(InstructionSet)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE
#undef TF_RNN_OPS_CHOOSE

}  // namespace tf_rnn_ops::rnn
