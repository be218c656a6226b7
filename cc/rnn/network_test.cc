#include "cc/rnn/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::rnn {
namespace {

// ---------------------------------------------------------------------------
// The plain reference: the formulas of network.h, element by element.

double Activate(Activation activation, double value) {
  switch (activation) {
    case Activation::kTanh:
      return std::tanh(value);
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-value));
    case Activation::kRelu:
      return std::max(value, 0.0);
    case Activation::kHardSigmoid:
      return std::clamp(value / 6 + 0.5, 0.0, 1.0);
    case Activation::kElu:
      return value > 0 ? value : std::exp(value) - 1;
    case Activation::kSelu:
      return 1.0507009873554805 *
             (value > 0 ? value : 1.6732632423543772 * (std::exp(value) - 1));
    case Activation::kSoftplus:
      return std::log(1 + std::exp(value));
    case Activation::kSoftsign:
      return value / (1 + std::abs(value));
    case Activation::kExponential:
      return std::exp(value);
    case Activation::kLeakyRelu:
      return std::max(value, double{0.2f} * value);
    case Activation::kRelu6:
      return std::clamp(value, 0.0, 6.0);
    case Activation::kHardTanh:
      return std::clamp(value, -1.0, 1.0);
    case Activation::kLogSigmoid:
      return -std::log(1 + std::exp(-value));
    case Activation::kSquareplus:
      return (value + std::sqrt(value * value + 4)) / 2;
    case Activation::kHardShrink:
      return std::abs(value) > 0.5 ? value : 0;
    case Activation::kSoftShrink:
      return value - std::clamp(value, -0.5, 0.5);
    case Activation::kSparseSigmoid:
      return std::clamp((value + 1) / 2, 0.0, 1.0);
    case Activation::kGelu:
      return value * (1 + std::erf(value / std::sqrt(2))) / 2;
    case Activation::kGeluApproximate:
      return value / 2 *
             (1 + std::tanh(std::sqrt(2 / M_PI) *
                            (value + double{0.044715f} * std::pow(value, 3))));
    case Activation::kSilu:
      return value / (1 + std::exp(-value));
    case Activation::kMish:
      return value * std::tanh(std::log(1 + std::exp(value)));
    case Activation::kHardSilu:
      return value * std::clamp(value / 6 + 0.5, 0.0, 1.0);
    case Activation::kTanhShrink:
      return value - std::tanh(value);
    case Activation::kSparsePlus:
      return value >= 1 ? value : std::pow(std::max(value + 1, 0.0), 2) / 4;
    case Activation::kLinear:
      break;
  }
  return value;
}

// One word of Philox4x32-10.
std::uint32_t RandomWord(std::uint64_t counter, int word) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(counter),
                        static_cast<std::uint32_t>(counter >> 32),
                        static_cast<std::uint32_t>(kStream.counter_high), 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(kStream.key), 0};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0],
        static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1],
        static_cast<std::uint32_t>(a)};
    std::copy_n(next, 4, c);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c[word];
}

// The dropout factor of element i of the input of a layer above the first.
double Mask(const Case& k, std::int64_t layer, std::int64_t i) {
  if (k.dropout == 0) return 1;
  const std::int64_t samples = (k.size.time * k.size.batch * k.width() + 3) / 4;
  const std::uint32_t word =
      RandomWord(kStream.counter_low + (layer - 1) * samples + i / 4, i % 4);
  const double uniform = word / 4294967296.0;
  return uniform < double{k.dropout} ? 0 : 1 / (1 - double{k.dropout});
}

// y += matrix * x, for rows [first, first + y.size()).
void AddProduct(const Case& k, const ParamsRegion& region, std::int64_t first,
                const Array& x, Array& y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::int64_t j = 0; j < region.cols; ++j) {
      y[i] += k.params[region.offset + (first + i) * region.cols + j] * x[j];
    }
  }
}

// A vector times the mask of a gate at time t, if there is one.
// masks: those of all gates
Array Masked(const Case& k, GateDropout dropout, const Array& masks,
             std::int64_t gate, std::int64_t t, std::int64_t sample,
             Array vector) {
  if (dropout == GateDropout::kNone) return vector;
  const auto width = static_cast<std::int64_t>(vector.size());
  for (std::int64_t i = 0; i < width; ++i) {
    vector[i] *= masks[k.MaskAt(dropout, gate, t, sample, width, i)];
  }
  return vector;
}

