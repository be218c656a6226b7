// Networks for the fuzz targets, and passes over arrays that expose memory
// errors.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_FUZZ_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_FUZZ_SUPPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

// A network and a sequence to run it on.
struct FuzzedNetwork {
  RnnConfig config;
  RnnSize size;
  bool time_major;
  float dropout;
  std::vector<std::int32_t> lengths;  // empty if all sequences have full length

  const std::int32_t* sequence_lengths() const {
    return lengths.empty() ? nullptr : lengths.data();
  }
  std::int64_t input_size() const {
    return size.time * size.batch * config.input_size;
  }
  std::int64_t output_size() const {
    return LayerOutputSize(config, size).value();
  }
  std::int64_t hidden_size() const {
    return config.num_pseudo_layers() * size.batch * config.output_size();
  }
  std::int64_t cell_size() const {
    return config.has_cell_state()
               ? config.num_pseudo_layers() * size.batch * config.num_units
               : 0;
  }
  std::int64_t params_size() const { return CudnnRnnParamsSize(config); }
  ReserveSpaceKey key() const {
    return {config, size, time_major, sequence_lengths(), dropout};
  }
};

// A config that the kernels accept: see cc/ops/cudnn_rnn_attributes.cc.
// units, input_size: read by the caller.
inline RnnConfig ReadConfig(FuzzInput& input, std::int64_t num_layers,
                            std::int64_t num_units, std::int64_t input_size,
                            std::int64_t num_proj) {
  RnnConfig config{};
  config.mode = static_cast<RnnMode>(input.UpTo(3));
  config.num_directions = 1 + input.UpTo(1);
  config.num_layers = num_layers;
  config.num_units = num_units;
  const bool skips = input.UpTo(3) == 0;
  config.skip_input = skips;
  config.input_size = skips ? num_units : input_size;
  const bool projects =
      config.mode == RnnMode::kLstm && num_proj < num_units && input.Bool();
  config.num_proj = projects ? num_proj : 0;
  return config;
}

// A network that is small enough to run.
inline FuzzedNetwork ReadSmallNetwork(FuzzInput& input) {
  FuzzedNetwork network;
  const std::int64_t num_layers = 1 + input.UpTo(2);
  const std::int64_t num_units = input.UpTo(70);
  const std::int64_t input_size = input.UpTo(20);
  const std::int64_t num_proj = input.UpTo(20);
  network.config =
      ReadConfig(input, num_layers, num_units, input_size, num_proj);
  network.size = {input.UpTo(7), input.UpTo(17)};
  // One to ten milliseconds of work.
  constexpr std::int64_t kMostWork = 1 << 19;
  while (network.params_size() * network.size.time * network.size.batch >
         kMostWork) {
    network.size.time = (network.size.time + 1) / 2;
    network.size.batch /= 2;
  }
  network.time_major = input.Bool();
  constexpr float kDropouts[] = {0.0f, 0.5f, 1.0f, 0x1p-30f};
  network.dropout = kDropouts[input.UpTo(3)];
  if (input.Bool()) {
    for (std::int64_t i = 0; i < network.size.batch; ++i) {
      network.lengths.push_back(
          static_cast<std::int32_t>(input.UpTo(network.size.time)));
    }
  }
  return network;
}

// The passes over a network, each with all its arrays.
template <typename T>
class FuzzedPasses {
 public:
  FuzzedPasses(const FuzzedNetwork& network, InstructionSet instruction_set,
               std::int64_t misalignment, Values values)
      : network_(network),
        kernels_(GetNetworkKernels<T>(instruction_set, network.config)),
        misalignment_(misalignment) {
    for (ExactArray<T>* array :
         {&input_, &input_h_, &input_c_, &params_, &d_output_, &d_output_h_,
          &d_output_c_, &dot_input_, &dot_input_h_, &dot_input_c_,
          &dot_params_}) {
      values.Fill(*array);
    }
    // Placeholders until a forward pass runs.
    values.Fill(output_);
    values.Fill(reserve_space_);
  }

  // reserve_space, of the size that the passes expect.
  T* reserve_space() { return reserve_space_.data(); }

  // The other passes read the output and reserve_space of this one.
  // garbage: the initial byte of all memory that the engine writes.
  std::vector<ExactArray<T>> Forward(bool is_training, int garbage,
                                     Executor& executor) {
    NetworkForward<T> a{};
    Fill(a);
    a.stream = {1, 2, 3};
    output_.Fill(garbage);
    std::vector<ExactArray<T>> results;
    a.output = output_.data();
    a.output_h = Result(true, network_.hidden_size(), garbage, results);
    a.output_c = Result(true, network_.cell_size(), garbage, results);
    if (is_training) {
      reserve_space_.Fill(garbage);
      a.kept = Kept<T>::ReserveSpace(reserve_space_.data());
    }
    RunPass(a, kernels_.forward_workspace, kernels_.forward, garbage, executor);
    results.push_back(Copy(output_));
    return results;
  }

