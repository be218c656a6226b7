// Libraries that are opened at run time, so that ours can be loaded without
// them.

#ifndef TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_
#define TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_

#include <string>
#include <vector>

#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {

class SharedLibrary {
 public:
  // Opens the first of several libraries that is found. Searches
  //   1. libraries loaded by the process, such as TensorFlow's or PyTorch's;
  //   2. the search path of the dynamic loader;
  //   3. `folders`, relative to the folder that contains the TensorFlow or
  //      PyTorch package, if the process has loaded one.
  // The library is never closed.
  static Status Open(const std::vector<std::string>& names,
                     const std::vector<std::string>& folders,
                     SharedLibrary* library);

  // Finds a function.
  template <typename Function>
  Status Find(const char* name, Function** function) const {
    void* symbol;
    TF_RNN_OPS_RETURN_IF_ERROR(FindSymbol(name, &symbol));
    *function = reinterpret_cast<Function*>(symbol);
    return Status();
  }

  // The name under which it was found.
  const std::string& name() const { return name_; }
  // The path of its file.
  const std::string& path() const { return path_; }

 private:
  // Stores the result of dlopen. Returns false if it is null.
  bool Take(void* handle, const std::string& name);
  Status FindSymbol(const char* name, void** symbol) const;

  void* handle_ = nullptr;
  std::string name_;
  std::string path_;
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_SHARED_LIBRARY_H_