// Step t of one pseudo-layer for one sample; replaces h and c.
void Step(const Case& k, std::int64_t pseudo_layer, std::int64_t t,
          std::int64_t sample, const Array& x, Array& h, Array& c) {
  const RnnConfig& config = k.config;
  const std::int64_t units = config.num_units;
  const CudnnRnnParamsLayout layout(config);
  const bool skips = config.skip_input && pseudo_layer < config.num_directions;
  const Array one{1};
  std::vector<Array> input, recurrent;  // [gates][U]
  Array reset;                          // r ∘ h, once r is known
  for (std::int64_t gate = 0; gate < config.num_gates(); ++gate) {
    Array from_input = skips ? x : Array(units);
    Array from_state(units);
    const std::int64_t first = gate * units;
    if (!skips) {
      AddProduct(
          k, layout.InputMatrix(pseudo_layer), first,
          Masked(k, config.input_dropout, k.input_masks, gate, t, sample, x),
          from_input);
    }
    AddProduct(k, layout.InputBias(pseudo_layer), first, one, from_input);
    AddProduct(k, layout.RecurrentMatrix(pseudo_layer), first,
               Masked(k, config.state_dropout, k.state_masks, gate, t, sample,
                      gate < config.num_recurrent_gates() ? h : reset),
               from_state);
    AddProduct(k, layout.RecurrentBias(pseudo_layer), first, one, from_state);
    input.push_back(from_input);
    recurrent.push_back(from_state);
    if (gate + 1 != config.num_recurrent_gates()) continue;
    for (std::int64_t u = 0; u < static_cast<std::int64_t>(h.size()); ++u) {
      reset.push_back(
          Activate(config.activations.gate, input[0][u] + recurrent[0][u]) *
          h[u]);
    }
  }
  const auto sum = [&](int i, std::int64_t unit) {
    return input[i][unit] + recurrent[i][unit];
  };
  const auto gate = [&](int i, std::int64_t unit) {
    return Activate(config.activations.gate, sum(i, unit));
  };
  const auto state = [&](double value) {
    return Activate(config.activations.state, value);
  };
  Array out(units);
  for (std::int64_t u = 0; u < units; ++u) {
    switch (config.mode) {
      case RnnMode::kRelu:
        out[u] = std::max(sum(0, u), 0.0);
        break;
      case RnnMode::kTanh:
        out[u] = std::tanh(sum(0, u));
        break;
      case RnnMode::kRnn:
        out[u] = state(sum(0, u));
        break;
      case RnnMode::kLstm:
        c[u] = gate(1, u) * c[u] + gate(0, u) * state(sum(2, u));
        out[u] = gate(3, u) * state(c[u]);
        break;
      case RnnMode::kGru: {
        const double n = state(input[2][u] + gate(0, u) * recurrent[2][u]);
        const double update = gate(1, u);
        out[u] = (1 - update) * n + update * h[u];
        break;
      }
      case RnnMode::kGruResetBefore: {
        const double update = gate(1, u);
        out[u] = (1 - update) * state(sum(2, u)) + update * h[u];
        break;
      }
    }
  }
  if (config.num_proj > 0) {
    Array projected(config.num_proj);
    AddProduct(k, layout.Projection(pseudo_layer), 0, out, projected);
    out = projected;
  }
  h = out;
}

