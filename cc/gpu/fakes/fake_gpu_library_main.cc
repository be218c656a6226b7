// Main function for tests of code that opens the libraries: it finds the fakes.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cc/gpu/fakes/fake_gpu_library.h"

namespace {

namespace fs = std::filesystem;

// Creates links to the fake library under the names of the real libraries.
void MakeLinks(const fs::path& folder) {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(TfRnnOpsFake_NewContext), &info);
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* name :
       {"libcuda.so.1", "libcudnn.so.9", "libcublas.so.12"}) {
    fs::create_symlink(fs::canonical(info.dli_fname), folder / name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr char kVariable[] = "LD_LIBRARY_PATH";
  const fs::path folder = fs::path(testing::TempDir()) / "fake_libraries";
  const char* searched = std::getenv(kVariable);
  if (searched == nullptr || searched != folder) {
    // The loader reads the variable when the program starts.
    MakeLinks(folder);
    setenv(kVariable, folder.c_str(), /*overwrite=*/1);
    execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
