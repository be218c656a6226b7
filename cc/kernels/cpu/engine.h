// What every kernel for the CPU needs to call the engine in cc/rnn.

#ifndef TF_RNN_OPS_CC_KERNELS_CPU_ENGINE_H_
#define TF_RNN_OPS_CC_KERNELS_CPU_ENGINE_H_

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/cudnn_rnn_inputs.h"
#include "cc/kernels/make_output.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/reserve_space.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_rnn_ops {

// The engine's calls that use the intra-op pool, of which a process has one as
// a rule; if it has several, they have the same CPUs.
inline rnn::PoolUsers& IntraOpPoolUsers() {
  static rnn::PoolUsers users;
  return users;
}

// The CPUs that the calling thread may run on: more threads would wait for one
// another's.
inline int NumCpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    return std::numeric_limits<int>::max();  // more than fit into the set
  }
  return CPU_COUNT(&cpus);
}

// Runs the engine's tasks on TensorFlow's intra-op pool, within its limit and
// the calling thread's, which tf.data may have lowered, until TensorFlow
// cancels the step that the kernel is called in.
inline rnn::PoolExecutor IntraOpExecutor(tensorflow::OpKernelContext* ctx) {
  const auto* workers = ctx->device()->tensorflow_cpu_worker_threads();
  rnn::Executor::IsCancelled is_cancelled;
  if (auto* manager = ctx->cancellation_manager()) {
    is_cancelled = [manager] { return manager->IsCancelled(); };
  }
  return rnn::PoolExecutor(
      [pool = workers->workers](std::function<void()> closure) {
        pool->Schedule(std::move(closure));
      },
      std::min({workers->num_threads, tensorflow::GetPerThreadMaxParallelism(),
                NumCpus()}),
      std::move(is_cancelled), &IntraOpPoolUsers());
}

// What to return when an executor's tasks are done.
inline absl::Status CheckNotCancelled(tensorflow::OpKernelContext* ctx,
                                      const rnn::Executor& executor) {
  if (!executor.is_cancelled()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(ctx->op_kernel().type_string(),
                                           " was cancelled while it ran."));
}

// Runs a pass of the engine, with scratch memory for it.
// inputs: whose TooLarge() says that the pass takes too much memory to count.
// workspace: returns how many bytes of scratch memory the pass takes; negative
//   if they are too many to count.
template <typename Inputs, typename Pass>
absl::Status RunPass(tensorflow::OpKernelContext* ctx, const Inputs& inputs,
                     std::int64_t (*workspace)(const Pass&, int num_threads),
                     void (*run)(const Pass&, rnn::Executor&), Pass* pass) {
  rnn::PoolExecutor executor = IntraOpExecutor(ctx);
  const std::int64_t num_bytes = workspace(*pass, executor.num_threads());
  if (num_bytes < 0) return inputs.TooLarge();
  tensorflow::Tensor scratch;
  TF_RETURN_IF_ERROR(
      MakeTemp(ctx, tensorflow::DT_UINT8, {num_bytes}, &scratch));
  pass->workspace = scratch.data();
  run(*pass, executor);
  return CheckNotCancelled(ctx, executor);
}

// Copies within the CPU's memory.
class CpuCopier {
 public:
  absl::Status Init(tensorflow::OpKernelContext*) { return absl::OkStatus(); }

  absl::Status Copy(const void* source, std::size_t num_bytes, void* target) {
    std::copy_n(static_cast<const char*>(source), num_bytes,
                static_cast<char*>(target));
    return absl::OkStatus();
  }
};

inline void SetZero(tensorflow::Tensor* tensor) {
  std::fill_n(static_cast<char*>(tensor->data()), tensor->TotalBytes(), 0);
}

// Puts an aligned copy in the place of a reserve_space that is not, in which
// the engine finds wider types than its own.
inline absl::Status AlignReserveSpace(tensorflow::OpKernelContext* ctx,
                                      tensorflow::Tensor* reserve_space) {
  if (reserve_space->IsAligned()) return absl::OkStatus();
  tensorflow::Tensor copy;
  TF_RETURN_IF_ERROR(ctx->allocate_temp(reserve_space->dtype(),
                                        reserve_space->shape(), &copy));
  std::memcpy(copy.data(), reserve_space->data(), reserve_space->TotalBytes());
  *reserve_space = std::move(copy);
  return absl::OkStatus();
}

inline rnn::ReserveSpaceHeader CopyHeader(
    const tensorflow::Tensor& reserve_space) {
  return rnn::CopyReserveSpaceHeader(
      reserve_space.data(),
      static_cast<std::int64_t>(reserve_space.TotalBytes()));
}

// The same of a reserve_space that any device left, which is aligned then.
inline absl::Status ReadReserveSpaceHeader(tensorflow::OpKernelContext* ctx,
                                           tensorflow::Tensor* reserve_space,
                                           rnn::ReserveSpaceHeader* header) {
  TF_RETURN_IF_ERROR(AlignReserveSpace(ctx, reserve_space));
  *header = CopyHeader(*reserve_space);
  return absl::OkStatus();
}

// Copies the header and returns why the forward pass of this network did not
// leave the reserve_space on a CPU; empty if it did.
// E: the engine's type of the elements.
template <typename E, typename Inputs>
std::string FindReserveSpaceMismatch(const Inputs& inputs,
                                     const tensorflow::Tensor& reserve_space,
                                     rnn::ReserveSpaceHeader* header) {
  *header = CopyHeader(reserve_space);
  return rnn::ReserveSpaceMismatch<E>(
      inputs.MakeReserveSpaceKey(), header->data(), reserve_space.NumElements(),
      rnn::ReserveSpaceSize<E>(inputs.config(), inputs.size()));
}

// The engine's kernels for the network, on this CPU.
template <typename E, typename Inputs>
rnn::CudnnRnnKernels<E> NetworkKernels(const Inputs& inputs) {
  return rnn::GetCudnnRnnKernels<E>(rnn::ActiveInstructionSet(),
                                    inputs.config());
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_CPU_ENGINE_H_