ForwardResult ReferenceForward(const Case& k) {
  const RnnConfig& config = k.config;
  const auto [time, batch] = k.size;
  const std::int64_t out = config.output_size(), units = config.num_units;
  ForwardResult result{{}, k.input_h, k.input_c};
  // [time][batch][fan_in]
  std::vector<std::vector<Array>> x(time, std::vector<Array>(batch));
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < config.input_size; ++i) {
        x[t][b].push_back(k.input[k.At(t, time, b, config.input_size, i)]);
      }
    }
  }
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<std::vector<Array>> y(
        time, std::vector<Array>(batch, Array(k.width())));
    for (std::int64_t d = 0; d < config.num_directions; ++d) {
      const std::int64_t p = layer * config.num_directions + d;
      for (std::int64_t b = 0; b < batch; ++b) {
        Array h, c;
        const auto at = [&](std::int64_t size, std::int64_t i) {
          return k.At(p, k.pseudo_layers(), b, size, i);
        };
        for (std::int64_t i = 0; i < out; ++i) {
          h.push_back(k.input_h[at(out, i)]);
        }
        for (std::int64_t i = 0; i < units && config.has_cell_state(); ++i) {
          c.push_back(k.input_c[at(units, i)]);
        }
        for (std::int64_t step = 0; step < k.length(b); ++step) {
          const std::int64_t t = d == 0 ? step : k.length(b) - 1 - step;
          Step(k, p, t, b, x[t][b], h, c);
          std::copy(h.begin(), h.end(), y[t][b].begin() + d * out);
        }
        for (std::int64_t i = 0; i < out; ++i) {
          result.output_h[at(out, i)] = h[i];
        }
        for (std::size_t i = 0; i < c.size(); ++i) {
          result.output_c[at(units, i)] = c[i];
        }
      }
    }
    x = y;
    for (std::int64_t t = 0; t < time && layer + 1 < config.num_layers; ++t) {
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t i = 0; i < k.width(); ++i) {
          x[t][b][i] *= Mask(k, layer + 1, (t * batch + b) * k.width() + i);
        }
      }
    }
  }
  result.output.resize(time * batch * k.width());
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < k.width(); ++i) {
        result.output[k.At(t, time, b, k.width(), i)] = x[t][b][i];
      }
    }
  }
  return result;
}

double Dot(const Array& a, const Array& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The scalar whose gradients are computed.
double ReferenceLoss(const Case& k) {
  const ForwardResult result = ReferenceForward(k);
  return Dot(result.output, k.d_output) + Dot(result.output_h, k.d_output_h) +
         Dot(result.output_c, k.d_output_c);
}

// Enough steps and samples that the output is written past the caches. Rows of
// 24 floats are not, because half of them start within a cache line.
std::vector<Case> LargeOutputCases() {
  std::vector<Case> cases;
  for (std::int64_t num_units : {16, 24}) {
    Case k =
        RandomCase({RnnMode::kTanh, false, 2, 1, 3, num_units, 0}, {260, 64});
    for (int i = 0; i < 64; ++i) k.lengths.push_back(i * 37 % 64 * 4);
    cases.push_back(k);
  }
  cases.push_back(
      RandomCase({RnnMode::kLstm, false, 1, 1, 3, 17, 16}, {520, 64}));
  return cases;
}

// Weights larger than the second-level caches, for up to one tile of samples.
std::vector<Case> LargeWeightsCases() {
  return {RandomCase({RnnMode::kLstm, false, 1, 1, 300, 340, 0}, {3, 9}),
          RandomCase({RnnMode::kGru, false, 2, 2, 64, 300, 0}, {3, 12}),
          RandomCase({RnnMode::kTanh, false, 1, 1, 500, 1200, 0}, {4, 8})};
}

// The scratch memory of inference, in bytes.
std::int64_t InferenceWorkspace(InstructionSet instruction_set,
                                const RnnConfig& config, const RnnSize& size) {
  NetworkForward<float> a{};
  a.config = config;
  a.size = size;
  a.time_major = true;
  return GetNetworkKernels<float>(instruction_set, config)
      .forward_workspace(a, 2);
}

TEST(NetworkTest, InferenceKeepsTheOutputsOfTwoLayers) {
  constexpr std::int64_t kTime = 1000, kBatch = 3, kUnits = 40;
  const std::int64_t output = kTime * kBatch * 2 * kUnits * sizeof(float);
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    for (RnnMode mode : kModes) {
      for (std::int64_t num_layers : {1, 2, 3, 4}) {
        const RnnConfig config{mode, false, 2, num_layers, 30, kUnits, 0};
        const auto workspace = [&](std::int64_t time) {
          return InferenceWorkspace(instruction_set, config, {time, kBatch});
        };
        const std::int64_t outputs = std::min<std::int64_t>(num_layers - 1, 2);
        EXPECT_EQ(workspace(2 * kTime) - workspace(kTime), outputs * output)
            << "mode " << static_cast<int>(mode) << " layers " << num_layers;
      }
    }
  }
}

template <typename T>
class NetworkTest : public testing::Test {};
TYPED_TEST_SUITE(NetworkTest, StorageTypes);

void ExpectForwardIsClose(const ForwardResult& actual,
                          const ForwardResult& expected, double tolerance) {
  ExpectClose(actual.output, expected.output, tolerance, "output");
  ExpectClose(actual.output_h, expected.output_h, tolerance, "output_h");
  ExpectClose(actual.output_c, expected.output_c, tolerance, "output_c");
}

