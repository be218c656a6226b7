// Fuzzes the layout of the params buffer for networks of any size. Its regions
// must be contiguous and fill the buffer, and the regions of small networks
// must hold the values copied to them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/network_fuzz_support.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {
namespace {

// Requires that the regions (weights or biases) are contiguous from `offset`
// on. Returns the end of the last one.
template <typename Region>
std::int64_t RequireAdjacent(std::int64_t offset, std::int64_t first,
                             std::int64_t last, const Region& region) {
  for (std::int64_t i = first; i < last; ++i) {
    const ParamsRegion part = region(i);
    Require(part.offset == offset, "regions are contiguous");
    Require(part.rows >= 0 && part.cols >= 0,
            "the size of a region is not negative");
    offset += part.size();
  }
  return offset;
}

// Checks consecutive regions: all if there are few, else the first, the last
// and some between.
template <typename Region>
void RequireNoGaps(std::int64_t begin, std::int64_t end, std::int64_t count,
                   std::uint64_t between, const Region& region) {
  const std::int64_t few = std::min<std::int64_t>(count, 50);
  const std::int64_t middle = static_cast<std::int64_t>(
      between % static_cast<std::uint64_t>(count - few + 1));
  RequireAdjacent(begin, 0, few, region);
  RequireAdjacent(region(middle).offset, middle, middle + few, region);
  const std::int64_t last = count - few;
  const std::int64_t reached =
      RequireAdjacent(region(last).offset, last, count, region);
  Require(reached == end, "the last region ends where the buffer ends");
}

void RequireParts(const ParamsRegion& whole, const ParamsRegion& first,
                  const ParamsRegion& last) {
  Require(whole.offset == first.offset, "a matrix starts at its first gate");
  Require(whole.offset + whole.size() == last.offset + last.size(),
          "a matrix ends at its last gate");
}

void RequireMatricesOfGates(const RnnConfig& config,
                            const CudnnRnnParamsLayout& layout,
                            std::int64_t p) {
  const std::int64_t gates = config.num_gates();
  const std::int64_t weights = 2 * gates + (config.num_proj > 0 ? 1 : 0);
  const std::int64_t w = p * weights;
  const std::int64_t b = p * 2 * gates;
  RequireParts(layout.InputMatrix(p), layout.Weight(w),
               layout.Weight(w + gates - 1));
  RequireParts(layout.RecurrentMatrix(p), layout.Weight(w + gates),
               layout.Weight(w + 2 * gates - 1));
  RequireParts(layout.InputBias(p), layout.Bias(b), layout.Bias(b + gates - 1));
  RequireParts(layout.RecurrentBias(p), layout.Bias(b + gates),
               layout.Bias(b + 2 * gates - 1));
  const ParamsRegion projection = layout.Projection(p);
  Require(projection.size() == config.num_proj * config.num_units,
          "the size of a projection is num_proj * num_units");
  if (config.num_proj > 0) {
    RequireParts(projection, layout.Weight(w + 2 * gates),
                 layout.Weight(w + 2 * gates));
  }
}

// Copies every region from one buffer to another, as the ops that convert
// params do, through memory of exactly the region's size.
void RequireRoundTrip(const CudnnRnnParamsLayout& layout) {
  ExactArray<float> params(layout.size()), again(layout.size());
  Values(1, /*are_any_bits=*/false).Fill(params);
  const auto copy = [&](const ParamsRegion& region) {
    if (region.size() == 0) return;
    ExactArray<float> canonical(region.size());
    std::memcpy(canonical.data(), params.data() + region.offset,
                canonical.bytes());
    std::memcpy(again.data() + region.offset, canonical.data(),
                canonical.bytes());
  };
  for (std::int64_t i = 0; i < layout.num_weights(); ++i) {
    copy(layout.Weight(i));
  }
  for (std::int64_t i = 0; i < layout.num_biases(); ++i) copy(layout.Bias(i));
  Require(AreSame(params, again), "the regions cover the buffer");
}

void FuzzLayout(FuzzInput& input) {
  // The ops receive num_layers as an int32.
  const std::int64_t num_layers = std::clamp<std::int64_t>(
      input.Size(), 1, std::numeric_limits<std::int32_t>::max());
  const std::int64_t num_units = input.Size();
  const std::int64_t input_size = input.Size();
  const RnnConfig config =
      ReadConfig(input, num_layers, num_units, input_size, input.Size());
  const std::int64_t size = CudnnRnnParamsSize(config);
  if (size < 0) return;
  const CudnnRnnParamsLayout layout(config);
  Require(layout.size() == size,
          "the layout and the buffer have the same size");
  const std::uint64_t between = input.Word(8);
  const auto weight = [&](std::int64_t i) { return layout.Weight(i); };
  const auto bias = [&](std::int64_t i) { return layout.Bias(i); };
  const std::int64_t biases = layout.Bias(0).offset;
  RequireNoGaps(0, biases, layout.num_weights(), between, weight);
  RequireNoGaps(biases, size, layout.num_biases(), between, bias);
  RequireMatricesOfGates(
      config, layout,
      static_cast<std::int64_t>(
          between % static_cast<std::uint64_t>(config.num_pseudo_layers())));
  constexpr std::int64_t kSmall = 1 << 14;
  if (size <= kSmall && layout.num_weights() <= kSmall) {
    RequireRoundTrip(layout);
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  tf_rnn_ops::rnn::FuzzInput input(data, size);
  tf_rnn_ops::rnn::FuzzLayout(input);
  return 0;
}
