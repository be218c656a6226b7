#include "cc/gpu/cudnn_rnn_algorithm.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {
namespace {

using ::tf_rnn_ops::rnn::RnnMode;

constexpr GpuTraits kP100 = {6, 0, 56};
constexpr GpuTraits kV100 = {7, 0, 80};
constexpr GpuTraits kT4 = {7, 5, 40};
constexpr GpuTraits kA100 = {8, 0, 108};
constexpr GpuTraits kA30 = {8, 0, 56};
constexpr GpuTraits kA40 = {8, 6, 84};
constexpr GpuTraits kL40 = {8, 9, 142};
constexpr GpuTraits kH100 = {9, 0, 132};

constexpr auto kStandard = CUDNN_RNN_ALGO_STANDARD;
constexpr auto kStatic = CUDNN_RNN_ALGO_PERSIST_STATIC;
constexpr auto kSmall = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;

// A network (by default one layer, one direction) and its GPU.
struct Choice {
  RnnMode mode = RnnMode::kLstm;
  std::int64_t units = 512;
  std::int64_t input_size = 256;
  std::int64_t time = 50;
  std::int64_t batch = 64;
  bool is_training = true;
  DataType type = DataType::kHalf;
  bool allow_tf32 = true;
  GpuTraits gpu = kA100;
  std::int64_t layers = 1, directions = 1, proj = 0;
  bool skip_input = false;
  bool time_major = true;

