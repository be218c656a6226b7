#include "cc/gpu/cudnn_rnn_params.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn_descriptor.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

// cuDNN's matrix number of the projection in a pseudo-layer.
constexpr std::int32_t kProjection = 8;

// A fake buffer address: cuDNN computes addresses in the buffer, but does not
// access it.
char* const kBuffer = reinterpret_cast<char*>(std::uintptr_t{1} << 32);

class RegionFinder {
 public:
  RegionFinder(const Cudnn& cudnn, cudnnHandle_t handle,
               cudnnRNNDescriptor_t descriptor, std::size_t num_bytes)
      : cudnn_(cudnn),
        handle_(handle),
        descriptor_(descriptor),
        num_bytes_(num_bytes) {}

  Status Init() {
    TF_RNN_OPS_RETURN_IF_ERROR(
        matrix_descriptor_.Create(cudnn_, "cudnnCreateTensorDescriptor"));
    return bias_descriptor_.Create(cudnn_, "cudnnCreateTensorDescriptor");
  }

  // number: cuDNN's number of the matrix and its bias in a pseudo-layer.
  Status Find(std::int64_t pseudo_layer, std::int64_t number,
              CudnnRegion* matrix, CudnnRegion* bias) const {
    void* matrix_address = nullptr;
    void* bias_address = nullptr;
    TF_RNN_OPS_RETURN_IF_ERROR(cudnn_.Check(
        cudnn_.cudnnGetRNNWeightParams(
            handle_, descriptor_, static_cast<std::int32_t>(pseudo_layer),
            num_bytes_, kBuffer, static_cast<std::int32_t>(number),
            matrix_descriptor_.get(), &matrix_address, bias_descriptor_.get(),
            &bias_address),
        "cudnnGetRNNWeightParams"));
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadRegion(matrix_descriptor_, matrix_address, matrix));
    return ReadRegion(bias_descriptor_, bias_address, bias);
  }

 private:
  Status ReadRegion(const CudnnTensorDescriptor& descriptor,
                    const void* address, CudnnRegion* region) const {
    *region = {0, 0};
    if (address == nullptr) return Status();
    cudnnDataType_t type;
    int num_dims = 0;
    int dims[3] = {};
    int strides[3] = {};
    TF_RNN_OPS_RETURN_IF_ERROR(
        cudnn_.Check(cudnn_.cudnnGetTensorNdDescriptor(
                         descriptor.get(), 3, &type, &num_dims, dims, strides),
                     "cudnnGetTensorNdDescriptor"));
    if (num_dims == 0) return Status();
    region->offset = static_cast<const char*>(address) - kBuffer;
    region->size = 1;
    for (int i = 0; i < num_dims && i < 3; ++i) region->size *= dims[i];
    return Status();
  }

  const Cudnn& cudnn_;
  const cudnnHandle_t handle_;
  const cudnnRNNDescriptor_t descriptor_;
  const std::size_t num_bytes_;
  CudnnTensorDescriptor matrix_descriptor_;
  CudnnTensorDescriptor bias_descriptor_;
};

// Rejects a network with more params than cuDNN supports: cuDNN would return
// wrong sizes without an error.
Status CheckSize(rnn::RnnConfig config) {
  // cuDNN has at least one input.
  config.input_size = std::max<std::int64_t>(config.input_size, 1);
  const std::int64_t size = rnn::CudnnRnnParamsSize(config);
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (size >= 0 && size <= kMax) return Status();
  return Status(StatusCode::kUnimplemented,
                "params must have at most " + std::to_string(kMax) +
                    " elements on a GPU, the limit of cuDNN, but has " +
                    std::to_string(size));
}

}  // namespace

rnn::RnnConfig CudnnRnnLayers::config() const {
  rnn::RnnConfig config = network;
  config.skip_input = network.skip_input && first == 0;
  config.num_layers = count;
  config.input_size = network.fan_in(first);
  return config;
}

