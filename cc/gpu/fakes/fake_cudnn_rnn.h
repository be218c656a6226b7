// The networks of the fake cuDNN, computed by the CPU engine. The caller must
// check the arguments.
//
// Shapes: S = steps, B = batch, I = input_size, U = num_units, O = output_size,
// D = num_directions, P = num_layers * D. Cell states, [P, B, U], are for LSTM
// only. States have the same shape in all layouts.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// cuDNN's layout of the weights: that of rnn::CudnnRnnParamsLayout, with the
// same indices.
class FakeWeightLayout {
 public:
  // padding: number of unused elements before each matrix and bias. 0 in the
  // real library.
  FakeWeightLayout(const rnn::RnnConfig& config, std::int64_t padding)
      : params_(config), padding_(padding) {}

  // In elements.
  std::int64_t size() const {
    return params_.size() +
           padding_ * (params_.num_weights() + params_.num_biases());
  }
  rnn::ParamsRegion Weight(std::int64_t index) const {
    return Moved(params_.Weight(index), index + 1);
  }
  rnn::ParamsRegion Bias(std::int64_t index) const {
    return Moved(params_.Bias(index), params_.num_weights() + index + 1);
  }

 private:
  rnn::ParamsRegion Moved(rnn::ParamsRegion region,
                          std::int64_t num_paddings) const {
    region.offset += padding_ * num_paddings;
    return region;
  }

  const rnn::CudnnRnnParamsLayout params_;
  const std::int64_t padding_;
};

// An array of a pass.
struct FakeArray {
  enum Kind {
    kInput,        // [S, B, I] or [B, S, I]
    kOutput,       // [S, B, D * O] or [B, S, D * O]
    kHiddenState,  // [P, B, O]
    kCellState,    // [P, B, U]
    kWeights,      // [FakeWeightLayout.size()]
  };
  const char* name;  // of cuDNN's argument
  const void* memory;
  Kind kind;
  bool is_written = false;
};

struct FakeRnn {
  rnn::RnnConfig config;
  rnn::RnnSize size;
  cudnnDataType_t type;
  cudnnRNNAlgo_t algorithm;
  bool time_major;                    // whether sequences are [S, B, ...]
  std::vector<std::int32_t> lengths;  // [B]
  std::int64_t weight_padding;

  std::int64_t output_width() const {
    return config.num_directions * config.output_size();
  }
  // The number of elements of an array; of weights, without padding.
  std::int64_t SizeOf(FakeArray::Kind kind) const;
};

std::size_t FakeElementBytes(cudnnDataType_t type);
std::size_t FakeReserveBytes(const FakeRnn& network);

enum class FakePass { kForward, kBackwardData, kBackwardWeights };

// Runs a pass with the arrays of its cuDNN function. The forward pass fills the
// padding of y with zeros; backward passes do not write that of dx. Weight
// gradients are added.
// reserve_space: [FakeReserveBytes] bytes, or null for inference
// If the reserve space or what must be as in the forward pass is not, returns
// an error message, else an empty string.
std::string RunFake(const FakeRnn& network, FakePass pass,
                    const std::vector<FakeArray>& arrays, void* reserve_space);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_
