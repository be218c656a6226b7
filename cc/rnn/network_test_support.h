// Shared by the tests of network.h: networks, their inputs, and the engine.

#ifndef TF_RNN_OPS_CC_RNN_NETWORK_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_NETWORK_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/network.h"
#include "cc/rnn/sample_order.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::rnn {

constexpr RnnMode kModes[] = {RnnMode::kTanh, RnnMode::kRelu, RnnMode::kLstm,
                              RnnMode::kGru};

// Of Keras layers.
constexpr RnnMode kKerasModes[] = {RnnMode::kTanh,           RnnMode::kRelu,
                                   RnnMode::kLstm,           RnnMode::kGru,
                                   RnnMode::kGruResetBefore, RnnMode::kRnn};

// Non-standard activations, covering each one for the state and for the gates.
constexpr Activations kOtherActivations[] = {
    {Activation::kRelu, Activation::kSigmoid},
    {Activation::kLinear, Activation::kHardSigmoid},
    {Activation::kSigmoid, Activation::kTanh},
    {Activation::kHardSigmoid, Activation::kRelu},
    {Activation::kTanh, Activation::kLinear},
    {Activation::kElu, Activation::kSoftsign},
    {Activation::kSelu, Activation::kSigmoid},
    {Activation::kHardTanh, Activation::kSigmoid},
    {Activation::kSoftsign, Activation::kSquareplus},
    {Activation::kLogSigmoid, Activation::kHardSigmoid},
    {Activation::kLeakyRelu, Activation::kSigmoid},
    {Activation::kRelu6, Activation::kSigmoid},
    {Activation::kSquareplus, Activation::kSigmoid},
    {Activation::kSoftplus, Activation::kSigmoid},
    {Activation::kSoftShrink, Activation::kGelu},
    {Activation::kGelu, Activation::kSigmoid},
    {Activation::kGeluApproximate, Activation::kSigmoid},
    {Activation::kSilu, Activation::kHardSilu},
    {Activation::kMish, Activation::kSparseSigmoid},
    {Activation::kTanhShrink, Activation::kSilu},
    {Activation::kSparsePlus, Activation::kSparsePlus},
    {Activation::kHardSilu, Activation::kTanhShrink},
    {Activation::kSparseSigmoid, Activation::kMish},
};

// A network and its inputs, in the caller's order.
struct Case {
  RnnConfig config;
  RnnSize size;
  bool time_major = true;
  float dropout = 0;
  std::vector<std::int32_t> lengths;  // empty if all sequences have full length
  Array input, input_h, input_c, params;
  Array d_output, d_output_h, d_output_c;
  // Gradients with respect to the results of the backward pass.
  Array dot_input, dot_input_h, dot_input_c, dot_params;
  Array input_masks, state_masks;  // by gate, if the config has them
  bool has_wide_weights = false;   // if the config has Keras's weights

  std::int64_t width() const {
    return config.num_directions * config.output_size();
  }
  std::int64_t pseudo_layers() const { return config.num_pseudo_layers(); }
  std::int64_t length(std::int64_t sample) const {
    return lengths.empty() ? size.time : lengths[sample];
  }
  // The index of an element in an array of steps or pseudo-layers.
  std::int64_t At(std::int64_t step, std::int64_t steps, std::int64_t sample,
                  std::int64_t width, std::int64_t i) const {
    const std::int64_t row =
        time_major ? step * size.batch + sample : sample * steps + step;
    return row * width + i;
  }
  // The number of elements of a gate's masks, each `width` wide.
  std::int64_t MaskSize(GateDropout dropout, std::int64_t width) const {
    const bool has_steps = dropout == GateDropout::kMasksOfSteps;
    return (has_steps ? size.time : 1) * size.batch * width;
  }
  std::int64_t MaskAt(GateDropout dropout, std::int64_t gate, std::int64_t t,
                      std::int64_t sample, std::int64_t width,
                      std::int64_t i) const {
    return gate * MaskSize(dropout, width) +
           (dropout == GateDropout::kMasksOfSteps
                ? At(t, size.time, sample, width, i)
                : sample * width + i);
  }
  std::int64_t InputMaskSize() const {
    return MaskSize(config.input_dropout, config.input_size);
  }
  std::int64_t StateMaskSize() const {
    return MaskSize(config.state_dropout, config.num_units);
  }
};

struct ForwardResult {
  Array output, output_h, output_c;
};

struct BackwardResult {
  Array input, input_h, input_c, params;
};

// Which results of the backward pass to compute, apart from the gradients of
// the states.
struct BackwardParts {
  bool wants_input = true;
  bool wants_params = true;
};

