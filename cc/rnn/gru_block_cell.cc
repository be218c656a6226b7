#include "cc/rnn/gru_block_cell.h"

#include <type_traits>

#include "cc/rnn/simd/gru_block_cell.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename T>
constexpr bool kIsWidened = !std::is_same_v<T, ComputeType<T>>;

}  // namespace

template <typename T>
std::int64_t GruBlockCellForwardWorkspace(const GruBlockCellSize& size) {
  const auto [batch, input_size, cell_size] = size;
  const std::int64_t state = batch * cell_size;
  const std::int64_t reset_state = state;
  if (!kIsWidened<T>) return reset_state;
  const std::int64_t activations = batch * input_size + state;  // x, h_prev
  const std::int64_t weights = (input_size + cell_size) * 3 * cell_size;
  const std::int64_t biases = 3 * cell_size;
  const std::int64_t outputs = 4 * state;  // r, u, c, h
  return reset_state + activations + weights + biases + outputs;
}

template <typename T>
std::int64_t GruBlockCellBackwardWorkspace(const GruBlockCellSize& size) {
  const auto [batch, input_size, cell_size] = size;
  if (!kIsWidened<T>) return 0;
  const std::int64_t state = batch * cell_size;
  const std::int64_t activations = 4 * state;  // h_prev, r, u, c
  const std::int64_t weights = (input_size + cell_size) * 3 * cell_size;
  const std::int64_t gradients = 4 * state;  // d_r, d_u, d_c, d_h
  const std::int64_t outputs =               // d_x, d_h_prev, both d_bar
      batch * input_size + 4 * state;
  return activations + weights + gradients + outputs;
}

template <typename T>
GruBlockCellKernels<T> GetGruBlockCellKernels(InstructionSet instruction_set) {
  switch (instruction_set) {
#if defined(__x86_64__)
    case InstructionSet::kAmx:
    case InstructionSet::kAvx512:
      return avx512::GruBlockCell<T>();
    case InstructionSet::kAvx2:
      return avx2::GruBlockCell<T>();
#endif
    default:
      return baseline::GruBlockCell<T>();
  }
}

#define INSTANTIATE(T)                                    \
  template std::int64_t GruBlockCellForwardWorkspace<T>(  \
      const GruBlockCellSize&);                           \
  template std::int64_t GruBlockCellBackwardWorkspace<T>( \
      const GruBlockCellSize&);                           \
  template GruBlockCellKernels<T> GetGruBlockCellKernels<T>(InstructionSet)

INSTANTIATE(Half);
INSTANTIATE(BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::rnn
