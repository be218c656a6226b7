#include "cc/gpu/cudnn_rnn_algorithm.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "cc/gpu/cuda_driver.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {
namespace {

constexpr char kVariable[] = "TF_RNN_OPS_CUDNN_ALGORITHM";
constexpr char kAuto[] = "auto";

// Whether persistent algorithms may support a network: they are limited to
// networks that PyTorch runs with them.
bool MayPersist(const rnn::ReserveSpaceKey& key) {
  return key.config.num_proj == 0 && !key.config.skip_input && key.time_major;
}

// Whether the algorithm for small networks is right, precise and faster. With
// cuDNN 9.19 on an H200,
// - in float16, it returned wrong outputs and gradients for many sizes, by up
//   to 17 times their magnitude: docs/design/gpu.md;
// - in float32, it approximated tanh and sigmoid: it differed from float64 by
//   up to 2.4e-5 of the largest magnitude, the standard algorithm by 7e-7;
// - in bfloat16, it was the standard algorithm.
bool IsRightIfSmall(rnn::RnnMode mode, DataType type, bool allow_tf32) {
  return type == DataType::kFloat &&
         (allow_tf32 || mode == rnn::RnnMode::kRelu);
}

// The maximum number of units such that the weights, and in training their
// gradients, fit on chip.
std::int64_t MaxUnitsOfSmallNetwork(rnn::RnnMode mode, bool is_training) {
  const bool has_gates = rnn::TraitsOf(mode).gates > 1;
  if (is_training) return has_gates ? 128 : 256;
  return has_gates ? 192 : 384;
}

// One layer, one direction, and sizes that fill the tensor cores.
bool HasStaticSizes(const rnn::RnnConfig& config) {
  constexpr std::int64_t kMultiple = 128;
  return config.num_layers == 1 && config.num_directions == 1 &&
         config.num_units <= 1024 && config.num_units % kMultiple == 0 &&
         config.input_size > 0 && config.input_size % kMultiple == 0;
}

// Whether a size is faster on a V100: some multiples of 16 are slow, and few
// steps do not make up for loading the weights.
bool GainsOnVolta(const rnn::RnnSize& size) {
  const std::int64_t batch = size.batch;
  const bool is_good =
      batch == 8 || (batch % 16 == 0 && batch != 80 && batch != 112);
  return is_good &&
         ((size.time >= 40 && batch <= 128) ||
          (size.time >= 20 && batch <= 96) || (size.time >= 10 && batch <= 32));
}

// The same for an A100 and later GPUs with enough multiprocessors.
bool GainsOnAmpere(const rnn::RnnConfig& config, const rnn::RnnSize& size) {
  if (size.batch % 8 != 0 || size.batch > 128) return false;
  switch (config.mode) {
    case rnn::RnnMode::kGru:
    case rnn::RnnMode::kGruResetBefore:
    case rnn::RnnMode::kRnn:
      return false;
    case rnn::RnnMode::kLstm:
      return true;
    case rnn::RnnMode::kRelu:
    case rnn::RnnMode::kTanh:
      break;
  }
  return size.batch < 96 || config.num_units < 896;
}

bool GainsByStatic(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                   const GpuTraits& gpu) {
  if (!HasStaticSizes(config)) return false;
  if (gpu.major == 7) return gpu.minor != 5 && GainsOnVolta(size);
  constexpr int kMultiprocessors = 98;
  return gpu.major >= 8 && gpu.minor != 6 &&
         gpu.num_multiprocessors >= kMultiprocessors &&
         GainsOnAmpere(config, size);
}

}  // namespace

Status ReadGpuTraits(const CudaDriver& driver, GpuTraits* traits) {
  CUdevice device;
  TF_RNN_OPS_RETURN_IF_ERROR(
      driver.Check(driver.cuCtxGetDevice(&device), "cuCtxGetDevice"));
  const auto read = [&](CUdevice_attribute attribute, int* value) {
    return driver.Check(driver.cuDeviceGetAttribute(value, attribute, device),
                        "cuDeviceGetAttribute");
  };
  TF_RNN_OPS_RETURN_IF_ERROR(
      read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &traits->major));
  TF_RNN_OPS_RETURN_IF_ERROR(
      read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &traits->minor));
  return read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
              &traits->num_multiprocessors);
}

cudnnRNNAlgo_t ChooseAlgorithm(const rnn::ReserveSpaceKey& key,
                               bool is_training, DataType type, bool allow_tf32,
                               const GpuTraits& gpu) {
  const rnn::RnnConfig& config = key.config;
  if (!MayPersist(key)) return CUDNN_RNN_ALGO_STANDARD;
  if (config.num_units <= MaxUnitsOfSmallNetwork(config.mode, is_training)) {
    return gpu.major >= 6 && IsRightIfSmall(config.mode, type, allow_tf32)
               ? CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H
               : CUDNN_RNN_ALGO_STANDARD;
  }
  return type == DataType::kHalf && GainsByStatic(config, key.size, gpu)
             ? CUDNN_RNN_ALGO_PERSIST_STATIC
             : CUDNN_RNN_ALGO_STANDARD;
}

Status ParseAlgorithm(const std::string& value, bool* is_standard_only) {
  *is_standard_only = value == "standard";
  if (*is_standard_only || value == kAuto) return Status();
  return Status(StatusCode::kFailedPrecondition,
                std::string("the environment variable ") + kVariable +
                    " must be auto or standard, but is \"" + value + "\"");
}

Status ReadAlgorithmVariable(bool* is_standard_only) {
  // Read once: other threads may change the environment later.
  static const std::string value = [] {
    const char* const set = std::getenv(kVariable);
    return std::string(set == nullptr ? kAuto : set);
  }();
  return ParseAlgorithm(value, is_standard_only);
}

}  // namespace tf_rnn_ops::gpu