struct BackwardGradResult : BackwardResult {
  Array d_output, d_output_h, d_output_c;
};

// Which optional inputs of the gradient of the backward pass are present, and
// which results to compute.
struct BackwardGradParts {
  bool has_dot_input = true;
  bool has_dot_states = true;
  bool has_dot_params = true;
  bool wants_input = true;
  bool wants_states = true;
  bool wants_params = true;
  bool wants_outputs = true;
};

const RandomStream kStream{12345, 678, 9};

// An array in an allocation of exactly its size, so that sanitizers detect
// out-of-bounds access, with TensorFlow's alignment.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::int64_t size) : size_(size) {
    const std::size_t bytes = size * sizeof(T);
    void* memory = nullptr;
    EXPECT_EQ(posix_memalign(&memory, 64, bytes), 0);
    data_.reset(static_cast<T*>(memory));
    // Makes missing writes visible.
    std::fill_n(reinterpret_cast<unsigned char*>(data()), bytes, 0xff);
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }

  std::int64_t size() const { return size_; }
  T* data() { return data_.get(); }
  Array ToDoubles() {
    Array result;
    for (std::int64_t i = 0; i < size_; ++i) {
      result.push_back(ToDouble(data()[i]));
    }
    return result;
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::int64_t size_;
  std::unique_ptr<T[], Free> data_{nullptr};
};

// Calls body(params_index, array, index) for each element of a params buffer,
// where array and index are its place in Keras's weights: array 0 is the
// kernel, 1 the recurrent kernel, 2 the bias. If Keras has one bias, two biases
// map to it.
template <typename Body>
void ForEachKerasWeight(const RnnConfig& config, const Body& body) {
  const CudnnRnnParamsLayout layout(config);
  const std::int64_t gates = config.num_gates(), units = config.num_units;
  for (std::int64_t gate = 0; gate < gates; ++gate) {
    const bool has_two_biases = KerasBiasRows(config.mode) == 2;
    const std::int64_t keras_gate = KerasPlace(config.mode, gate);
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const std::int64_t row = gate * units + unit;
      const std::int64_t col = keras_gate * units + unit;
      const ParamsRegion regions[] = {
          layout.InputMatrix(0), layout.RecurrentMatrix(0), layout.InputBias(0),
          layout.RecurrentBias(0)};
      for (int i = 0; i < 4; ++i) {
        for (std::int64_t j = 0; j < regions[i].cols; ++j) {
          const std::int64_t keras_row = i < 2                      ? j
                                         : i == 3 && has_two_biases ? 1
                                                                    : 0;
          body(regions[i].offset + row * regions[i].cols + j, i < 2 ? i : 2,
               keras_row * gates * units + col);
        }
      }
    }
  }
}

// Whether the network is a Keras layer.
inline bool HasKerasWeights(const RnnConfig& config) {
  return config.keeps_output;
}

// The Keras weights of a config that has them, otherwise empty.
template <typename T>
class KerasBuffers {
 public:
  explicit KerasBuffers(const Case& k)
      : config_(k.config),
        is_wide_(k.has_wide_weights),
        buffers_{Buffer<T>(is_wide_ ? 0 : Size(0)),
                 Buffer<T>(is_wide_ ? 0 : Size(1)),
                 Buffer<T>(is_wide_ ? 0 : Size(2))},
        wide_buffers_{Buffer<Wide>(is_wide_ ? Size(0) : 0),
                      Buffer<Wide>(is_wide_ ? Size(1) : 0),
                      Buffer<Wide>(is_wide_ ? Size(2) : 0)} {}
  // Copies the weights from a params buffer.
  KerasBuffers(const Case& k, const Array& params) : KerasBuffers(k) {
    if (!HasKerasWeights(config_)) return;
    Array sums[3];
    for (int i = 0; i < 3; ++i) sums[i].resize(Size(i));
    ForEachKerasWeight(config_, [&](auto from, auto array, auto index) {
      sums[array][index] += params[from];
    });
    for (int i = 0; i < 3; ++i) {
      const std::vector<T> rounded = Rounded<T>(sums[i]);
      for (std::int64_t j = 0; j < Size(i); ++j) {
        if (is_wide_) {
          wide_buffers_[i].data()[j] = static_cast<Wide>(ToDouble(rounded[j]));
        } else {
          buffers_[i].data()[j] = rounded[j];
        }
      }
    }
  }

