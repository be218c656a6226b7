// Fuzzes the sizes that are computed before a pass. For networks and sequences
// of any size, each size must be correct or reported as overflow, and sample
// order must work for any sequence lengths.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/network.h"
#include "cc/rnn/network_fuzz_support.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/sample_order.h"

namespace tf_rnn_ops::rnn {
namespace {

// Compares a computed size, or -1 for overflow, with the same in floating
// point.
void RequireCounted(std::int64_t size, double expected) {
  constexpr double kLimit = 0x1p63;
  if (size < 0) {
    Require(size == -1, "overflow is reported as -1");
    Require(expected > 0.999 * kLimit,
            "a size that fits is not reported as overflow");
  } else {
    Require(expected < 1.001 * kLimit, "overflow is reported");
    Require(std::fabs(static_cast<double>(size) - expected) <= 1e-9 * expected,
            "a size is correct");
  }
}

double ExpectedParamsSize(const RnnConfig& config) {
  const double units = static_cast<double>(config.num_units);
  const double gates = static_cast<double>(config.num_gates());
  const double output = static_cast<double>(config.output_size());
  const double directions = static_cast<double>(config.num_directions);
  const double first =
      config.skip_input ? 0 : static_cast<double>(config.input_size);
  const double layers = static_cast<double>(config.num_layers);
  const double of_each = gates * units * (output + 2) +
                         static_cast<double>(config.num_proj) * units;
  const double inputs =
      gates * units * (first + (layers - 1) * directions * output);
  return directions * (layers * of_each + inputs);
}

template <typename T>
double ExpectedReserveSpaceBytes(const RnnConfig& config, const RnnSize& size) {
  const double steps =
      static_cast<double>(size.time) * static_cast<double>(size.batch);
  const double directions = static_cast<double>(config.num_directions);
  const double kept = static_cast<double>(TraitsOf(config.mode).kept) *
                      static_cast<double>(config.num_layers) *
                      static_cast<double>(config.num_units);
  const double outputs = static_cast<double>(NumKeptOutputs<T>(config)) *
                         static_cast<double>(config.output_size());
  return kReserveSpaceHeaderBytes +
         steps * directions * (kept + outputs) * sizeof(ComputeType<T>);
}

// Whether tensors of these shapes can exist.
bool AreCountable(const RnnConfig& config, const RnnSize& size) {
  constexpr std::int64_t kBytes = sizeof(double);
  const CheckedInt steps = CheckedInt(size.time) * size.batch;
  const CheckedInt width =
      CheckedInt(config.num_directions) * config.output_size();
  const CheckedInt pseudo_layers =
      CheckedInt(config.num_layers) * config.num_directions;
  const CheckedInt state =
      pseudo_layers * size.batch * config.num_units * kBytes;
  return pseudo_layers.valid() && width.valid() &&
         (steps * config.input_size * kBytes).valid() &&
         (steps * width * kBytes).valid() && state.valid();
}

// something: the inputs; only whether arrays are null matters.
template <typename Pass, typename T>
Pass MakePass(const FuzzedNetwork& network, const T* something) {
  Pass pass{};
  pass.input = pass.input_h = pass.input_c = something;
  pass.config = network.config;
  pass.size = network.size;
  pass.time_major = network.time_major;
  pass.sequence_lengths = network.sequence_lengths();
  pass.dropout = network.dropout;
  return pass;
}

template <typename T>
void CheckWorkspaces(const FuzzedNetwork& network, FuzzInput& input) {
  const NetworkKernels<T> kernels =
      GetNetworkKernels<T>(ReadInstructionSet(input), network.config);
  const int num_threads = 1 + static_cast<int>(input.Word(2));
  const int wanted = input.Byte();
  T something{};
  const auto result = [&](int bit) {
    return wanted & bit ? &something : nullptr;
  };
  auto forward = MakePass<NetworkForward<T>>(network, &something);
  if (wanted & 1) forward.kept = Kept<T>::ReserveSpace(&something);
  forward.output = result(2);
  auto backward = MakePass<NetworkBackward<T>>(network, &something);
  backward.output = backward.output_backprop = &something;
  backward.input_backprop = result(1);
  backward.weights_backprop.params = result(2);
  auto grad = MakePass<NetworkBackwardGrad<T>>(network, &something);
  grad.output = grad.output_backprop = &something;
  grad.dot_input = result(1);
  grad.dot_input_h = result(2);
  grad.dot_weights.params = result(4);
  grad.input_grad = result(8);
  grad.weights_grad.params = result(16);
  grad.output_backprop_grad = result(32);
  for (const std::int64_t bytes :
       {kernels.forward_workspace(forward, num_threads),
        kernels.backward_workspace(backward, num_threads),
        kernels.backward_grad_workspace(grad, num_threads)}) {
    Require(bytes >= -1, "a workspace size is valid or -1");
  }
}

// The lengths are arbitrary.
void CheckSampleOrder(const std::vector<std::int32_t>& lengths,
                      const RnnConfig& config, const RnnSize& size) {
  const std::int64_t batch = static_cast<std::int64_t>(lengths.size());
  IsWorthSorting(lengths.data(), config, size, /*is_training=*/true);
  ExactArray<std::int64_t> samples(batch);
  SortSamples(lengths.data(), batch, samples.data());
  std::vector<bool> seen(lengths.size());
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t sample = samples.data()[i];
    Require(sample >= 0 && sample < batch && !seen[sample],
            "the order is a permutation");
    seen[sample] = true;
    if (i == 0) continue;
    const std::int64_t before = samples.data()[i - 1];
    Require(lengths[before] > lengths[sample] ||
                (lengths[before] == lengths[sample] && before < sample),
            "the order is by decreasing length and stable");
  }
}

FuzzedNetwork ReadAnyNetwork(FuzzInput& input) {
  FuzzedNetwork network{};
  const std::int64_t num_layers = std::max<std::int64_t>(1, input.Size());
  const std::int64_t num_units = input.Size();
  const std::int64_t input_size = input.Size();
  network.config =
      ReadConfig(input, num_layers, num_units, input_size, input.Size());
  network.size = {input.Size(), input.Size()};
  network.time_major = input.Bool();
  network.dropout = input.Bool() ? 0.5f : 0.0f;
  if (input.Bool()) {
    network.size.batch = input.UpTo(40);
    network.lengths.resize(static_cast<std::size_t>(network.size.batch));
    for (std::int32_t& length : network.lengths) {
      length = static_cast<std::int32_t>(input.Word(input.UpTo(4)));
    }
  }
  return network;
}

void FuzzSizes(FuzzInput& input) {
  FuzzedNetwork network = ReadAnyNetwork(input);
  const RnnConfig& config = network.config;
  RequireCounted(CudnnRnnParamsSize(config), ExpectedParamsSize(config));
  if (!AreCountable(config, network.size)) return;
  if (!network.lengths.empty()) {
    CheckSampleOrder(network.lengths, config, network.size);
  }
  const std::int32_t longest = static_cast<std::int32_t>(std::min<std::int64_t>(
      network.size.time, std::numeric_limits<std::int32_t>::max()));
  for (std::int32_t& length : network.lengths) {
    length = std::clamp(length, 0, longest);
  }
  WithType(input.Byte(), [&](auto type) {
    using T = decltype(type);
    constexpr std::int64_t kBytes = sizeof(T);
    const std::int64_t reserved = ReserveSpaceSize<T>(config, network.size);
    RequireCounted(reserved < 0 ? -1 : reserved * kBytes,
                   ExpectedReserveSpaceBytes<T>(config, network.size));
    if (CudnnRnnParamsSize(config) < 0 || reserved < 0) return;
    CheckWorkspaces<T>(network, input);
  });
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  tf_rnn_ops::rnn::FuzzInput input(data, size);
  tf_rnn_ops::rnn::FuzzSizes(input);
  return 0;
}
