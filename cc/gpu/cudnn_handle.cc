#include "cc/gpu/cudnn_handle.h"

#include <memory>
#include <mutex>
#include <utility>

namespace tf_rnn_ops::gpu {

Status CudnnHandlePool::Get(const Cudnn** cudnn, CudnnHandlePool** handles) {
  TF_RNN_OPS_RETURN_IF_ERROR(Cudnn::Get(cudnn));
  static auto* const pool = new CudnnHandlePool(**cudnn);
  *handles = pool;
  return Status();
}

Status CudnnHandlePool::Lock(const Call& call, CudnnLock* lock) {
  Entry* entry;
  TF_RNN_OPS_RETURN_IF_ERROR(FindEntry(call, &entry));
  CudnnLock held(entry->mutex);
  if (entry->handle == nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(MakeHandle(call, &entry->handle));
  }
  held.set_handle(entry->handle);
  *lock = std::move(held);
  return Status();
}

Status CudnnHandlePool::FindEntry(const Call& call, Entry** entry) {
  CUcontext context;
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  const std::lock_guard<std::mutex> guard(mutex_);
  std::unique_ptr<Entry>& found = entries_[{context, call.stream}];
  if (found == nullptr) found = std::make_unique<Entry>();
  *entry = found.get();
  return Status();
}

Status CudnnHandlePool::MakeHandle(const Call& call,
                                   cudnnHandle_t* handle) const {
  cudnnHandle_t made;
  TF_RNN_OPS_RETURN_IF_ERROR(
      cudnn_.Check(cudnn_.cudnnCreate(&made), "cudnnCreate"));
  const Status status =
      cudnn_.Check(cudnn_.cudnnSetStream(made, call.stream), "cudnnSetStream");
  if (!status.ok()) {
    cudnn_.cudnnDestroy(made);
    return status;
  }
  *handle = made;
  return Status();
}

}  // namespace tf_rnn_ops::gpu
