// cuDNN handles, one per stream.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/gpu/call.h"
#include "cc/gpu/cudnn.h"
#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

// Exclusive use of a handle.
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

// Handles are never freed: creating one is slow, and there are few streams.
class CudnnHandlePool {
 public:
  explicit CudnnHandlePool(const Cudnn& cudnn) : cudnn_(cudnn) {}
  CudnnHandlePool(const CudnnHandlePool&) = delete;
  CudnnHandlePool& operator=(const CudnnHandlePool&) = delete;

  // Returns the global pool for the library of Cudnn::Get. The first call opens
  // the library.
  static Status Get(const Cudnn** cudnn, CudnnHandlePool** handles);

  // Locks the handle of the call's stream. The first call creates it.
  Status Lock(const Call& call, CudnnLock* lock);

 private:
  struct Entry {
    std::mutex mutex;
    cudnnHandle_t handle = nullptr;
  };

  // Finds the entry of the call's context and stream. Its handle may be null.
  Status FindEntry(const Call& call, Entry** entry);
  Status MakeHandle(const Call& call, cudnnHandle_t* handle) const;

  const Cudnn& cudnn_;
  std::mutex mutex_;  // for entries_
  std::map<std::pair<CUcontext, CUstream>, std::unique_ptr<Entry>> entries_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_HANDLE_H_