  // W: T, const or not.
  template <typename W>
  Weights<W> weights() {
    const auto of = [](auto* buffers) {
      return Weights<W>::Keras(buffers[0].data(), buffers[1].data(),
                               buffers[2].data());
    };
    return is_wide_ ? of(wide_buffers_) : of(buffers_);
  }
  // Converts gradients of Keras weights to gradients of params.
  Array ToParams() {
    Array params(CudnnRnnParamsSize(config_));
    Array arrays[3];
    for (int i = 0; i < 3; ++i) {
      arrays[i] =
          is_wide_ ? wide_buffers_[i].ToDoubles() : buffers_[i].ToDoubles();
    }
    ForEachKerasWeight(config_, [&](auto to, auto array, auto index) {
      params[to] = arrays[array][index];
    });
    return params;
  }

 private:
  using Wide = ComputeType<T>;

  // The number of elements of an array.
  std::int64_t Size(int array) const {
    if (!HasKerasWeights(config_)) return 0;
    const std::int64_t rows[] = {config_.input_size, config_.num_units,
                                 KerasBiasRows(config_.mode)};
    return rows[array] * config_.num_gates() * config_.num_units;
  }

  const RnnConfig config_;
  const bool is_wide_;
  // One of these is empty.
  Buffer<T> buffers_[3];
  Buffer<Wide> wide_buffers_[3];
};

template <typename T>
class Engine {
 public:
  Engine(InstructionSet instruction_set, Case& k)
      : Engine(GetNetworkKernels<T>(instruction_set, k.config), k) {}
  Engine(const NetworkKernels<T>& kernels, Case& k)
      : k_(k),
        kernels_(kernels),
        input_(Rounded<T>(k.input)),
        input_h_(Rounded<T>(k.input_h)),
        input_c_(Rounded<T>(k.input_c)),
        params_(Rounded<T>(k.params)),
        keras_weights_(k, k.params),
        d_output_(Rounded<T>(k.d_output)),
        d_output_h_(Rounded<T>(k.d_output_h)),
        d_output_c_(Rounded<T>(k.d_output_c)),
        dot_input_(Rounded<T>(k.dot_input)),
        dot_input_h_(Rounded<T>(k.dot_input_h)),
        dot_input_c_(Rounded<T>(k.dot_input_c)),
        dot_params_(Rounded<T>(k.dot_params)),
        dot_keras_weights_(k, k.dot_params),
        input_masks_(Rounded<T>(k.input_masks)),
        state_masks_(Rounded<T>(k.state_masks)),
        output_(k.d_output.size()),
        reserve_space_(ReserveSpaceSize<T>(k.config, k.size)) {}