// Returns the reference result.
template <typename T>
ForwardResult ExpectForwardEqualsTheReference(const Case& k,
                                              Engine<T>& engine) {
  SerialExecutor executor;
  const ForwardResult actual = engine.Forward(/*is_training=*/true, executor);
  ExpectForwardIsClose(actual, ReferenceForward(k), kTolerance<T>);
  return actual;
}

TYPED_TEST(NetworkTest, ForwardEqualsTheReference) {
  ForEachCase<TypeParam>([](Case& k, Engine<TypeParam>& engine) {
    ExpectForwardEqualsTheReference(k, engine);
  });
}

TYPED_TEST(NetworkTest, LargeOutputEqualsTheReference) {
  ForEachCase<TypeParam>(
      LargeOutputCases(), [](Case& k, Engine<TypeParam>& engine) {
        const ForwardResult result = ExpectForwardEqualsTheReference(k, engine);
        EXPECT_GT(result.output.size() * sizeof(float), std::size_t{2} << 20);
      });
}

TYPED_TEST(NetworkTest, LargeWeightsEqualTheReference) {
  ForEachCase<TypeParam>(
      LargeWeightsCases(), [](Case& k, Engine<TypeParam>& engine) {
        ExpectForwardEqualsTheReference(k, engine);
        EXPECT_GT(k.params.size() * sizeof(float), std::size_t{3} << 20);
      });
}

TYPED_TEST(NetworkTest, PackedWeightsEqualTheReference) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
    const auto forward = [&](bool packs) {
      return engine.Forward(/*is_training=*/true, executor,
                            /*has_constant_weights=*/true, packs);
    };
    const ForwardResult actual = forward(/*packs=*/true);
    ExpectForwardIsClose(actual, ReferenceForward(k), kTolerance<TypeParam>);
    ExpectForwardIsClose(actual, forward(/*packs=*/false), /*tolerance=*/0);
  });
}

TEST(NetworkTest, WeightsOfOtherFormatsAreClose) {
  constexpr struct {
    WeightFormat format;
    double tolerance;
  } kFormats[] = {{WeightFormat::kBFloat16, 0.03}, {WeightFormat::kInt8, 0.06}};
  SerialExecutor serial;
  Threads threads;
  PoolExecutor pool(threads.Schedule(), /*num_threads=*/3);
  for (Case k : Cases()) {
    k.dropout = 0;
    const ForwardResult expected = ReferenceForward(k);
    for (InstructionSet instruction_set : SupportedInstructionSets()) {
      for (const auto& [format, tolerance] : kFormats) {
        SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                     Describe(k));
        Engine<float> engine(
            GetInferenceKernels(instruction_set, k.config, format), k);
        const auto forward = [&](Executor& executor, bool packs) {
          return engine.Forward(/*is_training=*/false, executor,
                                /*has_constant_weights=*/true, packs);
        };
        const ForwardResult actual = forward(serial, /*packs=*/true);
        ExpectForwardIsClose(actual, expected, tolerance);
        ExpectForwardIsClose(actual, forward(serial, /*packs=*/false), 0);
        ExpectForwardIsClose(actual, forward(pool, /*packs=*/true), 0);
      }
    }
  }
}

// A feature in other units, and its weights, give the same bits.
TEST(NetworkTest, Int8DoesNotDependOnTheUnitsOfFeatures) {
  SerialExecutor executor;
  for (Case k : Cases()) {
    if (k.config.skip_input) continue;
    k.dropout = 0;
    Case other = k;
    const auto factor = [&](std::size_t i) {
      const auto feature = static_cast<std::int64_t>(i) % k.config.input_size;
      return std::ldexp(1.0, static_cast<int>(feature % 5 - 2) * 20);
    };
    for (std::size_t i = 0; i < other.input.size(); ++i) {
      other.input[i] *= factor(i);
    }
    const CudnnRnnParamsLayout layout(k.config);
    for (std::int64_t d = 0; d < k.config.num_directions; ++d) {
      const ParamsRegion region = layout.InputMatrix(d);
      for (std::int64_t i = 0; i < region.size(); ++i) {
        other.params[region.offset + i] /= factor(i);
      }
    }
    for (InstructionSet instruction_set : SupportedInstructionSets()) {
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                   Describe(k));
      const auto kernels =
          GetInferenceKernels(instruction_set, k.config, WeightFormat::kInt8);
      const auto forward = [&](Case& c) {
        return Engine<float>(kernels, c)
            .Forward(
                /*is_training=*/false, executor, /*has_constant_weights=*/true,
                /*packs=*/true);
      };
      ExpectForwardIsClose(forward(other), forward(k), /*tolerance=*/0);
    }
  }
}

