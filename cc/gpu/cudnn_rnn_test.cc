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
void ExpectAsOnCpu(FakeGpu* gpu, Case& k) {
  CpuNetwork<T> cpu(k);
  FakeNetwork<T> network(gpu, k);
  const double tolerance = kTolerance<T>;
  for (bool is_training : {false, true}) {
    ExpectSame(network.Forward(is_training), cpu.Forward(is_training),
               tolerance);
  }
  EXPECT_EQ(network.Mismatch(network.Key()), "");
  if (!HasSameGradients<T>(k)) return;
  const BackwardResult expected = cpu.Backward();
  for (int time = 0; time < 2; ++time) {  // same results twice
    ExpectSame(network.Backward(), expected, tolerance);
  }
}

// The cases of the CPU tests that use params.
std::vector<Case> CasesWithParams() {
  std::vector<Case> cases;
  for (const Case& k : Cases()) {
    if (!rnn::HasKerasWeights(k.config)) cases.push_back(k);
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
    FakeGpu gpu;
    gpu.cudnn().set_version(version);
    for (Case& k : CasesWithParams()) {
      SCOPED_TRACE(rnn::Describe(k));
      ExpectAsOnCpu<TypeParam>(&gpu, k);
    }
  }
}

TYPED_TEST(CudnnRnnTest, EmptySequences) {
  FakeGpu gpu;
  for (Case& k : CasesWithEmptySequences()) {
    SCOPED_TRACE(rnn::Describe(k));
    ExpectAsOnCpu<TypeParam>(&gpu, k);
  }
}

TYPED_TEST(CudnnRnnTest, ConvertsParamsToPaddedLayout) {
  FakeGpu gpu;
  gpu.cudnn().set_weight_padding(3);
  for (Case& k : CasesWithParams()) {
    if (k.size.time > 20) continue;
    SCOPED_TRACE(rnn::Describe(k));
    ExpectAsOnCpu<TypeParam>(&gpu, k);
  }
}

TYPED_TEST(CudnnRnnTest, SkipsParamsGradientIfNull) {
  FakeGpu gpu;
  std::vector<Case> cases = CasesWithParams();
  cases.push_back(RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {0, 2}));
  for (Case& k : cases) {
    SCOPED_TRACE(rnn::Describe(k));
    FakeNetwork<TypeParam> network(&gpu, k);
    network.Forward(/*is_training=*/true);
    const BackwardResult all = network.Backward();
    gpu.cudnn().ClearCalls();
    const BackwardResult some = network.Backward(/*wants_params=*/false);
    EXPECT_TRUE(gpu.cudnn().calls("cudnnRNNBackwardWeights_v8").empty());
    EXPECT_EQ(some.input, all.input);
    EXPECT_EQ(some.input_h, all.input_h);
    EXPECT_EQ(some.input_c, all.input_c);
  }
}

TEST(CudnnRnnTest, DoesNotCopyParamsOfTheSameLayout) {
  FakeGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  network.Forward(/*is_training=*/false);
  EXPECT_EQ(gpu.driver().CountCalls("cuMemcpyDtoDAsync"), 0);
  EXPECT_EQ(gpu.driver().CountCalls("cuMemsetD8Async"), 0);
  EXPECT_EQ(gpu.driver().CountCalls("cuLaunchKernel"), 0);
}

TEST(CudnnRnnTest, BFloat16IsFloat32WithoutSupport) {
  for (bool has_version : {true, false}) {
    FakeGpu gpu;
    if (has_version) gpu.cudnn().set_version(kVersionWithBFloat16);
    gpu.cudnn().set_has_bfloat16(!has_version);
    Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
    ExpectAsOnCpu<rnn::BFloat16>(&gpu, k);
    for (const FakeCudnnCall& call : gpu.cudnn().calls("cudnnRNNForward")) {
      EXPECT_EQ(call.rnn.type, CUDNN_DATA_FLOAT);
    }
  }
}

template <typename T>
void ExpectMath(bool has_bfloat16, cudnnMathType_t without_tf32,
                cudnnMathType_t with_tf32) {
  FakeGpu gpu;
  gpu.cudnn().set_version(kVersionWithBFloat16);
  gpu.cudnn().set_has_bfloat16(has_bfloat16);
  const Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<T> network(&gpu, k);
  for (bool allowed : {true, false}) {
    network.allow_tf32 = allowed;
    network.Forward(/*is_training=*/true);
    EXPECT_EQ(gpu.cudnn().calls("cudnnRNNForward").back().rnn.math_type,
              allowed ? with_tf32 : without_tf32);
  }
  // The reserve space depends on the setting only if the computation does.
  network.allow_tf32 = true;
  EXPECT_EQ(network.Mismatch(network.Key()).empty(), with_tf32 == without_tf32);
}

