// What every kernel needs to call the engine in cc/rnn.

#ifndef TF_RNN_OPS_CC_KERNELS_ENGINE_H_
#define TF_RNN_OPS_CC_KERNELS_ENGINE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tf_rnn_ops {

// The engine's type for TensorFlow's T: the same bits.
template <typename T>
struct EngineTypeOf {
  using Type = T;
};
template <>
struct EngineTypeOf<Eigen::half> {
  using Type = rnn::Half;
};
template <>
struct EngineTypeOf<Eigen::bfloat16> {
  using Type = rnn::BFloat16;
};
template <typename T>
using EngineType = typename EngineTypeOf<T>::Type;

// A tensor's elements, as the engine reads and writes them. Tensors that other
// libraries lend TensorFlow may lie at addresses at which flat() would abort.
template <typename T>
const EngineType<T>* EngineData(const tensorflow::Tensor& tensor) {
  return static_cast<const EngineType<T>*>(tensor.data());
}
template <typename T>
EngineType<T>* EngineData(tensorflow::Tensor* tensor) {
  return static_cast<EngineType<T>*>(tensor->data());
}

// Runs the engine's tasks on TensorFlow's intra-op pool, within its limit and
// the calling thread's, which tf.data may have lowered.
inline rnn::PoolExecutor IntraOpExecutor(tensorflow::OpKernelContext* ctx) {
  const auto* workers = ctx->device()->tensorflow_cpu_worker_threads();
  return rnn::PoolExecutor(
      [pool = workers->workers](std::function<void()> closure) {
        pool->Schedule(std::move(closure));
      },
      std::min(workers->num_threads, tensorflow::GetPerThreadMaxParallelism()));
}

// Allocates scratch memory for one call.
template <typename T>
absl::Status AllocateWorkspace(tensorflow::OpKernelContext* ctx,
                               std::int64_t num_elements,
                               tensorflow::Tensor* workspace) {
  return ctx->allocate_temp(tensorflow::DataTypeToEnum<T>::value,
                            tensorflow::TensorShape({num_elements}), workspace);
}

}  // namespace tf_rnn_ops

#endif  // TF_RNN_OPS_CC_KERNELS_ENGINE_H_
