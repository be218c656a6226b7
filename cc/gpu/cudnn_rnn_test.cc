#include "cc/gpu/cudnn_rnn.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cc/gpu/cudnn_rnn_test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using ::tf_rnn_ops::rnn::BackwardResult;
using ::tf_rnn_ops::rnn::Case;
using ::tf_rnn_ops::rnn::Cases;
using ::tf_rnn_ops::rnn::ForwardResult;
using ::tf_rnn_ops::rnn::kTolerance;
using ::tf_rnn_ops::rnn::RandomCase;
using ::tf_rnn_ops::rnn::RnnMode;

// The first version of cuDNN that supports bfloat16.
constexpr std::size_t kVersionWithBFloat16 = 91300;

// Whether gradients on a GPU and on the CPU can be compared. With dropout,
// cuDNN rounds the values between layers to 16 bits, which can change the sign
// of an input of ReLU.
template <typename T>
bool HasSameGradients(const Case& k) {
  return sizeof(T) > 2 || k.dropout == 0 || !k.config.has_kinks();
}

// Runs a case on a GPU and on the CPU, and compares the results.
template <typename T>
void ExpectAsOnCpu(FakeCudnnGpu* gpu, Case& k) {
  CpuNetwork<T> cpu(k);
  FakeNetwork<T> network(gpu, k);
  const double tolerance = kTolerance<T>;
  ForwardResult forward;
  Status status = network.Forward(/*is_training=*/false, &forward);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectSame(forward, cpu.Forward(false), tolerance);
  status = network.Forward(/*is_training=*/true, &forward);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectSame(forward, cpu.Forward(true), tolerance);
  EXPECT_EQ(network.Mismatch(network.Key()), "");
  if (!HasSameGradients<T>(k)) return;
  const BackwardResult expected = cpu.Backward();
  for (int time = 0; time < 2; ++time) {  // same results twice
    BackwardResult backward;
    status = network.Backward(&backward);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectSame(backward, expected, tolerance);
  }
}

// The cases of the CPU tests that use params.
std::vector<Case> CasesWithParams() {
  std::vector<Case> cases;
  for (const Case& k : Cases()) {
    if (!k.config.has_keras_weights) cases.push_back(k);
  }
  return cases;
}

// Cases with sequences of length 0 in different positions.
std::vector<Case> CasesWithEmptySequences() {
  std::vector<Case> cases;
  for (bool time_major : {true, false}) {
    for (const auto& lengths : std::vector<std::vector<std::int32_t>>{
             {0, 3, 0, 4, 4, 0}, {4, 0, 0, 0, 1, 2}, {0, 0, 0, 0, 0, 0}}) {
      Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
      k.time_major = time_major;
      k.lengths = lengths;
      cases.push_back(k);
    }
  }
  return cases;
}

template <typename T>
class CudnnRnnTest : public testing::Test {};
TYPED_TEST_SUITE(CudnnRnnTest, rnn::StorageTypes);

TYPED_TEST(CudnnRnnTest, EqualsTheCpuEngine) {
  for (std::size_t version : {std::size_t{90300}, kVersionWithBFloat16}) {
    FakeCudnnGpu gpu;
    gpu.cudnn().set_version(version);
    for (Case& k : CasesWithParams()) {
      SCOPED_TRACE(rnn::Describe(k));
      ExpectAsOnCpu<TypeParam>(&gpu, k);
    }
  }
}

TYPED_TEST(CudnnRnnTest, EmptySequences) {
  FakeCudnnGpu gpu;
  for (Case& k : CasesWithEmptySequences()) {
    SCOPED_TRACE(rnn::Describe(k));
    ExpectAsOnCpu<TypeParam>(&gpu, k);
  }
}

TYPED_TEST(CudnnRnnTest, ConvertsParamsToPaddedLayout) {
  FakeCudnnGpu gpu;
  gpu.cudnn().set_weight_padding(3);
  for (Case& k : CasesWithParams()) {
    if (k.size.time > 20) continue;
    SCOPED_TRACE(rnn::Describe(k));
    ExpectAsOnCpu<TypeParam>(&gpu, k);
  }
}