TEST(CudnnRnnTest, UsesTf32OnlyInFloat32AndIfAllowed) {
  ExpectMath<float>(true, CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH);
  ExpectMath<double>(true, CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
  ExpectMath<rnn::Half>(true, CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
  ExpectMath<rnn::BFloat16>(true, CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
  ExpectMath<rnn::BFloat16>(false, CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
}

// ---------------------------------------------------------------- algorithms

// TF32 has 10 bits of fraction.
constexpr double kTf32Tolerance = 1e-3;

// The algorithms of a training pass and its backward pass.
std::vector<cudnnRNNAlgo_t> AlgorithmsOf(FakeGpu* gpu) {
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
    FakeGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, units, 0}, {2, 3});
    CpuNetwork<float> cpu(k);
    FakeNetwork<float> network(&gpu, k);
    network.allow_tf32 = true;
    const ForwardResult forward = network.Forward(/*is_training=*/true);
    const BackwardResult backward = network.Backward();
    ExpectSame(forward, cpu.Forward(true), kTf32Tolerance);
    ExpectSame(backward, cpu.Backward(), kTf32Tolerance);
    EXPECT_EQ(AlgorithmsOf(&gpu),
              std::vector<cudnnRNNAlgo_t>(
                  3, units == 128 ? CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H
                                  : CUDNN_RNN_ALGO_STANDARD));
    network.Forward(/*is_training=*/false);
    EXPECT_EQ(gpu.cudnn().calls("cudnnRNNForward").back().rnn.algorithm,
              CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H);
  }
}

TEST(CudnnRnnTest, SmallNetworksInFloat32ArePreciseWithoutTf32) {
  for (RnnMode mode :
       {RnnMode::kLstm, RnnMode::kGru, RnnMode::kTanh, RnnMode::kRelu}) {
    FakeGpu gpu;
    Case k = RandomCase({mode, false, 2, 1, 3, 5, 0}, {4, 6});
    FakeNetwork<float> network(&gpu, k);
    const ForwardResult forward = network.Forward(/*is_training=*/true);
    ExpectSame(forward, CpuNetwork<float>(k).Forward(true), kTolerance<float>);
  }
}

TEST(CudnnRnnTest, FallsBackToTheStandardAlgorithm) {
  Case k = RandomCase({RnnMode::kGru, false, 1, 1, 3, 5, 0}, {4, 6});
  for (bool rejects_descriptor : {false, true}) {
    FakeGpu gpu;
    if (rejects_descriptor) {
      gpu.cudnn().Fail("cudnnSetRNNDescriptor_v8", CUDNN_STATUS_NOT_SUPPORTED);
    } else {
      gpu.cudnn().set_has_persistent(false);
    }
    FakeNetwork<float> network(&gpu, k);
    network.allow_tf32 = true;
    const ForwardResult forward = network.Forward(/*is_training=*/true);
    EXPECT_EQ(AlgorithmsOf(&gpu),
              std::vector<cudnnRNNAlgo_t>{CUDNN_RNN_ALGO_STANDARD});
    ExpectSame(forward, CpuNetwork<float>(k).Forward(true), kTolerance<float>);
  }
}

TEST(CudnnRnnTest, UsesOnlyTheStandardAlgorithmOnRequest) {
  FakeGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 1, 1, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k, /*is_standard_only=*/true);
  FakeNetwork<float> other(&gpu, k);
  network.allow_tf32 = other.allow_tf32 = true;
  network.Forward(/*is_training=*/true);
  network.Backward();
  EXPECT_EQ(AlgorithmsOf(&gpu),
            std::vector<cudnnRNNAlgo_t>(3, CUDNN_RNN_ALGO_STANDARD));
  // Its reserve space is invalid for another algorithm.
  other.Forward(/*is_training=*/true);
  EXPECT_NE(other.Variant(), network.Variant());
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
  return rnn::AllOrSomeUnderSanitizers(cases);
}

