#include "cc/gpu/shared_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cc/rnn/status.h"

namespace tf_rnn_ops::gpu {
namespace {

namespace fs = std::filesystem;

// A new folder for each test, with libraries without soname.
class SharedLibraryTest : public testing::Test {
 protected:
  SharedLibraryTest() { fs::create_directories(folder_); }
  ~SharedLibraryTest() override { fs::remove_all(folder_); }

  // Returns the path.
  std::string Make(const std::string& file) {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    fs::copy_file("cc/gpu/libempty.so", path);
    return path;
  }
  static void Load(const std::string& path) {
    ASSERT_NE(dlopen(path.c_str(), RTLD_NOW), nullptr) << dlerror();
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
  SharedLibrary library_;
};

TEST_F(SharedLibraryTest, FindsAnOpenLibraryByItsName) {
  const Status status = SharedLibrary::Open({"libc.so.6"}, {}, &library_);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(library_.name(), "libc.so.6");
  EXPECT_EQ(fs::path(library_.path()).filename(), "libc.so.6");
  decltype(&::getenv) function;
  EXPECT_TRUE(library_.Find("getenv", &function).ok());
  const Status missing = library_.Find("no_such_function", &function);
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(missing.message().find(library_.path() +
                                   " has no function no_such_function: "),
            0);
}

TEST_F(SharedLibraryTest, FindsAnOpenLibraryByItsFile) {
  const std::string path = Make("libby_file.so.1");
  EXPECT_FALSE(SharedLibrary::Open({"libby_file.so.1"}, {}, &library_).ok());
  Load(path);
  // A file name with this suffix does not match.
  EXPECT_FALSE(SharedLibrary::Open({"file.so.1"}, {}, &library_).ok());
  const Status status = SharedLibrary::Open({"libby_file.so.1"}, {}, &library_);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(library_.path(), path);
}

TEST_F(SharedLibraryTest, PrefersAnOpenLibrary) {
  Load(Make("libpreferred.so.13"));
  // Available on every system, and not used by this program.
  const std::string other = "libnss_files.so.2";
  ASSERT_EQ(dlopen(other.c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  const Status status =
      SharedLibrary::Open({other, "libpreferred.so.13"}, {}, &library_);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(library_.name(), "libpreferred.so.13");
  ASSERT_TRUE(SharedLibrary::Open({other}, {}, &library_).ok());
  EXPECT_EQ(library_.name(), other);
}

TEST_F(SharedLibraryTest, SearchesNextToFrameworks) {
  for (const std::string framework : {"tensorflow/libtensorflow_framework.so.2",
                                      "torch/lib/libtorch_cpu.so"}) {
    const std::string name =
        "libbeside_" + fs::path(framework).filename().string();
    const std::string site = "site_of_" + name + "/";
    const std::string path = Make(site + "nvidia/some/lib/" + name);
    const auto open = [&] {
      return SharedLibrary::Open({"libno.so.1", name},
                                 {"nvidia/other/lib", "nvidia/some/lib"},
                                 &library_);
    };
    EXPECT_FALSE(open().ok());
    Load(Make(site + framework));
    const Status status = open();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(library_.name(), name);
    EXPECT_TRUE(fs::equivalent(library_.path(), path));
  }
}

TEST_F(SharedLibraryTest, ReportsWhyNoLibraryCanBeOpened) {
  const Status status =
      SharedLibrary::Open({"libno.so.1", "libno.so.2"}, {"no"}, &library_);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  const std::string& message = status.message();
  EXPECT_EQ(message.find("libno.so.1 cannot be opened: "), 0) << message;
  EXPECT_NE(message.find("; libno.so.2 cannot be opened: "), std::string::npos)
      << message;
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