TYPED_TEST(CudnnRnnTest, SkipsParamsGradientIfNull) {
  FakeCudnnGpu gpu;
  std::vector<Case> cases = CasesWithParams();
  cases.push_back(RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {0, 2}));
  for (Case& k : cases) {
    SCOPED_TRACE(rnn::Describe(k));
    FakeNetwork<TypeParam> network(&gpu, k);
    ForwardResult forward;
    BackwardResult all, some;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &forward).ok());
    ASSERT_TRUE(network.Backward(&all).ok());
    gpu.cudnn().ClearCalls();
    ASSERT_TRUE(network.Backward(&some, /*wants_params=*/false).ok());
    EXPECT_TRUE(gpu.cudnn().calls("cudnnRNNBackwardWeights_v8").empty());
    EXPECT_EQ(some.input, all.input);
    EXPECT_EQ(some.input_h, all.input_h);
    EXPECT_EQ(some.input_c, all.input_c);
  }
}

TEST(CudnnRnnTest, DoesNotCopyParamsOfTheSameLayout) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  ForwardResult result;
  ASSERT_TRUE(network.Forward(/*is_training=*/false, &result).ok());
  EXPECT_EQ(gpu.driver().CountCalls("cuMemcpyDtoDAsync"), 0);
  EXPECT_EQ(gpu.driver().CountCalls("cuMemsetD8Async"), 0);
  EXPECT_EQ(gpu.driver().CountCalls("cuLaunchKernel"), 0);
}

TEST(CudnnRnnTest, BFloat16IsFloat32OnGpusWithoutIt) {
  FakeCudnnGpu gpu;
  gpu.cudnn().set_version(kVersionWithBFloat16);
  gpu.cudnn().set_has_bfloat16(false);
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
  ExpectAsOnCpu<rnn::BFloat16>(&gpu, k);
  for (const FakeCudnnCall& call : gpu.cudnn().calls("cudnnRNNForward")) {
    EXPECT_EQ(call.rnn.type, CUDNN_DATA_FLOAT);
  }
}

TEST(CudnnRnnTest, UsesTf32OnlyIfAllowed) {
  for (bool allowed : {false, true}) {
    FakeCudnnGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {4, 6});
    FakeNetwork<float> network(&gpu, k);
    network.allow_tf32 = allowed;
    ForwardResult result;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &result).ok());
    EXPECT_EQ(gpu.cudnn().calls("cudnnRNNForward").back().rnn.math_type,
              allowed ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
  }
}

TEST(CudnnRnnTest, BFloat16DoesNotDependOnTf32) {
  for (bool has_bfloat16 : {false, true}) {
    FakeCudnnGpu gpu;
    gpu.cudnn().set_version(kVersionWithBFloat16);
    gpu.cudnn().set_has_bfloat16(has_bfloat16);
    Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
    FakeNetwork<rnn::BFloat16> network(&gpu, k);
    ForwardResult result;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &result).ok());
    network.allow_tf32 = true;
    EXPECT_EQ(network.Mismatch(network.Key()), "");
    EXPECT_EQ(gpu.cudnn().calls("cudnnRNNForward").back().rnn.math_type,
              has_bfloat16 ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH);
  }
}

// ---------------------------------------------------------------- algorithms

// TF32 has 10 bits of fraction.
constexpr double kTf32Tolerance = 1e-3;

// The algorithms of a training pass and its backward pass.
std::vector<cudnnRNNAlgo_t> AlgorithmsOf(FakeCudnnGpu* gpu) {
  std::vector<cudnnRNNAlgo_t> algorithms;
  for (const char* name : {"cudnnRNNForward", "cudnnRNNBackwardData_v8",
                           "cudnnRNNBackwardWeights_v8"}) {
    for (const FakeCudnnCall& call : gpu->cudnn().calls(name)) {
      algorithms.push_back(call.rnn.algorithm);
    }
  }
  return algorithms;
}

