// Libraries that are opened at run time, so that ours needs none of them to be
// loaded.

#ifndef TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_

#include <string>
#include <vector>

#include "cc/gpu/status.h"

namespace tf_rnn_ops::gpu {

class SharedLibrary {
 public:
  // Opens the library of the first of these names that is found: among those
  // that the process has open, which are TensorFlow's or PyTorch's; else where
  // the system's loader looks; else in `folders`, which are relative to the one
  // that holds the Python packages, beside TensorFlow or PyTorch if the process
  // has them. It stays open for good.
  static Status Open(const std::vector<std::string>& names,
                     const std::vector<std::string>& folders,
                     SharedLibrary* library);

  // Finds a function; `function` is the address of a pointer to one.
  template <typename Function>
  Status Find(const char* name, Function** function) const {
    void* symbol;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(FindSymbol(name, &symbol));
    *function = reinterpret_cast<Function*>(symbol);
    return Status();
  }

  // Which of the names it has.
  const std::string& name() const { return name_; }
  // The file that was opened.
  const std::string& path() const { return path_; }

 private:
  // Keeps what dlopen has returned, unless it is null.
  bool Take(void* handle, const std::string& name);
  Status FindSymbol(const char* name, void** symbol) const;

  void* handle_ = nullptr;
  std::string name_;
  std::string path_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_
