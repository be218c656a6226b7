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

struct FakeNetwork {
  rnn::RnnConfig config;
  rnn::RnnSize size;
  cudnnDataType_t type;
  cudnnRNNAlgo_t algorithm;
  bool time_major;                    // whether sequences are [S, B, ...]
  std::vector<std::int32_t> lengths;  // [B]
  std::int64_t weight_padding;

  // In elements.
  std::int64_t input_size() const;         // S * B * I
  std::int64_t output_size() const;        // S * B * D * O
  std::int64_t hidden_state_size() const;  // P * B * O
  std::int64_t cell_state_size() const;    // P * B * U, or 0
};

std::size_t FakeElementBytes(cudnnDataType_t type);
std::size_t FakeReserveBytes(const FakeNetwork& network);

struct FakeForward {
  const void* x;        // [S, B, I]
  const void* hx;       // [P, B, O]
  const void* cx;       // [P, B, U]
  const void* weights;  // [FakeWeightLayout.size()]
  void* y;              // [S, B, D * O]
  void* hy;             // [P, B, O]
  void* cy;             // [P, B, U]
  // Whether padding of y is set to zero.
  bool fills_padding;
  // [FakeReserveBytes] bytes for training, or null
  void* reserve_space;
};

// Invalidates part of the reserve space. Does not write padding of dx.
struct FakeBackwardData {
  const void* y;
  const void* dy;
  const void* hx;
  const void* dhy;
  const void* cx;
  const void* dcy;
  const void* weights;
  void* dx;
  void* dhx;
  void* dcx;
  void* reserve_space;
};

// Adds to dweights.
struct FakeBackwardWeights {
  const void* x;
  const void* hx;
  const void* y;
  void* dweights;
  const void* reserve_space;
};

// Run a pass. If the reserve space is invalid, return an error message, else an
// empty string.
std::string RunFake(const FakeNetwork& network, const FakeForward& pass);
std::string RunFake(const FakeNetwork& network, const FakeBackwardData& pass);
std::string RunFake(const FakeNetwork& network,
                    const FakeBackwardWeights& pass);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_