TEST(CudnnRnnTest, PassesOfAStepUseTheSameAlgorithm) {
  // 160 units are a small network in inference only.
  for (std::int64_t units : {128, 160}) {
    FakeCudnnGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, units, 0}, {2, 3});
    CpuNetwork<float> cpu(k);
    FakeNetwork<float> network(&gpu, k);
    network.allow_tf32 = true;
    ForwardResult forward;
    BackwardResult backward;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &forward).ok());
    ASSERT_TRUE(network.Backward(&backward).ok());
    ExpectSame(forward, cpu.Forward(true), kTf32Tolerance);
    ExpectSame(backward, cpu.Backward(), kTf32Tolerance);
    EXPECT_EQ(AlgorithmsOf(&gpu),
              std::vector<cudnnRNNAlgo_t>(
                  3, units == 128 ? CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H
                                  : CUDNN_RNN_ALGO_STANDARD));
    ASSERT_TRUE(network.Forward(/*is_training=*/false, &forward).ok());
    EXPECT_EQ(gpu.cudnn().calls("cudnnRNNForward").back().rnn.algorithm,
              CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H);
  }
}

TEST(CudnnRnnTest, SmallNetworksInFloat32ArePreciseWithoutTf32) {
  for (RnnMode mode :
       {RnnMode::kLstm, RnnMode::kGru, RnnMode::kTanh, RnnMode::kRelu}) {
    FakeCudnnGpu gpu;
    Case k = RandomCase({mode, false, 2, 1, 3, 5, 0}, {4, 6});
    FakeNetwork<float> network(&gpu, k);
    ForwardResult forward;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &forward).ok());
    ExpectSame(forward, CpuNetwork<float>(k).Forward(true), kTolerance<float>);
  }
}

TEST(CudnnRnnTest, FallsBackToTheStandardAlgorithm) {
  Case k = RandomCase({RnnMode::kGru, false, 1, 1, 3, 5, 0}, {4, 6});
  for (bool rejects_descriptor : {false, true}) {
    FakeCudnnGpu gpu;
    if (rejects_descriptor) {
      gpu.cudnn().Fail("cudnnSetRNNDescriptor_v8", CUDNN_STATUS_NOT_SUPPORTED);
    } else {
      gpu.cudnn().set_has_persistent(false);
    }
    FakeNetwork<float> network(&gpu, k);
    network.allow_tf32 = true;
    ForwardResult forward;
    ASSERT_TRUE(network.Forward(/*is_training=*/true, &forward).ok());
    EXPECT_EQ(AlgorithmsOf(&gpu),
              std::vector<cudnnRNNAlgo_t>{CUDNN_RNN_ALGO_STANDARD});
    ExpectSame(forward, CpuNetwork<float>(k).Forward(true), kTolerance<float>);
  }
}

TEST(CudnnRnnTest, UsesOnlyTheStandardAlgorithmOnRequest) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 1, 1, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k, /*is_standard_only=*/true);
  FakeNetwork<float> other(&gpu, k);
  network.allow_tf32 = other.allow_tf32 = true;
  ForwardResult forward;
  BackwardResult backward;
  ASSERT_TRUE(network.Forward(/*is_training=*/true, &forward).ok());
  ASSERT_TRUE(network.Backward(&backward).ok());
  EXPECT_EQ(AlgorithmsOf(&gpu),
            std::vector<cudnnRNNAlgo_t>(3, CUDNN_RNN_ALGO_STANDARD));
  // Its reserve space is invalid for another algorithm.
  ASSERT_TRUE(other.Forward(/*is_training=*/true, &forward).ok());
  EXPECT_NE(other.Variant(), network.Variant());
}

