#include "cc/gpu/device_module.h"

#include <algorithm>
#include <string>

namespace tf_rnn_ops::gpu {
namespace {

// Threads per block: few, so that small matrices use several multiprocessors.
constexpr std::int64_t kThreads = 128;
// Minimum threads along the columns: a warp accesses memory together.
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMaxBlocks = 65535;

unsigned NumBlocks(std::int64_t size, std::int64_t threads) {
  return static_cast<unsigned>(
      std::min((size + threads - 1) / threads, kMaxBlocks));
}

bool IsNewer(const DeviceImage& a, const DeviceImage& b) {
  return a.major != b.major ? a.major > b.major : a.minor > b.minor;
}

// Whether a GPU can run the image.
bool Runs(const DeviceImage& image, int major, int minor) {
  if (image.major == major) return image.minor <= minor;
  return image.is_ptx && image.major < major;
}

// Whether image a is better than b on a GPU that can run both.
bool IsBetter(const DeviceImage& a, const DeviceImage& b) {
  return a.is_ptx != b.is_ptx ? b.is_ptx : IsNewer(a, b);
}

std::string Version(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// Lists the supported compute capabilities.
std::string Supported(const DeviceCode& code) {
  std::string list;
  for (std::size_t i = 0; i < code.num_images; ++i) {
    const DeviceImage& image = code.images[i];
    list += (i == 0 ? "" : ", ") + Version(image.major, image.minor) +
            (image.is_ptx ? " or newer" : "");
  }
  return list;
}

Status ComputeCapability(const CudaDriver& driver, int* major, int* minor) {
  CUdevice device;
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver.Check(driver.cuCtxGetDevice(&device), "cuCtxGetDevice"));
  TF_RNN_OPS_RETURN_IF_ERROR(driver.Check(
      driver.cuDeviceGetAttribute(
          major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
      "cuDeviceGetAttribute"));
  return driver.Check(
      driver.cuDeviceGetAttribute(
          minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
      "cuDeviceGetAttribute");
}

}  // namespace

LaunchShape ShapeFor(std::int64_t rows, std::int64_t cols) {
  const std::int64_t threads_y = std::min(rows, kThreads / kWarp);
  const std::int64_t threads_x =
      threads_y == 1 && cols > kWarp ? kThreads : kWarp;
  return {NumBlocks(cols, threads_x), NumBlocks(rows, threads_y),
          static_cast<unsigned>(threads_x), static_cast<unsigned>(threads_y)};
}

Status ChooseImage(const DeviceCode& code, int major, int minor,
                   const DeviceImage** image) {
  *image = nullptr;
  for (std::size_t i = 0; i < code.num_images; ++i) {
    const DeviceImage& candidate = code.images[i];
    if (!Runs(candidate, major, minor)) continue;
    if (*image == nullptr || IsBetter(candidate, **image)) *image = &candidate;
  }
  if (*image != nullptr) return Status();
  return Status(StatusCode::kUnimplemented,
                "the GPU has compute capability " + Version(major, minor) +
                    ", supported are " + Supported(code));
}

Status DeviceModule::Load(const CudaDriver& driver, CUcontext context,
                          Loaded** loaded) {
  const auto found = loaded_.find(context);
  if (found != loaded_.end()) {
    *loaded = &found->second;
    return Status();
  }
  int major;
  int minor;
  const DeviceImage* image;
  CUmodule module;
  TF_RNN_OPS_RETURN_IF_ERROR(ComputeCapability(driver, &major, &minor));
  TF_RNN_OPS_RETURN_IF_ERROR(ChooseImage(code_, major, minor, &image));
  const std::string call = "cuModuleLoadData of code for compute capability " +
                           Version(image->major, image->minor);
  TF_RNN_OPS_RETURN_IF_ERROR(driver.Check(
      driver.cuModuleLoadData(&module, image->data), call.c_str()));
  *loaded = &loaded_[context];
  (*loaded)->module = module;
  return Status();
}

Status DeviceModule::FindFunction(const Call& call, const char* kernel,
                                  CUfunction* function) {
  const CudaDriver& driver = *call.driver;
  CUcontext context;
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver.Check(driver.cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  std::lock_guard<std::mutex> lock(mutex_);
  Loaded* loaded;
  TF_RNN_OPS_RETURN_IF_ERROR(Load(driver, context, &loaded));
  const auto found = loaded->functions.find(kernel);
  if (found != loaded->functions.end()) {
    *function = found->second;
    return Status();
  }
  const std::string description =
      std::string("cuModuleGetFunction of ") + kernel;
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver.Check(driver.cuModuleGetFunction(function, loaded->module, kernel),
                   description.c_str()));
  loaded->functions[kernel] = *function;
  return Status();
}

Status DeviceModule::LaunchWith(const Call& call, const char* kernel,
                                const LaunchShape& shape,
                                const void* argument) {
  CUfunction function;
  TF_RNN_OPS_RETURN_IF_ERROR(FindFunction(call, kernel, &function));
  void* arguments[] = {const_cast<void*>(argument)};
  const CUresult result = call.driver->cuLaunchKernel(
      function, shape.blocks_x, shape.blocks_y, 1, shape.threads_x,
      shape.threads_y, 1, /*sharedMemBytes=*/0, call.stream, arguments,
      /*extra=*/nullptr);
  if (result == CUDA_SUCCESS) return Status();
  const std::string description = std::string("cuLaunchKernel of ") + kernel;
  return call.driver->Check(result, description.c_str());
}

}  // namespace tf_rnn_ops::gpu