// Whatever the memory held before: buffers are filled with NaN.
TYPED_TEST(NetworkTest, ReserveSpaceIsFinite) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    for (const double element : engine.ReserveSpace()) {
      ASSERT_TRUE(std::isfinite(element));
    }
  });
}

TYPED_TEST(NetworkTest, InferenceHasNoDropout) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
    const ForwardResult actual =
        engine.Forward(/*is_training=*/false, executor);
    k.dropout = 0;
    ExpectForwardIsClose(actual, ReferenceForward(k), kTolerance<TypeParam>);
  });
}

// Moves all inputs at once in a random direction.
TEST(NetworkGradientTest, EqualsCentralDifferences) {
  SerialExecutor executor;
  ForEachCase<double>([&](Case& k, Engine<double>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    const BackwardResult gradient = engine.Backward(executor);
    std::mt19937 generator(2);
    // Small enough to keep rectifiers away from their kinks.
    constexpr double kStep = 1e-6;
    double expected = 0, actual = 0;
    Case above = k, below = k;
    const auto move = [&](Array Case::* array, const Array& slope) {
      ASSERT_EQ(slope.size(), (k.*array).size());
      const Array direction = RandomArray(slope.size(), 1, generator);
      actual += Dot(slope, direction);
      for (std::size_t i = 0; i < slope.size(); ++i) {
        (above.*array)[i] += kStep * direction[i];
        (below.*array)[i] -= kStep * direction[i];
      }
    };
    move(&Case::input, gradient.input);
    move(&Case::input_h, gradient.input_h);
    move(&Case::input_c, gradient.input_c);
    move(&Case::params, gradient.params);
    expected = (ReferenceLoss(above) - ReferenceLoss(below)) / (2 * kStep);
    EXPECT_NEAR(actual, expected, 1e-7 * (1 + std::fabs(expected)));
  });
}

TYPED_TEST(NetworkTest, BackwardEqualsDoublePrecision) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case& k, Engine<TypeParam>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    // The engine has rounded the case to TypeParam.
    Engine<double> wide(InstructionSet::kBaseline, k);
    wide.Forward(/*is_training=*/true, executor);
    ExpectAllClose(k.config, engine.Backward(executor), wide.Backward(executor),
                   kTolerance<TypeParam>);
  });
}

// Omitting a result does not change the others.
TYPED_TEST(NetworkTest, NullResultsAreSkipped) {
  SerialExecutor executor;
  ForEachCase<TypeParam>([&](Case&, Engine<TypeParam>& engine) {
    engine.Forward(/*is_training=*/true, executor);
    const BackwardResult all = engine.Backward(executor);
    for (BackwardParts parts :
         {BackwardParts{true, false}, {false, true}, {false, false}}) {
      const BackwardResult some = engine.Backward(executor, parts);
      EXPECT_TRUE(!parts.wants_input || some.input == all.input);
      EXPECT_TRUE(some.input_h == all.input_h && some.input_c == all.input_c);
      EXPECT_TRUE(!parts.wants_params || some.params == all.params);
    }
  });
}

// Other threads may write to reserve_space while a pass runs, and the header
// determines which memory a pass accesses.
TEST(NetworkHeaderTest, IsNotReadAgain) {
  SerialExecutor executor;
  const RnnConfig config{RnnMode::kTanh, false, 1, 2, 3, 200, 0};
  ForEachCase<double>(
      {UnsortedCase(config)}, [&](Case&, Engine<double>& engine) {
        engine.Forward(/*is_training=*/true, executor);
        const BackwardResult expected = engine.Backward(executor);
        const BackwardGradResult expected_grad = engine.BackwardGrad(executor);
        std::fill_n(reinterpret_cast<char*>(engine.reserve_space()),
                    kReserveSpaceHeaderBytes, '\xff');
        ExpectEqual(engine.Backward(executor), expected);
        ExpectEqual(engine.BackwardGrad(executor), expected_grad);
      });
}

