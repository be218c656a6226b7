// cuDNN's handles, one for each stream.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/status.h"

namespace tf_rnn_ops::gpu {

// The right to use a handle, which one thread has at a time.
class CudnnLock {
 public:
  CudnnLock() = default;
  explicit CudnnLock(std::mutex& mutex) : lock_(mutex) {}

  cudnnHandle_t handle() const { return handle_; }
  void set_handle(cudnnHandle_t handle) { handle_ = handle; }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::unique_lock<std::mutex> lock_;
};

// Handles are kept for good: making one takes long, and there are few streams.
class CudnnHandlePool {
 public:
  explicit CudnnHandlePool(const Cudnn& cudnn) : cudnn_(cudnn) {}
  CudnnHandlePool(const CudnnHandlePool&) = delete;
  CudnnHandlePool& operator=(const CudnnHandlePool&) = delete;

  // The process's handles of Cudnn::Get's library, which the first call opens.
  static Status Get(const Cudnn** cudnn, CudnnHandlePool** handles);

  // Waits for the handle of the call's stream. Makes it if it is the first
  // call.
  Status Lock(const Call& call, CudnnLock* lock);

 private:
  struct Entry {
    std::mutex mutex;
    cudnnHandle_t handle = nullptr;
  };

  // The entry of the call's context and stream, with or without a handle.
  Status FindEntry(const Call& call, Entry** entry);
  Status MakeHandle(const Call& call, cudnnHandle_t* handle) const;

  const Cudnn& cudnn_;
  std::mutex mutex_;  // of the map
  std::map<std::pair<CUcontext, CUstream>, std::unique_ptr<Entry>> entries_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_