TEST(CudnnRnnTest, UsesOneHandlePerStream) {
  FakeCudnnGpu gpu;
  FakeCudaDriver& driver = gpu.driver();
  const CUstream streams[] = {gpu.stream(),
                              driver.NewStream(driver.current_context()),
                              driver.NewStream(driver.NewContext())};
  for (int i = 0; i < 2; ++i) {
    for (CUstream stream : streams) {
      ScopedContext scope(*driver.driver());
      ASSERT_TRUE(scope.Enter(stream).ok());
      CudnnLock lock;
      ASSERT_TRUE(
          gpu.handles().Lock({driver.driver(), stream, nullptr}, &lock).ok());
    }
  }
  EXPECT_EQ(gpu.cudnn().num_handles(), 3);
}

// ------------------------------------------------------------------- dropout

// Every mode and layout, with and without sequences of length 0, which skip
// part of the mask, and with different input sizes: 0, num_units for
// skip_input, or another.
std::vector<Case> DropoutCases(float dropout) {
  std::vector<Case> cases;
  for (RnnMode mode : rnn::kModes) {
    for (std::int64_t directions : {1, 2}) {
      for (const std::vector<std::int32_t>& lengths :
           std::vector<std::vector<std::int32_t>>{{}, {0, 3, 5, 0, 1}}) {
        for (bool time_major : {true, false}) {
          for (std::int64_t input_size : {0, 3, 7}) {
            Case k = RandomCase(
                {mode, input_size == 7, directions, 3, input_size, 7, 0},
                {5, 5});
            k.time_major = time_major;
            k.lengths = lengths;
            k.dropout = dropout;
            cases.push_back(k);
          }
        }
      }
    }
  }
  Case k = RandomCase({RnnMode::kLstm, false, 2, 4, 3, 9, 5}, {4, 6});
  k.dropout = dropout;
  cases.push_back(k);
  return cases;
}

TYPED_TEST(CudnnRnnTest, DropoutMasksEqualTheCpuEngine) {
  for (std::size_t version : {std::size_t{90300}, kVersionWithBFloat16}) {
    FakeCudnnGpu gpu;
    gpu.cudnn().set_version(version);
    gpu.cudnn().set_weight_padding(2);
    for (float dropout : {0.4f, 1.0f}) {
      for (Case& k : DropoutCases(dropout)) {
        SCOPED_TRACE(rnn::Describe(k));
        ExpectAsOnCpu<TypeParam>(&gpu, k);
      }
    }
  }
}

TEST(CudnnRnnTest, RunsLayersWithDropoutOneByOne) {
  FakeCudnnGpu gpu;
  for (float dropout : {0.0f, 0.5f}) {
    Case k = RandomCase({RnnMode::kLstm, false, 2, 3, 3, 16, 0}, {5, 4});
    k.dropout = dropout;
    FakeNetwork<float> network(&gpu, k);
    for (bool is_training : {false, true}) {
      gpu.cudnn().ClearCalls();
      ForwardResult result;
      ASSERT_TRUE(network.Forward(is_training, &result).ok());
      EXPECT_EQ(gpu.cudnn().CountCalls("cudnnRNNForward"),
                is_training && dropout > 0 ? 3 : 1);
    }
  }
}

// --------------------------------------------------------------------- plans

TEST(CudnnRnnTest, QueriesSizesOncePerCall) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  ForwardResult forward;
  BackwardResult backward;
  ASSERT_TRUE(network.Forward(true, &forward).ok());
  ASSERT_TRUE(network.Backward(&backward).ok());
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnGetRNNTempSpaceSizes"), 2);
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnSetRNNDataDescriptor"), 4);
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnSetRNNDescriptor_v8"), 1);
}

// -------------------------------------------------------------- reserve space

TEST(CudnnRnnTest, RejectsMismatchedReserveSpace) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  ForwardResult result;
  ASSERT_TRUE(network.Forward(true, &result).ok());
  EXPECT_EQ(network.Mismatch(network.Key()), "");
  rnn::ReserveSpaceKey other = network.Key();
  other.size.time = 5;
  EXPECT_NE(network.Mismatch(other).find("time was 4, but is 5"),
            std::string::npos);
  network.allow_tf32 = true;
  EXPECT_NE(network.Mismatch(network.Key()).find("another version of cuDNN"),
            std::string::npos);
}

