// The networks of the fake cuDNN, computed by the CPU engine. Who calls has
// checked the arguments: all memory is there and large enough.
//
// Beside the arrays: S = steps, B = batch, I = input_size, U = num_units,
// O = output_size, D = num_directions, P = num_layers * D. States are dense and
// layer by layer whatever the layout. A null state is zero if it is read, and
// not written.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// A matrix [rows, cols] in a weight space. A bias has one column.
struct FakeWeight {
  std::int64_t offset;  // in elements
  std::int64_t rows;
  std::int64_t cols;

  std::int64_t size() const { return rows * cols; }
};

// Where cuDNN keeps the weights: first the matrices of each pseudo-layer, then
// its biases. By cuDNN's number of a linear layer: those that are applied to
// the input, gate by gate, those that are applied to the hidden state, and for
// an LSTM the projection, which is the ninth.
class FakeWeightLayout {
 public:
  // padding: so many elements that mean nothing come before each matrix and
  // each bias. The real library has none.
  FakeWeightLayout(const rnn::RnnConfig& config, std::int64_t padding);

  // In elements.
  rnn::CheckedInt size() const { return size_; }
  // Of each pseudo-layer.
  int num_linear_layers() const;
  // None if there is none, as with skip_input.
  std::optional<FakeWeight> Matrix(std::int64_t pseudo_layer, int id) const;
  std::optional<FakeWeight> Bias(std::int64_t pseudo_layer, int id) const;

 private:
  std::optional<FakeWeight> Append(std::int64_t rows, std::int64_t cols);
  std::optional<FakeWeight> AppendMatrix(std::int64_t pseudo_layer, int id);

  const rnn::RnnConfig config_;
  const std::int64_t padding_;
  rnn::CheckedInt size_ = 0;
  // [P, num_linear_layers]
  std::vector<std::optional<FakeWeight>> matrices_;
  std::vector<std::optional<FakeWeight>> biases_;
};

struct FakeNetwork {
  rnn::RnnConfig config;
  rnn::RnnSize size;
  cudnnDataType_t type;
  cudnnRNNDataLayout_t layout;
  std::vector<std::int32_t> lengths;  // [B]
  float dropout;
  std::int64_t weight_padding;

  // Of an array of one value for each step of each sample: all steps in the
  // unpacked layouts, those within the sequences in the packed one.
  std::int64_t num_rows() const;
  bool has_padding() const;
};

std::size_t FakeElementBytes(cudnnDataType_t type);
// -1 if they exceed what std::int64_t can count.
std::int64_t FakeReserveBytes(const FakeNetwork& network);

struct FakeForward {
  const void* x = nullptr;        // [S, B, I]
  void* y = nullptr;              // [S, B, D * O]
  const void* hx = nullptr;       // [P, B, O]
  void* hy = nullptr;             // [P, B, O]
  const void* cx = nullptr;       // [P, B, U]
  void* cy = nullptr;             // [P, B, U]
  const void* weights = nullptr;  // [FakeWeightLayout.size()]
  const void* padding_fill =
      nullptr;  // one element, or null: the padding is left alone
  // For training only: null otherwise.
  void* reserve_space = nullptr;  // [FakeReserveBytes] bytes
  // Where the dropout masks begin; moved to where those of the next pass do.
  rnn::RandomStream* stream = nullptr;
};

// Uses up what it reads of the reserve space.
struct FakeBackwardData {
  const void* y = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;  // the padding is left alone
  const void* hx = nullptr;
  const void* dhy = nullptr;
  void* dhx = nullptr;
  const void* cx = nullptr;
  const void* dcy = nullptr;
  void* dcx = nullptr;
  const void* weights = nullptr;
  void* reserve_space = nullptr;
};

// Adds to dweights.
struct FakeBackwardWeights {
  const void* x = nullptr;
  const void* hx = nullptr;
  const void* y = nullptr;
  void* dweights = nullptr;
  void* reserve_space = nullptr;
};

void RunFake(const FakeNetwork& network, const FakeForward& pass);

// These return what is wrong with the reserve space, in words, and do nothing
// then; an empty string if nothing is.
std::string RunFake(const FakeNetwork& network, const FakeBackwardData& pass);
std::string RunFake(const FakeNetwork& network,
                    const FakeBackwardWeights& pass);

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_RNN_H_