TYPED_TEST(CudnnRnnTest, DropoutMasksEqualTheCpuEngine) {
  for (std::size_t version : {std::size_t{90300}, kVersionWithBFloat16}) {
    FakeGpu gpu;
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
  FakeGpu gpu;
  for (float dropout : {0.0f, 0.5f}) {
    Case k = RandomCase({RnnMode::kLstm, false, 2, 3, 3, 16, 0}, {5, 4});
    k.dropout = dropout;
    FakeNetwork<float> network(&gpu, k);
    for (bool is_training : {false, true}) {
      gpu.cudnn().ClearCalls();
      network.Forward(is_training);
      EXPECT_EQ(gpu.cudnn().CountCalls("cudnnRNNForward"),
                is_training && dropout > 0 ? 3 : 1);
    }
  }
}

// --------------------------------------------------------------------- plans

TEST(CudnnRnnTest, QueriesSizesOncePerCall) {
  FakeGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  network.Forward(true);
  network.Backward();
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnGetRNNTempSpaceSizes"), 2);
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnSetRNNDataDescriptor"), 4);
  EXPECT_EQ(gpu.cudnn().CountCalls("cudnnSetRNNDescriptor_v8"), 1);
}

// -------------------------------------------------------------- reserve space

TEST(CudnnRnnTest, RejectsMismatchedReserveSpace) {
  FakeGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  network.Forward(true);
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
    FakeGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 2, 3, 3, 5, 0}, {4, 6});
    k.dropout = dropout;
    FakeNetwork<float> network(&gpu, k);
    network.Forward(true);
    const BackwardResult copied = network.Backward();
    const BackwardResult again = network.Backward();
    network.owns_reserve_space = true;
    const auto count_copies = [&] {
      return gpu.driver().CountCalls("cuMemcpyDtoDAsync");
    };
    const int copies_before = count_copies();
    const BackwardResult in_place = network.Backward();
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
Status RunAll(FakeGpu* gpu, Case& k) {
  FakeNetwork<rnn::BFloat16> network(gpu, k);
  ForwardResult forward;
  BackwardResult backward;
  TF_RNN_OPS_RETURN_IF_ERROR(network.TryForward(true, &forward));
  return network.TryBackward(&backward);
}

Case HardCase() {
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
  k.time_major = false;
  k.dropout = 0.5f;
  k.lengths = {0, 3, 4, 0, 4, 0};
  return k;
}

// Includes out of scratch memory.
TEST(CudnnRnnTest, EachFailureIsReported) {
  FakeGpu gpu;
  gpu.cudnn().set_weight_padding(1);
  Case k = HardCase();
  const auto run = [&] { return RunAll(&gpu, k); };
  EXPECT_GT(ExpectEachFailureIsReported(gpu.driver(), CUDA_ERROR_OUT_OF_MEMORY,
                                        StatusCode::kResourceExhausted,
                                        {" returned CUDA_ERROR"}, run),
            50);
  EXPECT_GT(ExpectEachFailureIsReported(
                gpu.cudnn(), CUDNN_STATUS_EXECUTION_FAILED,
                StatusCode::kInternal, {" returned ", "rnn_mode lstm"}, run),
            30);
  // Later calls are not affected.
  CpuNetwork<float> cpu(k);
  FakeNetwork<float> network(&gpu, k);
  ForwardResult result;
  ASSERT_TRUE(network.TryForward(true, &result).ok());
  ExpectSame(result, cpu.Forward(true), kTolerance<float>);
}

TEST(CudnnRnnTest, UsesOneHandlePerStream) {
  FakeGpu gpu;
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

TEST(CudnnRnnTest, ErrorsNameCallAndNetwork) {
  FakeGpu gpu;
  Case k = RandomCase({RnnMode::kGru, false, 2, 2, 3, 5, 0}, {4, 6});
  FakeNetwork<float> network(&gpu, k);
  gpu.cudnn().Fail("cudnnRNNForward",
                   CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  ForwardResult result;
  const Status status = network.TryForward(true, &result);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("cudnnRNNForward returned CUDNN_STATUS_4004 "
                                  "(the fake cuDNN fails)"),
            std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(
                "rnn_mode gru, bidirectional, num_layers 2, input_size 3, "
                "num_units 5, num_proj 0, time 4, batch 6"),
            std::string::npos)
      << status.message();
}

// Plans and runs inference without tensors, until it accesses them.
Status RunInference(FakeGpu* gpu, const rnn::RnnConfig& config,
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

// Sizes are checked before memory is allocated.
TEST(CudnnRnnTest, RejectsSizesThatCudnnDoesNotSupport) {
  FakeGpu gpu;
  FakeScratchAllocator scratch(&gpu.driver());
  const std::int64_t large = 1 << 15;
  const struct {
    rnn::RnnConfig config;
    rnn::RnnSize size;
    const char* message;
  } cases[] = {
      {{RnnMode::kTanh, false, 1, 1, large, large, 0},
       {1, 1},
       "params must have at most 2147483647"},
      {{RnnMode::kTanh, false, 1, 1, 1, 1, 0},
       {65536, 1},
       "time must be at most 65535"},
      {{RnnMode::kTanh, false, 1, 1, 1, 1, 0},
       {1, std::int64_t{1} << 40},
       "cuDNN supports time, batch"},
  };
  for (const auto& each : cases) {
    const Status status = RunInference(&gpu, each.config, each.size, &scratch);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_NE(status.message().find(each.message), std::string::npos)
        << status.message();
  }
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
    FakeGpu gpu;
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

}  // namespace
}  // namespace tf_rnn_ops::gpu