TEST(CudnnRnnTest, DoesNotCopyOwnedReserveSpace) {
  for (float dropout : {0.0f, 0.5f}) {
    FakeCudnnGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 2, 3, 3, 5, 0}, {4, 6});
    k.dropout = dropout;
    FakeNetwork<float> network(&gpu, k);
    ForwardResult forward;
    BackwardResult copied, again, in_place;
    ASSERT_TRUE(network.Forward(true, &forward).ok());
    ASSERT_TRUE(network.Backward(&copied).ok());
    ASSERT_TRUE(network.Backward(&again).ok());
    network.owns_reserve_space = true;
    const auto count_copies = [&] {
      return gpu.driver().CountCalls("cuMemcpyDtoDAsync");
    };
    const int copies_before = count_copies();
    ASSERT_TRUE(network.Backward(&in_place).ok());
    // With dropout, each layer copies its weights from two regions, and their
    // gradients to two regions.
    EXPECT_EQ(count_copies() - copies_before, dropout > 0 ? 3 * 4 : 0);
    for (const BackwardResult& other : {again, in_place}) {
      EXPECT_EQ(other.input, copied.input);
      EXPECT_EQ(other.input_h, copied.input_h);
      EXPECT_EQ(other.input_c, copied.input_c);
      EXPECT_EQ(other.params, copied.params);
    }
  }
}

// --------------------------------------------------------------------- errors

// A forward and a backward pass of a network for which all tensors are
// converted.
Status RunAll(FakeCudnnGpu* gpu, Case& k) {
  FakeNetwork<rnn::BFloat16> network(gpu, k);
  ForwardResult forward;
  BackwardResult backward;
  TF_RNN_OPS_RETURN_IF_ERROR(network.Forward(true, &forward));
  return network.Backward(&backward);
}

Case HardCase() {
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
  k.time_major = false;
  k.dropout = 0.5f;
  k.lengths = {0, 3, 4, 0, 4, 0};
  return k;
}

TEST(CudnnRnnTest, DriverErrorsAreReportedAndDoNotAffectLaterCalls) {
  FakeCudnnGpu gpu;
  gpu.cudnn().set_weight_padding(1);
  Case k = HardCase();
  int failures = 0;
  for (int skipped = 0;; ++skipped) {
    gpu.driver().FailAny(CUDA_ERROR_LAUNCH_FAILED, skipped);
    const Status status = RunAll(&gpu, k);
    if (gpu.driver().ClearFailures()) break;  // fewer calls than that
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kInternal) << skipped;
    EXPECT_NE(status.message().find("CUDA_ERROR"), std::string::npos);
    EXPECT_NE(status.message().find(" returned "), std::string::npos);
  }
  EXPECT_GT(failures, 30);
  EXPECT_TRUE(RunAll(&gpu, k).ok());
}

TEST(CudnnRnnTest, CudnnErrorsAreReportedAndDoNotAffectLaterCalls) {
  FakeCudnnGpu gpu;
  gpu.cudnn().set_weight_padding(1);
  Case k = HardCase();
  int failures = 0;
  for (int skipped = 0;; ++skipped) {
    gpu.cudnn().FailAny(CUDNN_STATUS_EXECUTION_FAILED, skipped);
    const Status status = RunAll(&gpu, k);
    if (gpu.cudnn().ClearFailures()) break;
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kInternal) << skipped;
    EXPECT_NE(status.message().find(" returned "), std::string::npos);
    EXPECT_NE(status.message().find("rnn_mode lstm"), std::string::npos)
        << status.message();
  }
  EXPECT_GT(failures, 30);
  EXPECT_TRUE(RunAll(&gpu, k).ok());
}