// The backward pass uses the recorded order and does not decide again.
TEST(NetworkSampleOrderTest, IsReadFromReserveSpace) {
  SerialExecutor executor;
  // The activations are the first layer's output, [time, batch, num_units].
  const RnnConfig config{RnnMode::kTanh, false, 1, 2, 3, 200, 0};
  ForEachCase<double>(
      {UnsortedCase(config)}, [&](Case& k, Engine<double>& engine) {
        engine.Forward(/*is_training=*/true, executor);
        ASSERT_TRUE(ReserveSpaceIsSorted(engine.header()));
        const BackwardResult expected = engine.Backward(executor);
        const BackwardGradResult expected_grad = engine.BackwardGrad(executor);

        const auto [time, batch] = k.size;
        std::vector<std::int64_t> order(batch);
        SortSamples(k.lengths.data(), batch, order.data());
        double* const activations =
            engine.reserve_space() + kReserveSpaceHeaderBytes / sizeof(double);
        const Array sorted(activations,
                           activations + time * batch * config.num_units);
        for (std::int64_t row = 0; row < time * batch; ++row) {
          const std::int64_t to = row / batch * batch + order[row % batch];
          std::copy_n(sorted.begin() + row * config.num_units, config.num_units,
                      activations + to * config.num_units);
        }
        WriteReserveSpaceHeader<double>(
            {k.config, k.size, k.time_major, k.lengths.data(), k.dropout},
            kStream, engine.reserve_space(), /*is_sorted=*/false);
        engine.CopyHeader();
        ExpectAllClose(k.config, engine.Backward(executor), expected,
                       kTolerance<double>);
        ExpectAllClose(k.config, engine.BackwardGrad(executor), expected_grad,
                       kTolerance<double>);
      });
}

// A group number for each element. In a network with identical units and
// samples, elements of a group must be equal.
using Alike = std::vector<std::int64_t>;

// Groups of an array [blocks, batch, parts * width]: one for each part of a
// block.
Alike AlikeInParts(const Array& array, std::int64_t blocks, std::int64_t batch,
                   std::int64_t parts) {
  const std::int64_t size = static_cast<std::int64_t>(array.size());
  const std::int64_t row = size / blocks / batch, width = row / parts;
  Alike alike;
  for (std::int64_t i = 0; i < size; ++i) {
    alike.push_back(i / (batch * row) * parts + i % row / width);
  }
  return alike;
}

// Groups of the params: the rows of a gate's matrix or bias, and those columns
// that multiply units of one direction.
Alike AlikeInParams(const RnnConfig& config) {
  const CudnnRnnParamsLayout layout(config);
  Alike alike(layout.size());
  const auto set = [&](const ParamsRegion& region, std::int64_t width) {
    for (std::int64_t i = 0; i < region.size(); ++i) {
      const std::int64_t row = i / region.cols, col = i % region.cols;
      alike[region.offset + i] =
          region.offset + row / config.num_units * region.cols + col / width;
    }
  };
  for (std::int64_t p = 0; p < config.num_pseudo_layers(); ++p) {
    set(layout.InputMatrix(p),
        p < config.num_directions ? 1 : config.num_units);
    set(layout.RecurrentMatrix(p), config.num_units);
    set(layout.InputBias(p), 1);
    set(layout.RecurrentBias(p), 1);
  }
  return alike;
}

void MakeAlike(const Alike& alike, Array& array) {
  std::map<std::int64_t, double> values;
  for (std::size_t i = 0; i < array.size(); ++i) {
    array[i] = values.emplace(alike[i], array[i]).first->second;
  }
}

void ExpectAlike(const Alike& alike, const Array& array, const char* what) {
  Array expected = array;
  MakeAlike(alike, expected);
  for (std::size_t i = 0; i < array.size(); ++i) {
    ASSERT_EQ(array[i], expected[i]) << what << "[" << i << "]";
  }
}

