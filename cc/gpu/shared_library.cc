#include "cc/gpu/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

#include "third_party/glibc/older_functions.h"

TF_RNN_OPS_OLDER_FUNCTION(dlopen, "2.2.5");
TF_RNN_OPS_OLDER_FUNCTION(dlsym, "2.2.5");
TF_RNN_OPS_OLDER_FUNCTION(dlerror, "2.2.5");
TF_RNN_OPS_OLDER_FUNCTION(dlinfo, "2.3.3");

namespace tf_rnn_ops::gpu {
namespace {

// The files of the libraries that the process has loaded.
std::vector<std::string> OpenFiles() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        static_cast<std::vector<std::string>*>(result)->push_back(
            info->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The folders with the Python packages of TensorFlow and PyTorch, if the
// process has loaded them.
std::vector<std::string> PackageFolders() {
  struct Package {
    const char* file;
    const char* up;  // from the file's folder
  };
  std::vector<std::string> folders;
  for (const std::string& file : OpenFiles()) {
    for (const Package& package : {Package{"/libtensorflow_framework.so", ".."},
                                   Package{"/libtorch_cpu.so", "../.."}}) {
      if (file.find(package.file) == std::string::npos) continue;
      folders.push_back(file.substr(0, file.rfind('/') + 1) + package.up);
    }
  }
  return folders;
}

// The last error of the dynamic loader.
std::string LoaderError() {
  const char* error = dlerror();
  return error == nullptr ? "unknown error" : error;
}

// Finds a loaded library by its soname or file name; null if it is not loaded.
void* FindOpen(const std::string& name) {
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD;
  void* handle = dlopen(name.c_str(), kFlags);
  if (handle != nullptr) return handle;
  for (const std::string& file : OpenFiles()) {
    if (EndsWith(file, "/" + name)) return dlopen(file.c_str(), kFlags);
  }
  return nullptr;
}

void* Load(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Status SharedLibrary::Open(const std::vector<std::string>& names,
                           const std::vector<std::string>& folders,
                           SharedLibrary* library) {
  for (const std::string& name : names) {
    if (library->Take(FindOpen(name), name)) return Status();
  }
  std::string reasons;
  for (const std::string& name : names) {
    if (library->Take(Load(name), name)) return Status();
    reasons += (reasons.empty() ? "" : "; ") + name +
               " cannot be opened: " + LoaderError();
  }
  for (const std::string& packages : PackageFolders()) {
    for (const std::string& folder : folders) {
      for (const std::string& name : names) {
        const std::string path = packages + "/" + folder + "/" + name;
        if (library->Take(Load(path), name)) return Status();
      }
    }
  }
  return Status(StatusCode::kFailedPrecondition, reasons);
}

bool SharedLibrary::Take(void* handle, const std::string& name) {
  if (handle == nullptr) return false;
  link_map* map;
  handle_ = handle;
  name_ = name;
  path_ = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name;
  return true;
}

Status SharedLibrary::FindSymbol(const char* name, void** symbol) const {
  *symbol = dlsym(handle_, name);
  if (*symbol != nullptr) return Status();
  return Status(StatusCode::kFailedPrecondition,
                path_ + " has no function " + name + ": " + LoaderError());
}

}  // namespace tf_rnn_ops::gpu