TEST(CudnnRnnTest, ErrorsNameCallAndNetwork) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  gpu.cudnn().Fail("cudnnRNNForward",
                   CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  ForwardResult result;
  const Status status = network.Forward(true, &result);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("cudnnRNNForward returned"),
            std::string::npos);
  EXPECT_NE(status.message().find(
                "rnn_mode gru, bidirectional, num_layers 2, input_size 3, "
                "num_units 5, num_proj 0, time 4, batch 6"),
            std::string::npos)
      << status.message();
}

// Plans and runs inference without tensors, until it accesses them.
Status RunInference(FakeCudnnGpu* gpu, const rnn::RnnConfig& config,
                    const rnn::RnnSize& size, ScratchAllocator* scratch) {
  CudnnRnn<float> networks(*gpu->cudnn().cudnn(), gpu->handles());
  CudnnRnnPlan plan;
  TF_RNN_OPS_RETURN_IF_ERROR(networks.Plan(
      {gpu->Call(scratch), /*allow_tf32=*/false},
      {config, size, /*time_major=*/true, nullptr, 0}, false, &plan));
  rnn::NetworkForward<float> pass{};
  pass.config = config;
  pass.size = size;
  pass.time_major = true;
  return networks.Forward(pass, &plan);
}

TEST(CudnnRnnTest, OutOfMemoryDoesNotAffectLaterCalls) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeScratchAllocator scratch(&gpu.driver());
  scratch.Fail();
  EXPECT_EQ(RunInference(&gpu, k.config, k.size, &scratch).code(),
            StatusCode::kResourceExhausted);
  CpuNetwork<float> cpu(k);
  FakeNetwork<float> network(&gpu, k);
  ForwardResult result;
  ASSERT_TRUE(network.Forward(true, &result).ok());
  ExpectSame(result, cpu.Forward(true), 1e-5);
}

// Sizes are checked before memory is allocated.
TEST(CudnnRnnTest, RejectsSizesThatCudnnDoesNotSupport) {
  FakeCudnnGpu gpu;
  FakeScratchAllocator scratch(&gpu.driver());
  const std::int64_t large = 1 << 15;
  Status status = RunInference(
      &gpu, {RnnMode::kTanh, false, 1, 1, large, large, 0}, {1, 1}, &scratch);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("params must have at most 2147483647"),
            std::string::npos)
      << status.message();
  status = RunInference(&gpu, {RnnMode::kTanh, false, 1, 1, 1, 1, 0},
                        {65536, 1}, &scratch);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("time must be at most 65535"),
            std::string::npos)
      << status.message();
  status = RunInference(&gpu, {RnnMode::kTanh, false, 1, 1, 1, 1, 0},
                        {1, std::int64_t{1} << 40}, &scratch);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("cuDNN supports time, batch"),
            std::string::npos)
      << status.message();
}

// The sanitizers reserve a large address space.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Limits the process to `num_bytes` of additional memory.
void LimitMemory(std::size_t num_bytes) {
  std::int64_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = num_pages * sysconf(_SC_PAGESIZE) + num_bytes;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(CudnnRnnTest, ReportsOutOfHostMemory) {
  const auto run = [] {
    FakeCudnnGpu gpu;
    FakeScratchAllocator scratch(&gpu.driver());
    LimitMemory(64 << 20);
    const Status status = RunInference(
        &gpu, {RnnMode::kTanh, false, 1, 1, 1, 1, 0}, {1, 1 << 25}, &scratch);
    std::cerr << status.message();
    std::exit(static_cast<int>(status.code()));
  };
  EXPECT_EXIT(
      run(),
      testing::ExitedWithCode(static_cast<int>(StatusCode::kResourceExhausted)),
      "cannot allocate 134217728 bytes of host memory");
}
#endif

TEST(CudnnRnnTest, OtherTypesIgnoreTf32) {
  FakeCudnnGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {4, 6});
  FakeNetwork<rnn::Half> network(&gpu, k);
  ForwardResult result;
  ASSERT_TRUE(network.Forward(/*is_training=*/true, &result).ok());
  network.allow_tf32 = true;
  EXPECT_EQ(network.Mismatch(network.Key()), "");
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