// Covers full and partial vectors of units, and tiles of any height.
TYPED_TEST(NetworkTest, BitsDoNotDependOnElementPosition) {
  SerialExecutor executor;
  std::vector<Case> cases;
  for (RnnMode mode : kModes) {
    for (std::int64_t num_units : {9, 53}) {
      for (std::int64_t batch : {1, 7, 41}) {
        for (std::int64_t time : {2, 9}) {
          cases.push_back(
              RandomCase({mode, false, 2, 2, 5, num_units, 0}, {time, batch}));
        }
      }
    }
  }
  struct Kinds {
    Alike input, state, output, params;
  };
  const auto kinds_of = [](const Case& k) -> Kinds {
    const auto [time, batch] = k.size;
    return {AlikeInParts(k.input, time, batch, k.config.input_size),
            AlikeInParts(k.input_h, k.pseudo_layers(), batch, 1),
            AlikeInParts(k.d_output, time, batch, k.config.num_directions),
            AlikeInParams(k.config)};
  };
  for (Case& k : cases) {
    const Kinds kinds = kinds_of(k);
    for (Array* array : {&k.input, &k.dot_input})
      MakeAlike(kinds.input, *array);
    for (Array* array : {&k.input_h, &k.input_c, &k.d_output_h, &k.d_output_c,
                         &k.dot_input_h, &k.dot_input_c}) {
      MakeAlike(kinds.state, *array);
    }
    MakeAlike(kinds.output, k.d_output);
    for (Array* array : {&k.params, &k.dot_params}) {
      MakeAlike(kinds.params, *array);
    }
  }
  ForEachCase<TypeParam>(cases, [&](Case& k, Engine<TypeParam>& engine) {
    const Kinds kinds = kinds_of(k);
    const ForwardResult forward =
        engine.Forward(/*is_training=*/true, executor);
    ExpectAlike(kinds.output, forward.output, "output");
    ExpectAlike(kinds.state, forward.output_h, "output_h");
    ExpectAlike(kinds.state, forward.output_c, "output_c");
    const BackwardResult backward = engine.Backward(executor);
    ExpectAlike(kinds.input, backward.input, "input");
    ExpectAlike(kinds.state, backward.input_h, "input_h");
    ExpectAlike(kinds.state, backward.input_c, "input_c");
    ExpectAlike(kinds.params, backward.params, "params");
    const BackwardGradResult grad = engine.BackwardGrad(executor);
    ExpectAlike(kinds.input, grad.input, "input grad");
    ExpectAlike(kinds.state, grad.input_h, "input_h grad");
    ExpectAlike(kinds.state, grad.input_c, "input_c grad");
    ExpectAlike(kinds.params, grad.params, "params grad");
    ExpectAlike(kinds.output, grad.d_output, "d_output grad");
    ExpectAlike(kinds.state, grad.d_output_h, "d_output_h grad");
    ExpectAlike(kinds.state, grad.d_output_c, "d_output_c grad");
  });
}

// Values after the end of a sequence have no effect, even NaN.
TYPED_TEST(NetworkTest, PaddingHasNoEffect) {
  SerialExecutor executor;
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    for (RnnMode mode : {RnnMode::kTanh, RnnMode::kLstm, RnnMode::kGru,
                         RnnMode::kGruResetBefore}) {
      const bool is_keras = !IsOfCudnn(mode);
      const std::int64_t n = is_keras ? 1 : 2;  // directions and layers
      const std::int64_t deep = is_keras ? 1 : 3;
      Case small = RandomCase({mode, false, n, n, 3, 17, 0, is_keras}, {5, 4});
      small.lengths = {2, 0, 5, 1};
      Case in_place =
          RandomCase({mode, false, n, n, 3, 17, 0, is_keras}, {3, 4});
      in_place.lengths = {2, 0, 3, 1};
      std::vector<Case> cases{small, in_place,
                              UnsortedCase({mode, false, n, deep, 3,
                                            is_keras ? 161 : 61, 0, is_keras})};
      for (Case& k : cases) {
        SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                     Describe(k));
        Case padded = WithPadding(k);
        Engine<TypeParam> clean(instruction_set, k);
        Engine<TypeParam> dirty(instruction_set, padded);
        ExpectEqual(RunPasses(dirty, executor), RunPasses(clean, executor));
      }
    }
  }
}