Status CudnnRnnParams::Query(const Cudnn& cudnn, cudnnHandle_t handle,
                             cudnnRNNDescriptor_t descriptor,
                             const CudnnRnnLayers& layers,
                             std::size_t element_bytes) {
  TF_RNN_OPS_RETURN_IF_ERROR(CheckSize(layers.config()));
  TF_RNN_OPS_RETURN_IF_ERROR(cudnn.Check(
      cudnn.cudnnGetRNNWeightSpaceSize(handle, descriptor, &num_bytes_),
      "cudnnGetRNNWeightSpaceSize"));
  RegionFinder finder(cudnn, handle, descriptor, num_bytes_);
  TF_RNN_OPS_RETURN_IF_ERROR(finder.Init());
  const rnn::RnnConfig& config = layers.network;
  const rnn::CudnnRnnParamsLayout layout(config);
  const std::int64_t first = layers.first * config.num_directions;
  const std::int64_t count = layers.count * config.num_directions;
  CudnnRegion matrix, bias;
  const std::int64_t num_matrices =
      layout.num_weights() / config.num_pseudo_layers();
  for (std::int64_t i = 0; i < count * num_matrices; ++i) {
    const std::int64_t gate = i % num_matrices;
    const bool is_projection = gate == 2 * config.num_gates();
    TF_RNN_OPS_RETURN_IF_ERROR(finder.Find(
        i / num_matrices, is_projection ? kProjection : gate, &matrix, &bias));
    const std::int64_t index = first * num_matrices + i;
    TF_RNN_OPS_RETURN_IF_ERROR(
        Add("matrix", index, layout.Weight(index), matrix, element_bytes));
  }
  const std::int64_t num_biases = 2 * config.num_gates();
  for (std::int64_t i = 0; i < count * num_biases; ++i) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        finder.Find(i / num_biases, i % num_biases, &matrix, &bias));
    const std::int64_t index = first * num_biases + i;
    TF_RNN_OPS_RETURN_IF_ERROR(
        Add("bias", index, layout.Bias(index), bias, element_bytes));
  }
  return Status();
}

bool CudnnRnnParams::is_same() const {
  return blocks_.size() == 1 && blocks_[0].offset == 0 &&
         blocks_[0].cudnn_offset == 0 && blocks_[0].num_bytes == num_bytes_;
}

Status CudnnRnnParams::ToCudnn(const Call& call, const void* params,
                               void* weights) const {
  std::size_t num_copied = 0;
  for (const Block& block : blocks_) num_copied += block.num_bytes;
  if (num_copied < num_bytes_) {
    // Zero the gaps between the blocks.
    TF_RNN_OPS_RETURN_IF_ERROR(ZeroBytes(call, num_bytes_, weights));
  }
  for (const Block& block : blocks_) {
    TF_RNN_OPS_RETURN_IF_ERROR(CopyBytes(
        call, block.num_bytes, static_cast<const char*>(params) + block.offset,
        static_cast<char*>(weights) + block.cudnn_offset));
  }
  return Status();
}

Status CudnnRnnParams::FromCudnn(const Call& call, const void* weights,
                                 void* params) const {
  for (const Block& block : blocks_) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        CopyBytes(call, block.num_bytes,
                  static_cast<const char*>(weights) + block.cudnn_offset,
                  static_cast<char*>(params) + block.offset));
  }
  return Status();
}

Status CudnnRnnParams::Add(const char* what, std::int64_t index,
                           const rnn::ParamsRegion& ours,
                           const CudnnRegion& cudnns,
                           std::size_t element_bytes) {
  if (ours.size() == 0) return Status();
  const Block block = {ours.offset * element_bytes, cudnns.offset,
                       ours.size() * element_bytes};
  if (cudnns.size != ours.size() || block.cudnn_offset > num_bytes_ ||
      block.num_bytes > num_bytes_ - block.cudnn_offset) {
    return Status(StatusCode::kInternal,
                  "unknown layout of params in cuDNN: " + std::string(what) +
                      " " + std::to_string(index) + " has " +
                      std::to_string(cudnns.size) + " elements, not " +
                      std::to_string(ours.size()) + ", at byte " +
                      std::to_string(block.cudnn_offset) + " of " +
                      std::to_string(num_bytes_));
  }
  Add(block);
  return Status();
}

void CudnnRnnParams::Add(const Block& block) {
  Block* last = blocks_.empty() ? nullptr : &blocks_.back();
  if (last != nullptr && last->offset + last->num_bytes == block.offset &&
      last->cudnn_offset + last->num_bytes == block.cudnn_offset) {
    last->num_bytes += block.num_bytes;
  } else {
    blocks_.push_back(block);
  }
}

}  // namespace tf_rnn_ops::gpu
