#include "cc/rnn/gru_block_cell.h"

#include "cc/rnn/instruction_set.h"
#include "cc/rnn/simd/block_cells/gru_block_cell.h"

namespace tf_rnn_ops::rnn {
template <typename T>
GruBlockCellKernels<T> GetGruBlockCellKernels(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
    case InstructionSet::kAmx:
    case InstructionSet::kAvx512Bf16:
    case InstructionSet::kAvx512:
      return avx512::GruBlockCell<T>();
    case InstructionSet::kAvx2:
      return avx2::GruBlockCell<T>();
#endif
    default:
      return baseline::GruBlockCell<T>();
  }
}

#define INSTANTIATE(T) \
  template GruBlockCellKernels<T> GetGruBlockCellKernels<T>(InstructionSet)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
