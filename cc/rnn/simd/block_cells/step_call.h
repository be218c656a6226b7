// Runs one step of a cell as a call of the engine.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_STEP_CALL_H_
#define TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_STEP_CALL_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/block_cells/panel_blocks.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

// Whether the state is empty. The other sizes are then unchecked, and their
// products may overflow.
inline bool HasNoState(const BlockCellSize& size) {
  return size.batch == 0 || size.cell_size == 0;
}

// Estimated serial time of the products of [x h_prev] with `num_products`
// matrices [I + C, C].
inline double MicrosecondsOfProducts(const BlockCellSize& size,
                                     int num_products) {
  constexpr double kWorkPerMicrosecond = 1e5;  // multiply-adds
  const double cell_size = static_cast<double>(size.cell_size);
  const double fan_in = static_cast<double>(size.input_size) + cell_size;
  return (static_cast<double>(size.batch) + kRowsWorthReading) *
         (fan_in * num_products * cell_size) / kWorkPerMicrosecond;
}

// The bytes of scratch memory that a step needs.
// Call: a class with a type Memory, which takes arrays from an arena, and
//   static void Run(const Arguments&, const Memory&, Executor&);
//   // Estimated serial time.
//   static double Microseconds(const BlockCellSize&);
template <typename Call, typename Arguments>
std::int64_t StepWorkspace(const Arguments& arguments, int num_threads) {
  if (HasNoState(arguments.size)) return 0;
  Arena arena(nullptr);
  const bool is_never_shared =
      Call::Microseconds(arguments.size) < kMinSharedMicros;
  typename Call::Memory(arguments, is_never_shared ? 1 : num_threads, arena);
  return arena.used();
}

// Runs a step with a state, on one thread if it is short.
template <typename Call, typename Arguments>
void RunStep(const Arguments& arguments, Executor& executor) {
  const auto run = [&](Executor& chosen) {
    Arena arena(arguments.workspace);
    const typename Call::Memory memory(arguments, chosen.num_threads(), arena);
    assert(arena.used() <=
           StepWorkspace<Call>(arguments, chosen.num_threads()));
    Call::Run(arguments, memory, chosen);
  };
  if (executor.IsWorthSharing(Call::Microseconds(arguments.size))) {
    run(executor);
  } else {
    SerialExecutor serial;
    run(serial);
  }
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_BLOCK_CELLS_STEP_CALL_H_