  // wanted: one bit for each optional result.
  std::vector<ExactArray<T>> Backward(int wanted, int garbage,
                                      Executor& executor) {
    NetworkBackward<T> a{};
    Fill(a);
    FillBackward(a);
    std::vector<ExactArray<T>> results;
    a.input_backprop =
        Result(wanted & 1, network_.input_size(), garbage, results);
    a.input_h_backprop = Result(true, network_.hidden_size(), garbage, results);
    a.input_c_backprop = Result(true, network_.cell_size(), garbage, results);
    a.weights_backprop.params =
        Result(wanted & 2, network_.params_size(), garbage, results);
    RunPass(a, kernels_.backward_workspace, kernels_.backward, garbage,
            executor);
    return results;
  }

  // given, wanted: one bit for each optional array.
  std::vector<ExactArray<T>> BackwardGrad(int given, int wanted, int garbage,
                                          Executor& executor) {
    NetworkBackwardGrad<T> a{};
    Fill(a);
    FillBackward(a);
    a.dot_input = given & 1 ? dot_input_.data() : nullptr;
    a.dot_input_h = given & 2 ? dot_input_h_.data() : nullptr;
    a.dot_input_c = given & 4 ? dot_input_c_.data() : nullptr;
    a.dot_weights.params = given & 8 ? dot_params_.data() : nullptr;
    std::vector<ExactArray<T>> results;
    const auto result = [&](int bit, std::int64_t size) {
      return Result(wanted & bit, size, garbage, results);
    };
    a.input_grad = result(1, network_.input_size());
    a.input_h_grad = result(2, network_.hidden_size());
    a.input_c_grad = result(4, network_.cell_size());
    a.weights_grad.params = result(8, network_.params_size());
    a.output_backprop_grad = result(16, network_.output_size());
    a.output_h_backprop_grad = result(32, network_.hidden_size());
    a.output_c_backprop_grad = result(64, network_.cell_size());
    RunPass(a, kernels_.backward_grad_workspace, kernels_.backward_grad,
            garbage, executor);
    return results;
  }

 private:
  // An array that the caller owns.
  ExactArray<T> Given(std::int64_t size) const {
    return ExactArray<T>(size, misalignment_);
  }

  static ExactArray<T> Copy(const ExactArray<T>& from) {
    ExactArray<T> to(from.size());
    if (from.size() > 0) std::memcpy(to.data(), from.data(), from.bytes());
    return to;
  }

  // Adds an array to the results; returns null if it is not needed.
  static T* Result(bool is_wanted, std::int64_t size, int garbage,
                   std::vector<ExactArray<T>>& results) {
    if (!is_wanted) return nullptr;
    results.emplace_back(size);
    results.back().Fill(garbage);
    return results.back().data();
  }

  template <typename Pass>
  void Fill(Pass& a) const {
    a.config = network_.config;
    a.size = network_.size;
    a.time_major = network_.time_major;
    a.sequence_lengths = network_.sequence_lengths();
    a.dropout = network_.dropout;
    a.input = input_.data();
    a.input_h = input_h_.data();
    a.input_c = input_c_.data();
    a.weights.params = params_.data();
  }

  template <typename Pass>
  void FillBackward(Pass& a) {
    a.output = output_.data();
    a.output_backprop = d_output_.data();
    a.output_h_backprop = d_output_h_.data();
    a.output_c_backprop = d_output_c_.data();
    header_ =
        CopyReserveSpaceHeader(reserve_space_.data(), reserve_space_.bytes());
    a.kept = Kept<const T>::ReserveSpace(reserve_space_.data(), &header_);
  }

  const FuzzedNetwork& network_;
  ReserveSpaceHeader header_;
  const NetworkKernels<T> kernels_;
  const std::int64_t misalignment_;
  ExactArray<T> input_ = Given(network_.input_size());
  ExactArray<T> input_h_ = Given(network_.hidden_size());
  ExactArray<T> input_c_ = Given(network_.cell_size());
  ExactArray<T> params_ = Given(network_.params_size());
  ExactArray<T> d_output_ = Given(network_.output_size());
  ExactArray<T> d_output_h_ = Given(network_.hidden_size());
  ExactArray<T> d_output_c_ = Given(network_.cell_size());
  ExactArray<T> dot_input_ = Given(network_.input_size());
  ExactArray<T> dot_input_h_ = Given(network_.hidden_size());
  ExactArray<T> dot_input_c_ = Given(network_.cell_size());
  ExactArray<T> dot_params_ = Given(network_.params_size());
  ExactArray<T> output_ = ExactArray<T>(network_.output_size());
  ExactArray<T> reserve_space_ =
      ExactArray<T>(ReserveSpaceSize<T>(network_.config, network_.size));
};

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_FUZZ_SUPPORT_H_
