#include "cc/rnn/cudnn_rnn_params.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace tf_rnn_ops::rnn {
namespace {

constexpr RnnMode kModes[] = {RnnMode::kRelu, RnnMode::kTanh, RnnMode::kLstm,
                              RnnMode::kGru};

RnnConfig LstmConfig() {
  RnnConfig config{};
  config.mode = RnnMode::kLstm;
  config.num_directions = 1;
  config.num_layers = 1;
  config.input_size = 3;
  config.num_units = 5;
  return config;
}

// Every kind of network, with one to three layers.
std::vector<RnnConfig> Configs() {
  std::vector<RnnConfig> configs;
  for (RnnMode mode : kModes) {
    for (std::int64_t num_directions : {1, 2}) {
      for (std::int64_t num_layers : {1, 2, 3}) {
        for (std::int64_t num_units : {0, 1, 5}) {
          for (std::int64_t input_size : {0, 1, 5, 7}) {
            const bool can_skip = input_size == num_units;
            for (bool skip_input : {false, true}) {
              if (skip_input && !can_skip) continue;
              for (std::int64_t num_proj : {0, 2}) {
                if (num_proj > 0 &&
                    (mode != RnnMode::kLstm || num_proj >= num_units)) {
                  continue;
                }
                configs.push_back({mode, skip_input, num_directions, num_layers,
                                   input_size, num_units, num_proj});
              }
            }
          }
        }
      }
    }
  }
  return configs;
}

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};

// The shapes of the matrices, gate by gate, and of the projections, in buffer
// order.
std::vector<Shape> WeightShapes(const RnnConfig& config) {
  const std::int64_t output_size =
      config.num_proj > 0 ? config.num_proj : config.num_units;
  std::vector<Shape> shapes;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    std::int64_t fan_in = config.num_directions * output_size;
    if (layer == 0) fan_in = config.skip_input ? 0 : config.input_size;
    for (std::int64_t i = 0; i < config.num_directions; ++i) {
      shapes.insert(shapes.end(), config.num_gates(),
                    {config.num_units, fan_in});
      shapes.insert(shapes.end(), config.num_gates(),
                    {config.num_units, output_size});
      if (config.num_proj > 0) {
        shapes.push_back({config.num_proj, config.num_units});
      }
    }
  }
  return shapes;
}

TEST(CudnnRnnParamsTest, MatchesManualExample) {
  RnnConfig config = LstmConfig();
  config.num_directions = 2;
  config.num_layers = 2;
  config.num_proj = 2;
  // Layer 0: W 20 * 3, R 20 * 2, P 2 * 5, twice; layer 1: W 20 * 4; biases 8 *
  // 20.
  ASSERT_EQ(CudnnRnnParamsSize(config), 2 * 110 + 2 * 130 + 160);
  const CudnnRnnParamsLayout layout(config);
  EXPECT_EQ(layout.InputMatrix(0).offset, 0);
  EXPECT_EQ(layout.RecurrentMatrix(0).offset, 60);
  EXPECT_EQ(layout.Projection(0).offset, 100);
  EXPECT_EQ(layout.InputMatrix(1).offset, 110);
  EXPECT_EQ(layout.InputMatrix(2).offset, 220);
  EXPECT_EQ(layout.RecurrentMatrix(2).offset, 300);
  EXPECT_EQ(layout.Projection(3).offset, 470);
  EXPECT_EQ(layout.InputBias(0).offset, 480);
  EXPECT_EQ(layout.RecurrentBias(0).offset, 500);
  EXPECT_EQ(layout.RecurrentBias(3).offset, 620);
  // The recurrent matrix of the forget gate in layer 0, backward direction.
  EXPECT_EQ(layout.Weight(9 + 4 + 1).offset, 110 + 60 + 10);
  // The recurrent bias of the output gate in layer 1, forward direction.
  EXPECT_EQ(layout.Bias(2 * 8 + 4 + 3).offset, 480 + 2 * 40 + 20 + 15);
}

TEST(CudnnRnnParamsTest, CanonicalOrderIsBufferOrderWithoutGaps) {
  for (const RnnConfig& config : Configs()) {
    const CudnnRnnParamsLayout layout(config);
    const std::vector<Shape> weights = WeightShapes(config);
    std::int64_t offset = 0;
    ASSERT_EQ(layout.num_weights(), static_cast<std::int64_t>(weights.size()));
    for (std::int64_t i = 0; i < layout.num_weights(); ++i) {
      const ParamsRegion region = layout.Weight(i);
      EXPECT_EQ(region.offset, offset);
      EXPECT_EQ(region.rows, weights[i].rows);
      EXPECT_EQ(region.cols, weights[i].cols);
      offset += weights[i].rows * weights[i].cols;
    }
    ASSERT_EQ(layout.num_biases(), config.num_layers * config.num_directions *
                                       2 * config.num_gates());
    for (std::int64_t i = 0; i < layout.num_biases(); ++i) {
      const ParamsRegion region = layout.Bias(i);
      EXPECT_EQ(region.offset, offset);
      EXPECT_EQ(region.rows, config.num_units);
      EXPECT_EQ(region.cols, 1);
      offset += config.num_units;
    }
    EXPECT_EQ(layout.size(), offset);
    EXPECT_EQ(CudnnRnnParamsSize(config), offset);
  }
}

TEST(CudnnRnnParamsTest, OverflowingSizesAreMinusOne) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  RnnConfig config = LstmConfig();
  config.num_units = kLarge;  // 4 gates * 2^64
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);

  config = LstmConfig();
  config.input_size = kMax;
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);

  config = LstmConfig();
  config.num_layers = kMax;
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);

  config = LstmConfig();
  config.num_units = kLarge;
  config.num_proj = kLarge / 2;  // the projection alone also overflows, 2^63
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);

  // Overflows only with both directions: a pseudo-layer has 340.
  config = LstmConfig();
  config.num_directions = 2;
  config.num_layers = kMax / 500;
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);
  config.num_layers = kMax / 700;
  EXPECT_GT(CudnnRnnParamsSize(config), 0);
}

TEST(CudnnRnnParamsTest, LargeSizesWithoutOverflow) {
  RnnConfig config{};
  config.mode = RnnMode::kTanh;
  config.num_directions = 1;
  config.num_layers = 1;
  config.num_units = std::int64_t{1} << 20;
  config.input_size = (std::int64_t{1} << 43) - config.num_units - 3;
  // num_units * (input_size + num_units + 2) = 2^20 * (2^43 - 1)
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(CudnnRnnParamsSize(config), kMax - (std::int64_t{1} << 20) + 1);
  EXPECT_EQ(CudnnRnnParamsLayout(config).size(), CudnnRnnParamsSize(config));
  ++config.input_size;
  EXPECT_EQ(CudnnRnnParamsSize(config), -1);
}

// UndefinedBehaviorSanitizer detects intermediate overflow.
TEST(CudnnRnnParamsTest, LayoutOfManyInputsWithoutUnits) {
  RnnConfig config = LstmConfig();
  config.num_units = 0;
  config.num_layers = 2;
  config.input_size = std::numeric_limits<std::int64_t>::max();
  ASSERT_EQ(CudnnRnnParamsSize(config), 0);
  const CudnnRnnParamsLayout layout(config);
  EXPECT_EQ(layout.size(), 0);
  EXPECT_EQ(layout.InputMatrix(0).cols, config.input_size);
  EXPECT_EQ(layout.Weight(layout.num_weights() - 1).offset, 0);
  EXPECT_EQ(layout.Bias(layout.num_biases() - 1).offset, 0);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
