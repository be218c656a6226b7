// The functions that run a pass, for NetworkKernels.

#ifndef TF_RNN_OPS_CC_RNN_SIMD_NETWORK_PASS_FUNCTIONS_H_
#define TF_RNN_OPS_CC_RNN_SIMD_NETWORK_PASS_FUNCTIONS_H_

#include <cassert>
#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/network.h"
#include "cc/rnn/simd/network/network_forward.h"
#include "cc/rnn/simd/network/network_pass.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {

template <typename Arguments>
bool IsEmpty(const Arguments& arguments) {
  return HasNoState(arguments.config, arguments.size);
}
template <typename T>
bool IsEmpty(const WeightPacking<T>& arguments) {
  return arguments.config.num_units == 0;
}

// The bytes of scratch memory that a call needs.
template <typename Call, typename Arguments>
std::int64_t Workspace(const Arguments& arguments, int num_threads) {
  if (IsEmpty(arguments)) return 0;
  Arena arena(nullptr);
  Call(arguments, num_threads, arena);
  return arena.used();
}

template <typename Call, typename Arguments>
void Run(const Arguments& arguments, Executor& executor) {
  Arena arena(arguments.workspace);
  const Call call(arguments, executor.num_threads(), arena);
  assert(IsEmpty(arguments) ||
         arena.used() == Workspace<Call>(arguments, executor.num_threads()));
  call.Run(executor);
}

// The same for a forward pass. With packed weights, it may be so short that
// waking threads takes longer than they save, which is at most half.
template <typename Forward, typename T>
void RunForward(const NetworkForward<T>& arguments, Executor& executor) {
  if (!arguments.weights.is_packed() ||
      Forward::MicrosecondsIfPacked(arguments) / 2 >= kMinWakeMicros) {
    Run<Forward>(arguments, executor);
  } else {
    SerialExecutor serial;
    Run<Forward>(arguments, serial);
  }
}

// Sets the functions of the forward pass.
// P, Products: see ForwardPass.
template <typename P, typename Products = PlainProducts<P>, typename T>
void SetForward(NetworkKernels<T>* kernels) {
  using Forward = ForwardPass<T, P, Products>;
  using Packing = WeightPackingPass<T, P, Products>;
  kernels->forward_workspace = &Workspace<Forward, NetworkForward<T>>;
  kernels->forward = &RunForward<Forward, T>;
  kernels->packed_weights_bytes = &Packing::Bytes;
  kernels->pack_weights_workspace = &Workspace<Packing, WeightPacking<T>>;
  kernels->pack_weights = &Run<Packing, WeightPacking<T>>;
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET

#endif  // TF_RNN_OPS_CC_RNN_SIMD_NETWORK_PASS_FUNCTIONS_H_
