#include "cc/rnn/cudnn_rnn_params.h"

#include <cassert>

#include "cc/rnn/checked_math.h"

namespace tf_rnn_ops::rnn {
namespace {

// The part of a region that belongs to gate `part` of `parts`.
ParamsRegion Part(const ParamsRegion& region, std::int64_t part,
                  std::int64_t parts) {
  const std::int64_t rows = region.rows / parts;
  return {region.offset + part * rows * region.cols, rows, region.cols};
}

}  // namespace

std::int64_t CudnnRnnParamsSize(const RnnConfig& config) {
  const CheckedInt gates = CheckedInt(config.num_gates()) * config.num_units;
  const CheckedInt output_size = config.output_size();
  const CheckedInt recurrent =
      gates * output_size + CheckedInt(config.num_proj) * config.num_units;
  const CheckedInt biases = gates * 2;
  const CheckedInt first_input =
      config.skip_input ? CheckedInt(0) : gates * config.input_size;
  const CheckedInt other_input = gates * output_size * config.num_directions;
  const CheckedInt first_layer = first_input + recurrent + biases;
  const CheckedInt other_layer = other_input + recurrent + biases;
  const CheckedInt size =
      (first_layer + other_layer * (config.num_layers - 1)) *
      config.num_directions;
  return size.valid() ? size.value() : -1;
}

CudnnRnnParamsLayout::CudnnRnnParamsLayout(const RnnConfig& config)
    : config_(config) {}

std::int64_t CudnnRnnParamsLayout::size() const {
  return BiasesOffset(config_.num_pseudo_layers());
}

ParamsRegion CudnnRnnParamsLayout::InputMatrix(
    std::int64_t pseudo_layer) const {
  assert(pseudo_layer >= 0 && pseudo_layer < config_.num_pseudo_layers());
  return {MatricesOffset(pseudo_layer), config_.num_gates() * config_.num_units,
          InputColumns(pseudo_layer)};
}

ParamsRegion CudnnRnnParamsLayout::RecurrentMatrix(
    std::int64_t pseudo_layer) const {
  const ParamsRegion input = InputMatrix(pseudo_layer);
  return {input.offset + input.size(), input.rows, config_.output_size()};
}

ParamsRegion CudnnRnnParamsLayout::Projection(std::int64_t pseudo_layer) const {
  const ParamsRegion recurrent = RecurrentMatrix(pseudo_layer);
  return {recurrent.offset + recurrent.size(), config_.num_proj,
          config_.num_units};
}

ParamsRegion CudnnRnnParamsLayout::InputBias(std::int64_t pseudo_layer) const {
  assert(pseudo_layer >= 0 && pseudo_layer < config_.num_pseudo_layers());
  return {BiasesOffset(pseudo_layer), config_.num_gates() * config_.num_units,
          1};
}

ParamsRegion CudnnRnnParamsLayout::RecurrentBias(
    std::int64_t pseudo_layer) const {
  const ParamsRegion input = InputBias(pseudo_layer);
  return {input.offset + input.size(), input.rows, 1};
}

std::int64_t CudnnRnnParamsLayout::num_weights() const {
  return config_.num_pseudo_layers() *
         (2 * config_.num_gates() + (config_.num_proj > 0 ? 1 : 0));
}

ParamsRegion CudnnRnnParamsLayout::Weight(std::int64_t index) const {
  const std::int64_t gates = config_.num_gates();
  const std::int64_t per_layer = num_weights() / config_.num_pseudo_layers();
  const std::int64_t pseudo_layer = index / per_layer;
  const std::int64_t i = index % per_layer;
  if (i < gates) return Part(InputMatrix(pseudo_layer), i, gates);
  if (i < 2 * gates) {
    return Part(RecurrentMatrix(pseudo_layer), i - gates, gates);
  }
  return Projection(pseudo_layer);
}

std::int64_t CudnnRnnParamsLayout::num_biases() const {
  return config_.num_pseudo_layers() * 2 * config_.num_gates();
}

ParamsRegion CudnnRnnParamsLayout::Bias(std::int64_t index) const {
  const std::int64_t gates = config_.num_gates();
  const std::int64_t pseudo_layer = index / (2 * gates);
  const std::int64_t i = index % (2 * gates);
  return i < gates ? Part(InputBias(pseudo_layer), i, gates)
                   : Part(RecurrentBias(pseudo_layer), i - gates, gates);
}

std::int64_t CudnnRnnParamsLayout::InputColumns(
    std::int64_t pseudo_layer) const {
  const std::int64_t layer = pseudo_layer / config_.num_directions;
  return layer == 0 && config_.skip_input ? 0 : config_.fan_in(layer);
}

std::int64_t CudnnRnnParamsLayout::MatricesSize(
    std::int64_t pseudo_layer) const {
  const std::int64_t fan_in =
      InputColumns(pseudo_layer) + config_.output_size();
  // Check num_units first: if it is 0, fan_in is unchecked and may overflow.
  return config_.num_gates() * config_.num_units * fan_in +
         config_.num_proj * config_.num_units;
}

std::int64_t CudnnRnnParamsLayout::MatricesOffset(
    std::int64_t pseudo_layer) const {
  // All pseudo-layers above the first layer have the same size.
  const std::int64_t first = config_.num_directions;
  if (pseudo_layer <= first) return pseudo_layer * MatricesSize(0);
  return first * MatricesSize(0) + (pseudo_layer - first) * MatricesSize(first);
}

std::int64_t CudnnRnnParamsLayout::BiasesOffset(
    std::int64_t pseudo_layer) const {
  return MatricesOffset(config_.num_pseudo_layers()) +
         pseudo_layer * 2 * config_.num_gates() * config_.num_units;
}

}  // namespace tf_rnn_ops::rnn