  // packs: packs weights before the pass, which then gets no others.
  ForwardResult Forward(bool is_training, Executor& executor,
                        bool has_constant_weights = false, bool packs = false) {
    Buffer<T> output_h(k_.input_h.size()), output_c(k_.input_c.size());
    NetworkForward<T> a{};
    Fill(a);
    if (is_training) a.kept = Kept<T>::ReserveSpace(reserve_space_.data());
    a.stream = kStream;
    a.output = output_.data();
    a.output_h = output_h.data();
    a.output_c = output_c.data();
    a.has_constant_weights = has_constant_weights;
    Buffer<char> packed = packs ? PackWeights(executor) : Buffer<char>(0);
    if (packs) a.weights = Weights<const T>::Packed(packed.data());
    Buffer<char> workspace(
        kernels_.forward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    kernels_.forward(a, executor);
    if (is_training) CopyHeader();
    return {output_.ToDoubles(), output_h.ToDoubles(), output_c.ToDoubles()};
  }

  // Uses the last forward pass. Results that are not requested are empty.
  BackwardResult Backward(Executor& executor, const BackwardParts& parts = {}) {
    Buffer<T> d_input(parts.wants_input ? k_.input.size() : 0);
    Buffer<T> d_h(k_.input_h.size()), d_c(k_.input_c.size());
    Buffer<T> d_params(parts.wants_params ? k_.params.size() : 0);
    KerasBuffers<T> d_keras_weights(k_);
    NetworkBackward<T> a{};
    Fill(a);
    a.output = has_keras_weights() ? nullptr : output_.data();
    a.output_backprop = d_output_.data();
    a.output_h_backprop = d_output_h_.data();
    a.output_c_backprop = d_output_c_.data();
    SetReserveSpace(a);
    a.input_backprop = parts.wants_input ? d_input.data() : nullptr;
    a.input_h_backprop = d_h.data();
    a.input_c_backprop = d_c.data();
    if (parts.wants_params) {
      a.weights_backprop = WeightsOf<T>(d_params, d_keras_weights);
    }
    Buffer<char> workspace(
        kernels_.backward_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    kernels_.backward(a, executor);
    return {d_input.ToDoubles(), d_h.ToDoubles(), d_c.ToDoubles(),
            GradientsOfParams(parts.wants_params, d_params, d_keras_weights)};
  }

  // Uses the last forward pass. Results that are not requested are empty.
  BackwardGradResult BackwardGrad(Executor& executor,
                                  const BackwardGradParts& parts = {}) {
    const auto result = [](const Array& like, bool is_wanted) {
      return Buffer<T>(is_wanted ? like.size() : 0);
    };
    Buffer<T> input = result(k_.input, parts.wants_input);
    Buffer<T> input_h = result(k_.input_h, parts.wants_states);
    Buffer<T> input_c = result(k_.input_c, parts.wants_states);
    Buffer<T> params = result(k_.params, parts.wants_params);
    Buffer<T> d_output = result(k_.d_output, parts.wants_outputs);
    Buffer<T> d_output_h = result(k_.d_output_h, parts.wants_outputs);
    Buffer<T> d_output_c = result(k_.d_output_c, parts.wants_outputs);
    KerasBuffers<T> keras_weights(k_);
    const auto data = [](Buffer<T>& buffer, bool is_there) {
      return is_there ? buffer.data() : nullptr;
    };
    NetworkBackwardGrad<T> a{};
    Fill(a);
    a.output = has_keras_weights() ? nullptr : output_.data();
    a.output_backprop = d_output_.data();
    a.output_h_backprop = d_output_h_.data();
    a.output_c_backprop = d_output_c_.data();
    SetReserveSpace(a);
    a.dot_input = data(dot_input_, parts.has_dot_input);
    a.dot_input_h = data(dot_input_h_, parts.has_dot_states);
    a.dot_input_c = data(dot_input_c_, parts.has_dot_states);
    if (parts.has_dot_params) {
      a.dot_weights = WeightsOf<const T>(dot_params_, dot_keras_weights_);
    }
    a.input_grad = data(input, parts.wants_input);
    a.input_h_grad = data(input_h, parts.wants_states);
    a.input_c_grad = data(input_c, parts.wants_states);
    if (parts.wants_params) {
      a.weights_grad = WeightsOf<T>(params, keras_weights);
    }
    a.output_backprop_grad = data(d_output, parts.wants_outputs);
    a.output_h_backprop_grad = data(d_output_h, parts.wants_outputs);
    a.output_c_backprop_grad = data(d_output_c, parts.wants_outputs);
    Buffer<char> workspace(
        kernels_.backward_grad_workspace(a, executor.num_threads()));
    a.workspace = workspace.data();
    kernels_.backward_grad(a, executor);
    return {input.ToDoubles(),
            input_h.ToDoubles(),
            input_c.ToDoubles(),
            GradientsOfParams(parts.wants_params, params, keras_weights),
            d_output.ToDoubles(),
            d_output_h.ToDoubles(),
            d_output_c.ToDoubles()};
  }

  // Copies the header that the backward passes read.
  void CopyHeader() {
    header_ =
        CopyReserveSpaceHeader(reserve_space_.data(), kReserveSpaceHeaderBytes);
  }

  // From the last forward pass.
  const ReserveSpaceHeader& header() const { return header_; }
  T* reserve_space() { return reserve_space_.data(); }
  Array ReserveSpace() { return reserve_space_.ToDoubles(); }

 private:
  bool has_keras_weights() const { return HasKerasWeights(k_.config); }
  template <typename W>
  Weights<W> WeightsOf(Buffer<T>& params, KerasBuffers<T>& keras) const {
    return has_keras_weights() ? keras.template weights<W>()
                               : Weights<W>::Cudnn(params.data());
  }
  // The gradients of the weights in either layout, if requested.
  Array GradientsOfParams(bool are_wanted, Buffer<T>& params,
                          KerasBuffers<T>& keras_weights) const {
    return are_wanted && has_keras_weights() ? keras_weights.ToParams()
                                             : params.ToDoubles();
  }
  Buffer<char> PackWeights(Executor& executor) {
    Buffer<char> packed(kernels_.packed_weights_bytes(k_.config));
    WeightPacking<T> packing{k_.config,
                             WeightsOf<const T>(params_, keras_weights_),
                             packed.data(), /*workspace=*/nullptr};
    Buffer<char> workspace(
        kernels_.pack_weights_workspace(packing, executor.num_threads()));
    packing.workspace = workspace.data();
    kernels_.pack_weights(packing, executor);
    return packed;
  }
  template <typename Pass>
  void SetReserveSpace(Pass& a) {
    a.kept = Kept<const T>::ReserveSpace(reserve_space_.data(), &header_);
  }
  template <typename Pass>
  void Fill(Pass& a) {
    a.config = k_.config;
    a.size = k_.size;
    a.time_major = k_.time_major;
    a.sequence_lengths = k_.lengths.empty() ? nullptr : k_.lengths.data();
    a.dropout = k_.dropout;
    a.input = input_.data();
    a.input_h = input_h_.data();
    a.input_c = input_c_.data();
    a.weights = WeightsOf<const T>(params_, keras_weights_);
    for (std::int64_t i = 0; i < k_.config.num_gates(); ++i) {
      a.input_masks[i] = input_masks_.data() + i * k_.InputMaskSize();
      a.state_masks[i] = state_masks_.data() + i * k_.StateMaskSize();
    }
  }

  const Case& k_;
  const NetworkKernels<T> kernels_;
  Buffer<T> input_, input_h_, input_c_, params_;
  KerasBuffers<T> keras_weights_;
  Buffer<T> d_output_, d_output_h_, d_output_c_;
  Buffer<T> dot_input_, dot_input_h_, dot_input_c_, dot_params_;
  KerasBuffers<T> dot_keras_weights_;
  Buffer<T> input_masks_, state_masks_;
  Buffer<T> output_, reserve_space_;
  ReserveSpaceHeader header_;
};

inline Case RandomCase(const RnnConfig& config, const RnnSize& size) {
  std::mt19937 generator(1);
  Case k;
  k.config = config;
  k.size = size;
  const std::int64_t steps = size.time * size.batch;
  const std::int64_t hidden =
      k.pseudo_layers() * size.batch * config.output_size();
  const std::int64_t cell =
      config.has_cell_state()
          ? k.pseudo_layers() * size.batch * config.num_units
          : 0;
  const double scale = 1 / std::sqrt(1.0 + config.num_units);
  k.input = RandomArray(steps * config.input_size, 1, generator);
  k.input_h = RandomArray(hidden, 1, generator);
  k.input_c = RandomArray(cell, 1, generator);
  k.params = RandomArray(CudnnRnnParamsSize(config), scale, generator);
  k.d_output = RandomArray(steps * k.width(), 1, generator);
  k.d_output_h = RandomArray(hidden, 1, generator);
  k.d_output_c = RandomArray(cell, 1, generator);
  k.dot_input = RandomArray(k.input.size(), 1, generator);
  k.dot_input_h = RandomArray(hidden, 1, generator);
  k.dot_input_c = RandomArray(cell, 1, generator);
  k.dot_params = RandomArray(k.params.size(), scale, generator);
  const auto masks = [&](bool drops, std::int64_t size) {
    Array result(drops ? config.num_gates() * size : 0);
    std::generate(result.begin(), result.end(),
                  [&] { return generator() % 4 == 0 ? 0 : 1.25; });
    return result;
  };
  k.input_masks = masks(config.drops_input(), k.InputMaskSize());
  k.state_masks = masks(config.drops_state(), k.StateMaskSize());
  if (HasKerasWeights(config) && KerasBiasRows(config.mode) == 1) {
    // Keras has one bias, and its rounding differs from the sum of two rounded
    // biases.
    const auto region = CudnnRnnParamsLayout(config).RecurrentBias(0);
    for (Array* params : {&k.params, &k.dot_params}) {
      std::fill_n(params->begin() + region.offset, region.size(), 0.0);
    }
  }
  return k;
}

// A case with many weights and short sequences, so that the engine sorts
// samples.
inline Case UnsortedCase(const RnnConfig& config) {
  Case k = RandomCase(config, {7, 10});
  k.lengths = {2, 0, 1, 0, 3, 0, 1, 0, 0, 7};
  EXPECT_TRUE(
      IsWorthSorting(k.lengths.data(), config, k.size, /*is_training=*/true));
  return k;
}

// Dropout by gate of the input, the state or both, with the same masks at all
// steps and with others.
inline std::vector<Case> DropoutCases() {
  constexpr auto kNone = GateDropout::kNone;
  constexpr auto kSame = GateDropout::kSameMasks;
  constexpr auto kOfSteps = GateDropout::kMasksOfSteps;
  constexpr GateDropout kDropouts[][2] = {
      {kNone, kSame}, {kNone, kOfSteps}, {kSame, kNone}, {kOfSteps, kSame}};
  std::vector<Case> cases;
  for (RnnMode mode : kKerasModes) {
    for (const auto& [input, state] : kDropouts) {
      const auto config = [&](std::int64_t input_size, std::int64_t units) {
        RnnConfig result{mode, false, 1, 1, input_size, units, 0, true};
        result.input_dropout = input;
        result.state_dropout = state;
        return result;
      };
      Case k = RandomCase(config(5, 37), {3, 41});
      cases.push_back(k);
      k.time_major = false;
      k.lengths.resize(41, 2);
      k.lengths[1] = 0;
      cases.push_back(k);
      if (TraitsOf(mode).gates > 1) {
        cases.push_back(UnsortedCase(config(3, 161)));
      }
      // More steps than are prepared at once, also backward.
      cases.push_back(RandomCase(config(2, 4), {40, 14}));
      cases.push_back(RandomCase(config(35, 64), {1, 1}));
    }
  }
  return cases;
}

// Keras layers: weights read in place, with few and many rows, and packed.
inline std::vector<Case> KerasCases() {
  std::vector<Case> cases;
  for (RnnMode mode : kKerasModes) {
    for (RnnSize size : {RnnSize{2, 7}, RnnSize{3, 41}, RnnSize{9, 7}}) {
      Case k = RandomCase({mode, false, 1, 1, 5, 37, 0, true}, size);
      k.time_major = false;
      cases.push_back(k);
      k.lengths.resize(size.batch, 1);
      k.lengths[0] = static_cast<std::int32_t>(size.time);
      k.lengths[1] = 0;
      cases.push_back(k);
      k.lengths.assign(size.batch, 0);
      cases.push_back(k);
    }
    if (TraitsOf(mode).gates > 1) {
      cases.push_back(UnsortedCase({mode, false, 1, 1, 3, 161, 0, true}));
    }
    if (TraitsOf(mode).gates > 1 || mode == RnnMode::kRnn) {
      for (const Activations& activations : kOtherActivations) {
        // Over many steps, unbounded gates overflow float.
        for (std::int64_t time : {2, 3}) {
          // Linear gates also amplify the rounding of bfloat16 products.
          if (time > 2 && activations.gate == Activation::kLinear) continue;
          RnnConfig config{mode, false, 1, 1, 5, 37, 0, true, activations};
          cases.push_back(RandomCase(config, {time, 7}));
        }
      }
    }
    // The last size has more steps than are prepared at once, also backward.
    for (RnnSize size :
         {RnnSize{1, 1}, RnnSize{2, 2}, RnnSize{4, 1}, RnnSize{40, 14}}) {
      // Over many steps without inputs, rectifiers approach their kinks.
      const std::int64_t units = size.time > 4 ? 4 : 70;
      cases.push_back(RandomCase({mode, false, 1, 1, 0, units, 0, true}, size));
      cases.push_back(RandomCase({mode, false, 1, 1, 67, 64, 0, true}, size));
    }
    for (RnnSize size : {RnnSize{0, 3}, RnnSize{3, 0}}) {
      cases.push_back(RandomCase({mode, false, 1, 1, 3, 4, 0, true}, size));
    }
  }
  // Enough steps and samples that kept values are written past the caches.
  cases.push_back(RandomCase(
      {RnnMode::kGruResetBefore, false, 1, 1, 3, 16, 0, true}, {180, 64}));
  return cases;
}

// Keras layers whose weights are float beside 16-bit sequences.
inline std::vector<Case> WideWeightsCases() {
  std::vector<Case> cases;
  for (RnnMode mode : kKerasModes) {
    for (RnnSize size :
         {RnnSize{2, 7}, RnnSize{9, 41}, RnnSize{40, 14}, RnnSize{3, 0}}) {
      // Over many steps, rectifiers approach their kinks.
      const std::int64_t units = size.time > 4 ? 4 : 37;
      cases.push_back(RandomCase({mode, false, 1, 1, 5, units, 0, true}, size));
    }
    if (TraitsOf(mode).gates > 1) {
      cases.push_back(UnsortedCase({mode, false, 1, 1, 3, 161, 0, true}));
    }
  }
  for (Case& k : cases) k.has_wide_weights = true;
  return cases;
}

// Every mode and option, with sizes near the widths of vectors and panels.
inline std::vector<Case> Cases() {
  std::vector<Case> cases = KerasCases();
  for (const auto& more : {DropoutCases(), WideWeightsCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  for (RnnMode mode : kModes) {
    // Few steps, for which weights are read in place, and more steps.
    for (RnnSize size : {RnnSize{2, 7}, RnnSize{9, 7}}) {
      cases.push_back(RandomCase({mode, false, 1, 1, 1, 1, 0}, size));
      cases.push_back(RandomCase({mode, false, 1, 1, 5, 37, 0}, size));
    }
    cases.push_back(RandomCase({mode, false, 1, 1, 67, 33, 0}, {3, 3}));
    cases.push_back(RandomCase({mode, true, 2, 1, 19, 19, 0}, {3, 14}));
    // More steps than are prepared at once.
    cases.push_back(RandomCase({mode, true, 2, 1, 19, 19, 0}, {40, 14}));
    cases.push_back(RandomCase({mode, false, 2, 2, 5, 37, 0}, {3, 41}));
    Case deep = RandomCase({mode, false, 2, 3, 3, 17, 0}, {5, 4});
    deep.lengths = {2, 0, 5, 1};
    deep.dropout = 0.5f;
    cases.push_back(deep);
    Case batch_major = RandomCase({mode, false, 1, 2, 3, 9, 0}, {3, 5});
    batch_major.time_major = false;
    cases.push_back(batch_major);
    // The number of active rows decreases, to none in the last step.
    Case sorted = RandomCase({mode, false, 1, 2, 3, 19, 0}, {6, 40});
    for (int i = 0; i < 40; ++i) sorted.lengths.push_back(5 - i / 8);
    cases.push_back(sorted);
    Case unsorted = UnsortedCase({mode, false, 2, 3, 3, 61, 0});
    unsorted.dropout = 0.5f;
    cases.push_back(unsorted);
    unsorted.time_major = false;
    cases.push_back(unsorted);
    for (RnnSize size : {RnnSize{0, 3}, RnnSize{3, 0}}) {
      cases.push_back(RandomCase({mode, false, 2, 2, 3, 4, 0}, size));
    }
    for (RnnSize size : {RnnSize{2, 2}, RnnSize{7, 2}}) {
      cases.push_back(RandomCase({mode, false, 1, 2, 0, 4, 0}, size));
      cases.push_back(RandomCase({mode, false, 1, 2, 3, 0, 0}, size));
    }
  }
  for (RnnSize size : {RnnSize{3, 3}, RnnSize{7, 3}}) {
    for (std::int64_t num_proj : {1, 18}) {
      Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 39, num_proj}, size);
      cases.push_back(k);
      k.lengths = {3, 2, 0};
      cases.push_back(k);
      k.lengths = {static_cast<std::int32_t>(size.time), 0, 2};
      k.time_major = false;
      k.dropout = 0.25f;
      cases.push_back(k);
    }
  }
  cases.push_back(UnsortedCase({RnnMode::kLstm, false, 1, 2, 5, 64, 24}));
  cases.push_back(UnsortedCase({RnnMode::kLstm, true, 1, 3, 64, 64, 0}));
  // Enough steps and samples that kept values are written past the caches.
  cases.push_back(
      RandomCase({RnnMode::kLstm, false, 1, 1, 3, 16, 0}, {104, 64}));
  cases.push_back(
      RandomCase({RnnMode::kGru, false, 1, 1, 3, 16, 0}, {130, 64}));
  return AllOrSomeUnderSanitizers(cases);
}

inline std::string Describe(const Case& k) {
  const RnnConfig& c = k.config;
  return "mode " + std::to_string(static_cast<int>(c.mode)) + " skip_input " +
         std::to_string(c.skip_input) + " directions " +
         std::to_string(c.num_directions) + " layers " +
         std::to_string(c.num_layers) + " input_size " +
         std::to_string(c.input_size) + " num_units " +
         std::to_string(c.num_units) + " num_proj " +
         std::to_string(c.num_proj) + " time " + std::to_string(k.size.time) +
         " batch " + std::to_string(k.size.batch) +
         (HasKerasWeights(c) ? " Keras's weights" : "") +
         (k.has_wide_weights ? ", wide" : "") + " dropout " +
         std::to_string(static_cast<int>(c.input_dropout)) + " " +
         std::to_string(static_cast<int>(c.state_dropout)) + " activations " +
         std::to_string(static_cast<int>(c.activations.state)) + " " +
         std::to_string(static_cast<int>(c.activations.gate));
}

// The same, with NaN after the end of each sequence.
inline Case WithPadding(Case k) {
  const double padding = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t input_size = k.config.input_size;
  for (std::int64_t b = 0; b < k.size.batch; ++b) {
    for (std::int64_t t = k.length(b); t < k.size.time; ++t) {
      for (std::int64_t i = 0; i < input_size; ++i) {
        const std::int64_t at = k.At(t, k.size.time, b, input_size, i);
        k.input[at] = k.dot_input[at] = padding;
      }
      for (std::int64_t i = 0; i < k.width(); ++i) {
        k.d_output[k.At(t, k.size.time, b, k.width(), i)] = padding;
      }
    }
  }
  return k;
}

// Compares gradients of params, also for each matrix and bias of each gate, so
// a wrong small bias cannot hide behind a large matrix. Skips those with few
// elements: their sums may nearly cancel, which makes the rounding error
// relatively large.
inline void ExpectParamsClose(const RnnConfig& config, const Array& actual,
                              const Array& expected, double tolerance,
                              const std::string& what) {
  constexpr std::int64_t kFew = 8;
  ExpectClose(actual, expected, tolerance, what);
  const CudnnRnnParamsLayout layout(config);
  const auto expect = [&](const ParamsRegion& region, const std::string& name) {
    if (region.size() < kFew) return;
    const auto part = [&region](const Array& params) {
      const auto begin = params.begin() + region.offset;
      return Array(begin, begin + region.size());
    };
    ExpectClose(part(actual), part(expected), tolerance, what + " " + name);
  };
  for (std::int64_t i = 0; i < layout.num_weights(); ++i) {
    expect(layout.Weight(i), "matrix " + std::to_string(i));
  }
  for (std::int64_t i = 0; i < layout.num_biases(); ++i) {
    expect(layout.Bias(i), "bias " + std::to_string(i));
  }
}

inline void ExpectAllClose(const RnnConfig& config,
                           const BackwardResult& actual,
                           const BackwardResult& expected, double tolerance) {
  ExpectClose(actual.input, expected.input, tolerance, "input");
  ExpectClose(actual.input_h, expected.input_h, tolerance, "input_h");
  ExpectClose(actual.input_c, expected.input_c, tolerance, "input_c");
  ExpectParamsClose(config, actual.params, expected.params, tolerance,
                    "params");
}

inline void ExpectAllClose(const RnnConfig& config,
                           const BackwardGradResult& actual,
                           const BackwardGradResult& expected,
                           double tolerance) {
  const BackwardResult& actual_inputs = actual;
  const BackwardResult& expected_inputs = expected;
  ExpectAllClose(config, actual_inputs, expected_inputs, tolerance);
  ExpectClose(actual.d_output, expected.d_output, tolerance, "d_output");
  ExpectClose(actual.d_output_h, expected.d_output_h, tolerance, "d_output_h");
  ExpectClose(actual.d_output_c, expected.d_output_c, tolerance, "d_output_c");
}

inline void ExpectEqual(const ForwardResult& actual,
                        const ForwardResult& expected) {
  EXPECT_TRUE(actual.output == expected.output);
  EXPECT_TRUE(actual.output_h == expected.output_h);
  EXPECT_TRUE(actual.output_c == expected.output_c);
}

inline void ExpectEqual(const BackwardResult& actual,
                        const BackwardResult& expected) {
  EXPECT_TRUE(actual.input == expected.input);
  EXPECT_TRUE(actual.input_h == expected.input_h);
  EXPECT_TRUE(actual.input_c == expected.input_c);
  EXPECT_TRUE(actual.params == expected.params);
}

inline void ExpectEqual(const BackwardGradResult& actual,
                        const BackwardGradResult& expected) {
  const BackwardResult& actual_inputs = actual;
  const BackwardResult& expected_inputs = expected;
  ExpectEqual(actual_inputs, expected_inputs);
  EXPECT_TRUE(actual.d_output == expected.d_output);
  EXPECT_TRUE(actual.d_output_h == expected.d_output_h);
  EXPECT_TRUE(actual.d_output_c == expected.d_output_c);
}

// The results of all passes of a network.
struct PassResults {
  ForwardResult forward;
  BackwardResult backward;
  BackwardGradResult backward_grad;
};

template <typename T>
PassResults RunPasses(Engine<T>& engine, Executor& executor) {
  PassResults results;
  results.forward = engine.Forward(/*is_training=*/true, executor);
  results.backward = engine.Backward(executor);
  results.backward_grad = engine.BackwardGrad(executor);
  return results;
}

inline void ExpectEqual(const PassResults& actual,
                        const PassResults& expected) {
  ExpectEqual(actual.forward, expected.forward);
  ExpectEqual(actual.backward, expected.backward);
  ExpectEqual(actual.backward_grad, expected.backward_grad);
}

template <typename T>
using CaseCheck = std::function<void(Case&, Engine<T>&)>;

// The instruction sets under which to run a case.
inline std::vector<InstructionSet> InstructionSetsOfCase() {
  return AllOrOneUnderSanitizers(SupportedInstructionSets());
}

// Calls check(case, engine) for each case and instruction set.
template <typename T>
void ForEachCase(const std::vector<Case>& cases, const CaseCheck<T>& check) {
  for (const Case& each : cases) {
    for (InstructionSet instruction_set : InstructionSetsOfCase()) {
      Case k = each;
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                   Describe(k));
      Engine<T> engine(instruction_set, k);
      check(k, engine);
    }
  }
}
template <typename T>
void ForEachCase(const CaseCheck<T>& check) {
  ForEachCase<T>(Cases(), check);
}

using StorageTypes = testing::Types<float, double, Half, BFloat16>;

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_NETWORK_TEST_SUPPORT_H_
