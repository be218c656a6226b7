// Shared by the CPU engines of all ops: calls the engine in cc/rnn.

#ifndef TF_RNN_OPS_CC_OPS_CPU_RUN_PASS_H_
#define TF_RNN_OPS_CC_OPS_CPU_RUN_PASS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cc/ops/array.h"
#include "cc/ops/call_frame.h"
#include "cc/ops/cpu/num_cpus.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops {

// The running calls of this process. All pools share the same CPUs, and usually
// a process has one pool.
inline rnn::PoolUsers& AllPoolUsers() {
  static rnn::PoolUsers users;
  return users;
}

inline rnn::PoolExecutor MakeExecutor(Threads threads) {
  const std::int64_t count = std::min<std::int64_t>(threads.count, NumCpus());
  return rnn::PoolExecutor(std::move(threads.schedule), static_cast<int>(count),
                           std::move(threads.is_cancelled), &AllPoolUsers());
}

// The results of a cancelled call must not be used.
inline Status CheckNotCancelled(const rnn::Executor& executor) {
  if (!executor.is_cancelled()) return Status();
  return Status(StatusCode::kCancelled, "The op was cancelled while it ran.");
}

// Runs a pass of the engine, with scratch memory for it.
// inputs: its TooLarge() is the error for sizes that overflow.
// workspace: returns the number of bytes of scratch memory that the pass needs;
//   negative if it overflows.
template <typename Inputs, typename Pass>
Status RunPass(CallFrame* frame, const Inputs& inputs,
               std::int64_t (*workspace)(const Pass&, int num_threads),
               void (*run)(const Pass&, rnn::Executor&), Pass* pass) {
  rnn::PoolExecutor executor = MakeExecutor(frame->FindThreads());
  const std::int64_t num_bytes = workspace(*pass, executor.num_threads());
  if (num_bytes < 0) return inputs.TooLarge();
  TF_RNN_OPS_RETURN_IF_ERROR(frame->MakeScratch(num_bytes, &pass->workspace));
  run(*pass, executor);
  return CheckNotCancelled(executor);
}

inline void SetZero(const Array& array) {
  std::fill_n(static_cast<char*>(array.data), array.num_bytes, 0);
}

// Whether all elements of type E are zeros. Stops after the first block with
// another element.
template <typename E>
bool AreZeros(const Array& array) {
  constexpr std::int64_t kBlock = 1024;  // elements without a branch
  const auto is_zero = [](E x) {
    if constexpr (sizeof(E) == 2) {
      return (x.bits & 0x7fff) == 0;
    } else {
      return x == 0;
    }
  };
  const E* const elements = array.As<E>();
  const std::int64_t size = array.num_elements;
  bool are_zeros = true;
  for (std::int64_t i = 0; i < size && are_zeros; i += kBlock) {
    for (std::int64_t j = i; j < std::min(i + kBlock, size); ++j) {
      are_zeros &= is_zero(elements[j]);
    }
  }
  return are_zeros;
}

// Replaces an unaligned reserve_space by an aligned copy. The engine reads
// types from it that are wider than its elements.
inline Status AlignReserveSpace(CallFrame* frame, Array* reserve_space) {
  constexpr std::uintptr_t kAlignment = 64;
  const auto address = reinterpret_cast<std::uintptr_t>(reserve_space->data);
  if (address % kAlignment == 0) return Status();
  void* copy;
  TF_RNN_OPS_RETURN_IF_ERROR(
      frame->MakeScratch(reserve_space->num_bytes, &copy));
  std::copy_n(static_cast<const char*>(reserve_space->data),
              reserve_space->num_bytes, static_cast<char*>(copy));
  reserve_space->data = copy;
  return Status();
}

// Aligns a reserve_space and copies its header.
inline Status ReadReserveSpaceHeader(CallFrame* frame, Array* reserve_space,
                                     rnn::ReserveSpaceHeader* header) {
  TF_RNN_OPS_RETURN_IF_ERROR(AlignReserveSpace(frame, reserve_space));
  *header = rnn::CopyReserveSpaceHeader(reserve_space->data,
                                        reserve_space->num_bytes);
  return Status();
}

// Finds the size of the reserve_space of a network; kAnySize if it depends on
// unknown sizes.
template <typename E, typename Inputs>
Status FindReserveSpaceSize(const Inputs& inputs, std::int64_t* size) {
  *size = kAnySize;
  if (!inputs.is_complete()) return Status();
  *size = rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size());
  return *size < 0 ? inputs.TooLarge() : Status();
}

// The engine's kernels for the network, on this CPU.
template <typename E, typename Inputs>
rnn::NetworkKernels<E> KernelsFor(const Inputs& inputs) {
  return rnn::GetNetworkKernels<E>(rnn::ActiveInstructionSet(),
                                   inputs.config());
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_OPS_CPU_RUN_PASS_H_