// A sequence without steps is not multiplied by weights, even NaN: the
// gradients of its initial states equal those of its final states.
TYPED_TEST(NetworkTest, WeightsHaveNoEffectOnEmptySequences) {
  SerialExecutor executor;
  for (InstructionSet instruction_set : SupportedInstructionSets()) {
    for (RnnConfig config : {RnnConfig{RnnMode::kTanh, false, 1, 1, 3, 17, 0},
                             {RnnMode::kGru, false, 1, 1, 3, 17, 0},
                             {RnnMode::kGruResetBefore, false, 1, 1, 3, 17, 0,
                              /*keeps_output=*/true},
                             {RnnMode::kLstm, false, 1, 1, 3, 17, 0},
                             {RnnMode::kLstm, false, 1, 1, 3, 17, 5}}) {
      Case k = RandomCase(config, {3, 4});
      k.lengths = {0, 0, 1, 3};
      SCOPED_TRACE(std::string(InstructionSetName(instruction_set)) + " " +
                   Describe(k));
      for (Array* params : {&k.params, &k.dot_params}) {
        std::fill(params->begin(), params->end(),
                  std::numeric_limits<double>::infinity());
      }
      Engine<TypeParam> engine(instruction_set, k);
      const PassResults actual = RunPasses(engine, executor);
      const BackwardGradResult& grad = actual.backward_grad;
      for (std::int64_t i = 0; i < 2 * config.output_size(); ++i) {
        EXPECT_EQ(actual.backward.input_h[i], k.d_output_h[i]) << i;
        EXPECT_EQ(grad.input_h[i], 0) << i;
        EXPECT_EQ(grad.d_output_h[i], k.dot_input_h[i]) << i;
      }
      for (std::int64_t i = 0; i < 2 * config.num_units; ++i) {
        if (!config.has_cell_state()) break;
        EXPECT_EQ(actual.backward.input_c[i], k.d_output_c[i]) << i;
        EXPECT_EQ(grad.input_c[i], 0) << i;
        EXPECT_EQ(grad.d_output_c[i], k.dot_input_c[i]) << i;
      }
    }
  }
}

// If there is nothing to compute, other sizes are unchecked.
TEST(NetworkEmptyTest, TakesNoTimeAndNoMemory) {
  const std::int64_t large = std::int64_t{1} << 62;
  SerialExecutor executor;
  struct {
    RnnConfig config;
    RnnSize size;
  } const empty[] = {
      {{RnnMode::kGru, false, 1, large, 3, 0, 0}, {5, 0}},
      {{RnnMode::kGru, false, 1, 1, large, 0, 0}, {0, 0}},
      {{RnnMode::kLstm, false, 1, large, 3, 0, 0}, {0, 1}},
      {{RnnMode::kTanh, false, 1, 1, 3, 0, 0}, {0, large}},
  };
  for (const auto& each : empty) {
    const auto kernels =
        GetNetworkKernels<float>(InstructionSet::kBaseline, each.config);
    NetworkForward<float> forward{};
    forward.config = each.config;
    forward.size = each.size;
    EXPECT_EQ(kernels.forward_workspace(forward, 2), 0);
    kernels.forward(forward, executor);
    NetworkBackward<float> backward{};
    backward.config = each.config;
    backward.size = each.size;
    EXPECT_EQ(kernels.backward_workspace(backward, 2), 0);
    kernels.backward(backward, executor);
    NetworkBackwardGrad<float> backward_grad{};
    backward_grad.config = each.config;
    backward_grad.size = each.size;
    EXPECT_EQ(kernels.backward_grad_workspace(backward_grad, 2), 0);
    kernels.backward_grad(backward_grad, executor);
    EXPECT_EQ(kernels.packed_weights_bytes(each.config), 0);
    forward.weights = Weights<const float>::Packed(
        &forward);  // only whether it is null matters
    kernels.forward(forward, executor);
  }
}

TEST(NetworkWorkspaceTest, ReportsOverflow) {
  const std::int64_t large = std::int64_t{1} << 31;
  NetworkForward<float> forward{};
  forward.config = {RnnMode::kLstm, false, 1, 1, 0, 1, 0};
  forward.size = {large, large};
  float element;  // only whether arrays are null matters
  forward.output = &element;
  NetworkBackward<float> backward{};
  backward.config = forward.config;
  backward.size = forward.size;
  backward.output = backward.output_backprop = &element;
  const auto kernels =
      GetNetworkKernels<float>(InstructionSet::kBaseline, forward.config);
  EXPECT_EQ(kernels.forward_workspace(forward, 2), -1);
  EXPECT_EQ(kernels.backward_workspace(backward, 2), -1);
  NetworkBackwardGrad<float> backward_grad{};
  backward_grad.config = forward.config;
  backward_grad.size = forward.size;
  backward_grad.output = backward_grad.output_backprop = &element;
  EXPECT_EQ(kernels.backward_grad_workspace(backward_grad, 2), -1);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