  cudnnRNNAlgo_t Algorithm() const {
    const rnn::ReserveSpaceKey key = {
        {mode, skip_input, directions, layers, input_size, units, proj},
        {time, batch},
        time_major,
        nullptr,
        0};
    return ChooseAlgorithm(key, is_training, type, allow_tf32, gpu);
  }
};

TEST(CudnnRnnAlgorithmTest, SmallAlgorithmUpToTheLimitOfUnits) {
  for (RnnMode mode :
       {RnnMode::kLstm, RnnMode::kGru, RnnMode::kTanh, RnnMode::kRelu}) {
    const bool has_gates = mode == RnnMode::kLstm || mode == RnnMode::kGru;
    for (bool is_training : {true, false}) {
      Choice c;
      c.mode = mode;
      c.is_training = is_training;
      c.type = DataType::kFloat;
      c.units = (is_training ? 128 : 192) * (has_gates ? 1 : 2);
      c.layers = c.directions = 2;
      EXPECT_EQ(c.Algorithm(), kSmall);
      ++c.units;
      EXPECT_EQ(c.Algorithm(), kStandard);
    }
  }
}

TEST(CudnnRnnAlgorithmTest, SmallAlgorithmOnlyWhereItIsRight) {
  for (RnnMode mode :
       {RnnMode::kLstm, RnnMode::kGru, RnnMode::kTanh, RnnMode::kRelu}) {
    for (std::int64_t units : {8, 128}) {
      Choice c;
      c.mode = mode;
      c.units = units;
      c.input_size = 128;
      for (DataType type : {DataType::kHalf, DataType::kBFloat16}) {
        c.type = type;
        EXPECT_EQ(c.Algorithm(), kStandard);
      }
      c.type = DataType::kFloat;
      EXPECT_EQ(c.Algorithm(), kSmall);
      c.allow_tf32 = false;
      EXPECT_EQ(c.Algorithm(), mode == RnnMode::kRelu ? kSmall : kStandard);
    }
  }
}

TEST(CudnnRnnAlgorithmTest, DependsOnEachOption) {
  const struct {
    cudnnRNNAlgo_t in_float32;  // with few units
    cudnnRNNAlgo_t in_half;     // with many
    void (*change)(Choice& c);
  } rows[] = {
      {kSmall, kStatic, [](Choice&) {}},
      // Options without support by persistent algorithms.
      {kStandard, kStandard, [](Choice& c) { c.proj = 4; }},
      {kStandard, kStandard, [](Choice& c) { c.type = DataType::kDouble; }},
      {kStandard, kStandard, [](Choice& c) { c.time_major = false; }},
      {kStandard, kStandard,
       [](Choice& c) { c.skip_input = true, c.input_size = c.units; }},
      // Large GPUs.
      {kSmall, kStatic, [](Choice& c) { c.gpu = kV100; }},
      {kSmall, kStatic, [](Choice& c) { c.gpu = kL40; }},
      {kSmall, kStatic, [](Choice& c) { c.gpu = kH100; }},
      {kSmall, kStandard, [](Choice& c) { c.gpu = kP100; }},
      {kSmall, kStandard, [](Choice& c) { c.gpu = kT4; }},
      {kSmall, kStandard, [](Choice& c) { c.gpu = kA30; }},
      {kSmall, kStandard, [](Choice& c) { c.gpu = kA40; }},
      {kStandard, kStandard, [](Choice& c) { c.gpu = {5, 2, 16}; }},
      // Sizes that fill the matrix units.
      {kStandard, kStandard, [](Choice& c) { c.units = 500; }},
      {kStandard, kStandard, [](Choice& c) { c.units = 1152; }},
      {kStandard, kStatic, [](Choice& c) { c.units = 512; }},
      {kSmall, kStandard, [](Choice& c) { c.input_size = 100; }},
      {kSmall, kStandard, [](Choice& c) { c.input_size = 0; }},
      {kSmall, kStandard, [](Choice& c) { c.layers = 2; }},
      {kSmall, kStandard, [](Choice& c) { c.directions = 2; }},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(&row - rows);
    Choice c;
    row.change(c);
    EXPECT_EQ(c.Algorithm(), row.in_half);
    c = Choice();
    c.type = DataType::kFloat;
    c.units = 8;
    row.change(c);
    EXPECT_EQ(c.Algorithm(), row.in_float32);
  }
}

TEST(CudnnRnnAlgorithmTest, StaticForBatchesThatRunFaster) {
  struct Batch {
    GpuTraits gpu;
    RnnMode mode;
    std::int64_t units, time, batch;
    cudnnRNNAlgo_t expected;
  };
  const Batch batches[] = {
      {kV100, RnnMode::kGru, 512, 40, 128, kStatic},
      {kV100, RnnMode::kLstm, 512, 39, 128, kStandard},
      {kV100, RnnMode::kLstm, 512, 20, 96, kStatic},
      {kV100, RnnMode::kLstm, 512, 19, 96, kStandard},
      {kV100, RnnMode::kLstm, 512, 10, 32, kStatic},
      {kV100, RnnMode::kLstm, 512, 9, 32, kStandard},
      {kV100, RnnMode::kLstm, 512, 40, 8, kStatic},
      {kV100, RnnMode::kLstm, 512, 40, 24, kStandard},
      {kV100, RnnMode::kLstm, 512, 40, 80, kStandard},
      {kV100, RnnMode::kLstm, 512, 40, 112, kStandard},
      {kV100, RnnMode::kLstm, 512, 40, 144, kStandard},
      {kA100, RnnMode::kLstm, 512, 1, 8, kStatic},
      {kA100, RnnMode::kLstm, 512, 1, 12, kStandard},
      {kA100, RnnMode::kLstm, 512, 50, 136, kStandard},
      {kA100, RnnMode::kGru, 512, 50, 64, kStandard},
      {kA100, RnnMode::kTanh, 896, 50, 88, kStatic},
      {kA100, RnnMode::kTanh, 896, 50, 96, kStandard},
      {kA100, RnnMode::kRelu, 768, 50, 128, kStatic},
  };
  for (const Batch& b : batches) {
    Choice c;
    c.gpu = b.gpu;
    c.mode = b.mode;
    c.units = b.units;
    c.time = b.time;
    c.batch = b.batch;
    EXPECT_EQ(c.Algorithm(), b.expected)
        << b.gpu.major << " time " << b.time << " batch " << b.batch;
  }
}

TEST(CudnnRnnAlgorithmTest, ReadsTheTraitsOfTheGpu) {
  FakeCudaDriver fake;
  ScopedContext scope(*fake.driver());
  ASSERT_TRUE(scope.Enter(fake.NewStream(fake.NewContext(8, 6, 84))).ok());
  GpuTraits traits;
  ASSERT_TRUE(ReadGpuTraits(*fake.driver(), &traits).ok());
  EXPECT_EQ(traits.major, 8);
  EXPECT_EQ(traits.minor, 6);
  EXPECT_EQ(traits.num_multiprocessors, 84);
}

TEST(CudnnRnnAlgorithmTest, ParsesTheEnvironmentVariable) {
  bool is_standard_only = true;
  EXPECT_TRUE(ParseAlgorithm("auto", &is_standard_only).ok());
  EXPECT_FALSE(is_standard_only);
  EXPECT_TRUE(ParseAlgorithm("standard", &is_standard_only).ok());
  EXPECT_TRUE(is_standard_only);
  for (const char* value : {"", "Standard", "persist"}) {
    const Status status = ParseAlgorithm(value, &is_standard_only);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(),
              std::string("the environment variable "
                          "TF_RNN_OPS_CUDNN_ALGORITHM must be auto or "
                          "standard, but is \"") +
                  value + "\"");
  }
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
