// The engine on a fake GPU, with the GPU kernels compiled for the host. The
// reference is the CPU engine, whose tests use finite differences.

#include "cc/gpu/network_backward_grad.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cc/gpu/fakes/fake_cublas.h"
#include "cc/gpu/fakes/fake_dual_layer.h"
#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;
using rnn::BackwardGradParts;
using rnn::BackwardGradResult;
using rnn::Case;
using rnn::Cases;
using rnn::kTolerance;
using rnn::RandomCase;
using rnn::RnnConfig;
using rnn::RnnMode;

class FakeCublasGpu : public FakeGpu {
 public:
  FakeCublasGpu() { RegisterDualLayerKernels(&driver()); }

  FakeCublas& fake_cublas() { return fake_cublas_; }
  Cublas& cublas() { return cublas_; }

 private:
  FakeCublas fake_cublas_{&driver()};
  Cublas cublas_{fake_cublas_.functions()};
};

// A result of the pass: an array on the GPU, or null if not wanted.
template <typename T>
class Result {
 public:
  Result(FakeGpu* gpu, const Array& like, bool is_wanted)
      : array_(&gpu->driver(), is_wanted ? like.size() : 0) {}

  T* data() { return array_.data(); }
  Array ToDoubles() const {
    Array result;
    for (T value : array_.ToVector()) result.push_back(rnn::ToDouble(value));
    return result;
  }

 private:
  FakeDeviceArray<T> array_;
};

// Runs the pass of a case on a GPU.
template <typename T>
class GpuEngine {
 public:
  GpuEngine(FakeCublasGpu* gpu, Case& k)
      : gpu_(*gpu),
        k_(k),
        input_(Input(k.input)),
        input_h_(Input(k.input_h)),
        input_c_(Input(k.input_c)),
        params_(Input(k.params)),
        d_output_(Input(k.d_output)),
        d_output_h_(Input(k.d_output_h)),
        d_output_c_(Input(k.d_output_c)),
        dot_input_(Input(k.dot_input)),
        dot_input_h_(Input(k.dot_input_h)),
        dot_input_c_(Input(k.dot_input_c)),
        dot_params_(Input(k.dot_params)) {
    rnn::WriteReserveSpaceHeader<T>({k.config, k.size, k.time_major, lengths(),
                                     k.dropout, rnn::Device::kGpu},
                                    rnn::kStream, header_.data());
  }

  // Results that are not wanted are empty.
  Status TryRun(const BackwardGradParts& parts, ScratchAllocator* scratch,
                BackwardGradResult* result) {
    Result<T> input(&gpu_, k_.input, parts.wants_input);
    Result<T> input_h(&gpu_, k_.input_h, parts.wants_states);
    Result<T> input_c(&gpu_, k_.input_c, parts.wants_states);
    Result<T> params(&gpu_, k_.params, parts.wants_params);
    Result<T> d_output(&gpu_, k_.d_output, parts.wants_outputs);
    Result<T> d_output_h(&gpu_, k_.d_output_h, parts.wants_outputs);
    Result<T> d_output_c(&gpu_, k_.d_output_c, parts.wants_outputs);
    rnn::NetworkBackwardGrad<T> pass = Inputs(parts);
    pass.input_grad = input.data();
    pass.input_h_grad = input_h.data();
    pass.input_c_grad = input_c.data();
    pass.params_grad = params.data();
    pass.output_backprop_grad = d_output.data();
    pass.output_h_backprop_grad = d_output_h.data();
    pass.output_c_backprop_grad = d_output_c.data();
    TF_RNN_OPS_RETURN_IF_ERROR(RunNetworkBackwardGrad(
        gpu_.Call(scratch), gpu_.cublas(), allow_tf32, pass));
    *result = {input.ToDoubles(),     input_h.ToDoubles(),
               input_c.ToDoubles(),   params.ToDoubles(),
               d_output.ToDoubles(),  d_output_h.ToDoubles(),
               d_output_c.ToDoubles()};
    return Status();
  }

  BackwardGradResult Run(const BackwardGradParts& parts = {}) {
    FakeScratchAllocator scratch(&gpu_.driver());
    BackwardGradResult result;
    const Status status = TryRun(parts, &scratch, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  bool allow_tf32 = false;

 private:
  FakeDeviceArray<T> Input(Array& values) {
    return FakeDeviceArray<T>(&gpu_.driver(), rnn::Rounded<T>(values));
  }

  const std::int32_t* lengths() const {
    return k_.lengths.empty() ? nullptr : k_.lengths.data();
  }

  rnn::NetworkBackwardGrad<T> Inputs(const BackwardGradParts& parts) {
    rnn::NetworkBackwardGrad<T> pass{};
    pass.config = k_.config;
    pass.size = k_.size;
    pass.time_major = k_.time_major;
    pass.sequence_lengths = lengths();
    pass.dropout = k_.dropout;
    pass.input = input_.data();
    pass.input_h = input_h_.data();
    pass.input_c = input_c_.data();
    pass.params = params_.data();
    pass.output_backprop = d_output_.data();
    pass.output_h_backprop = d_output_h_.data();
    pass.output_c_backprop = d_output_c_.data();
    pass.reserve_space_header = &header_;
    if (parts.has_dot_input) pass.dot_input = dot_input_.data();
    if (parts.has_dot_states) pass.dot_input_h = dot_input_h_.data();
    if (parts.has_dot_states) pass.dot_input_c = dot_input_c_.data();
    if (parts.has_dot_params) pass.dot_params = dot_params_.data();
    return pass;
  }

  FakeCublasGpu& gpu_;
  const Case& k_;
  FakeDeviceArray<T> input_, input_h_, input_c_, params_;
  FakeDeviceArray<T> d_output_, d_output_h_, d_output_c_;
  FakeDeviceArray<T> dot_input_, dot_input_h_, dot_input_c_, dot_params_;
  rnn::ReserveSpaceHeader header_;
};

template <typename T>
BackwardGradResult RunOnCpu(Case& k, const BackwardGradParts& parts = {}) {
  rnn::SerialExecutor executor;
  rnn::Engine<T> engine(rnn::InstructionSet::kBaseline, k);
  engine.Forward(/*is_training=*/true, executor);
  return engine.BackwardGrad(executor, parts);
}

// The cases of the CPU tests, except Keras weights, and cases with more lengths
// than fit in one launch, and with sequences of length 0 only.
std::vector<Case> GpuCases() {
  std::vector<Case> cases;
  for (Case& k : Cases()) {
    if (!k.config.has_keras_weights) cases.push_back(k);
  }
  Case many = RandomCase({RnnMode::kGru, false, 2, 2, 2, 3, 0}, {2, 2000});
  for (int i = 0; i < 2000; ++i) many.lengths.push_back(i % 3);
  cases.push_back(many);
  for (RnnMode mode : rnn::kModes) {
    Case empty = RandomCase({mode, false, 2, 2, 3, 4, 0}, {3, 2});
    empty.lengths = {0, 0};
    cases.push_back(empty);
    Case skipping = RandomCase({mode, true, 2, 2, 5, 5, 0}, {4, 3});
    skipping.lengths = {4, 0, 2};
    skipping.time_major = false;
    skipping.dropout = 1;
    cases.push_back(skipping);
  }
  return cases;
}

template <typename T>
class GpuBackwardGradTest : public testing::Test {};
TYPED_TEST_SUITE(GpuBackwardGradTest, rnn::StorageTypes);

TYPED_TEST(GpuBackwardGradTest, EqualsTheCpuEngine) {
  FakeCublasGpu gpu;
  for (Case& k : GpuCases()) {
    SCOPED_TRACE(Describe(k));
    rnn::ExpectAllClose(k.config, GpuEngine<TypeParam>(&gpu, k).Run(),
                        RunOnCpu<TypeParam>(k), kTolerance<TypeParam>);
  }
}

// The next two tests enumerate proper subsets of the parts as bits.

TYPED_TEST(GpuBackwardGradTest, NullIsZeros) {
  FakeCublasGpu gpu;
  unsigned turn = 0;
  for (Case& k : GpuCases()) {
    const unsigned choice = turn++ % 7;
    SCOPED_TRACE(Describe(k) + " choice " + std::to_string(choice));
    BackwardGradParts parts;
    parts.has_dot_input = (choice & 1) != 0;
    parts.has_dot_states = (choice & 2) != 0;
    parts.has_dot_params = (choice & 4) != 0;
    rnn::ExpectAllClose(k.config, GpuEngine<TypeParam>(&gpu, k).Run(parts),
                        RunOnCpu<TypeParam>(k, parts), kTolerance<TypeParam>);
  }
}

// Omitting results does not change the bits of the others.
TYPED_TEST(GpuBackwardGradTest, NullResultsAreSkipped) {
  FakeCublasGpu gpu;
  unsigned turn = 0;
  for (Case& k : GpuCases()) {
    const unsigned choice = turn++ % 15;
    SCOPED_TRACE(Describe(k) + " choice " + std::to_string(choice));
    BackwardGradParts parts;
    parts.wants_input = (choice & 1) != 0;
    parts.wants_states = (choice & 2) != 0;
    parts.wants_params = (choice & 4) != 0;
    parts.wants_outputs = (choice & 8) != 0;
    GpuEngine<TypeParam> engine(&gpu, k);
    const BackwardGradResult all = engine.Run();
    const BackwardGradResult some = engine.Run(parts);
    const auto of = [](bool is_wanted, const Array& array) {
      return is_wanted ? array : Array();
    };
    EXPECT_EQ(some.input, of(parts.wants_input, all.input));
    EXPECT_EQ(some.input_h, of(parts.wants_states, all.input_h));
    EXPECT_EQ(some.input_c, of(parts.wants_states, all.input_c));
    EXPECT_EQ(some.params, of(parts.wants_params, all.params));
    EXPECT_EQ(some.d_output, of(parts.wants_outputs, all.d_output));
    EXPECT_EQ(some.d_output_h, of(parts.wants_outputs, all.d_output_h));
    EXPECT_EQ(some.d_output_c, of(parts.wants_outputs, all.d_output_c));
  }
}

// Padding has no effect, even NaN.
TYPED_TEST(GpuBackwardGradTest, PaddingHasNoEffect) {
  FakeCublasGpu gpu;
  for (RnnMode mode : rnn::kModes) {
    for (bool skip_input : {false, true}) {
      Case k = RandomCase({mode, skip_input, 2, 2, 17, 17, 0}, {5, 4});
      k.lengths = {2, 0, 5, 1};
      SCOPED_TRACE(Describe(k));
      Case padded = WithPadding(k);
      const BackwardGradResult expected = GpuEngine<TypeParam>(&gpu, k).Run();
      const BackwardGradResult actual =
          GpuEngine<TypeParam>(&gpu, padded).Run();
      EXPECT_EQ(actual.input, expected.input);
      EXPECT_EQ(actual.input_h, expected.input_h);
      EXPECT_EQ(actual.params, expected.params);
      EXPECT_EQ(actual.d_output, expected.d_output);
      EXPECT_EQ(actual.d_output_h, expected.d_output_h);
    }
  }
}

// Weights do not affect sequences of length 0, even if infinite.
TYPED_TEST(GpuBackwardGradTest, WeightsHaveNoEffectOnEmptySequences) {
  FakeCublasGpu gpu;
  for (RnnConfig config : {RnnConfig{RnnMode::kTanh, false, 1, 1, 3, 17, 0},
                           {RnnMode::kGru, false, 2, 1, 3, 17, 0},
                           {RnnMode::kLstm, false, 1, 1, 3, 17, 0},
                           {RnnMode::kLstm, false, 1, 1, 3, 17, 5}}) {
    Case k = RandomCase(config, {3, 4});
    k.lengths = {0, 0, 1, 3};
    SCOPED_TRACE(Describe(k));
    for (Array* params : {&k.params, &k.dot_params}) {
      std::fill(params->begin(), params->end(),
                std::numeric_limits<double>::infinity());
    }
    const BackwardGradResult actual = GpuEngine<TypeParam>(&gpu, k).Run();
    for (std::int64_t i = 0; i < 2 * config.output_size(); ++i) {
      EXPECT_EQ(actual.input_h[i], 0) << i;
      EXPECT_EQ(actual.d_output_h[i], k.dot_input_h[i]) << i;
    }
    for (std::int64_t i = 0; i < 2 * config.input_size; ++i) {
      EXPECT_EQ(actual.input[i], 0) << i;
    }
    for (std::int64_t i = 0; i < 2 * config.num_units; ++i) {
      if (!config.has_cell_state()) break;
      EXPECT_EQ(actual.input_c[i], 0) << i;
      EXPECT_EQ(actual.d_output_c[i], k.dot_input_c[i]) << i;
    }
  }
}

TEST(GpuBackwardGradCallsTest, UsesTf32OnlyIfAllowed) {
  for (bool is_allowed : {false, true}) {
    FakeCublasGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {4, 6});
    GpuEngine<float> engine(&gpu, k);
    engine.allow_tf32 = is_allowed;
    engine.Run();
    const auto computed = gpu.fake_cublas().computed();
    EXPECT_FALSE(computed.empty());
    for (cublasComputeType_t type : computed) {
      EXPECT_EQ(type,
                is_allowed ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    }
  }
}

TYPED_TEST(GpuBackwardGradTest, FindZerosDetectsAllZeroArrays) {
  FakeCublasGpu gpu;
  for (std::size_t size : {0, 1, 3, 100000}) {
    for (double last : {0.0, -0.0, 1e-7, std::nan("")}) {
      Array values(size, -0.0);
      if (size > 0) values.back() = last;
      FakeDeviceArray<TypeParam> array(&gpu.driver(),
                                       rnn::Rounded<TypeParam>(values));
      FakeScratchAllocator scratch(&gpu.driver());
      bool are_zeros = false;
      const Status status = FindZeros(gpu.Call(&scratch), DataTypeOf<TypeParam>,
                                      size, array.data(), &are_zeros);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(are_zeros, size == 0 || last == 0) << size << " " << last;
    }
  }
}

// Each step is one product and one kernel per sweep.
TEST(GpuBackwardGradCallsTest, EachStepTakesFourCalls) {
  const auto count = [](std::int64_t time) {
    FakeCublasGpu gpu;
    Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 3, 5, 0}, {time, 6});
    BackwardGradParts parts;
    parts.has_dot_params = false;
    GpuEngine<float>(&gpu, k).Run(parts);
    EXPECT_EQ(gpu.driver().CountCalls("cuStreamSynchronize"), 0);
    return gpu.driver().CountCalls("cuLaunchKernel") +
           gpu.fake_cublas().CountCalls("cublasGemmEx");
  };
  EXPECT_EQ(count(9) - count(8), 4);
}

// --------------------------------------------------------------------- errors

Case HardCase() {
  Case k = RandomCase({RnnMode::kLstm, false, 2, 2, 3, 5, 4}, {4, 6});
  k.time_major = false;
  k.dropout = 0.5f;
  k.lengths = {0, 3, 4, 0, 4, 0};
  return k;
}

Status RunHardCase(FakeCublasGpu* gpu, Case& k) {
  FakeScratchAllocator scratch(&gpu->driver());
  BackwardGradResult result;
  return GpuEngine<rnn::BFloat16>(gpu, k).TryRun({}, &scratch, &result);
}

template <typename Library, typename Error>
void ExpectFailuresAreReported(FakeCublasGpu* gpu, Library* library,
                               Error error) {
  Case k = HardCase();
  int failures = 0;
  for (int skipped = 0;; ++skipped) {
    library->FailAny(error, skipped);
    const Status status = RunHardCase(gpu, k);
    if (library->ClearFailures()) break;  // fewer calls than that
    ++failures;
    EXPECT_EQ(status.code(), StatusCode::kInternal) << skipped;
    EXPECT_NE(status.message().find(" returned "), std::string::npos);
    EXPECT_NE(status.message().find("rnn_mode lstm"), std::string::npos)
        << status.message();
  }
  EXPECT_GT(failures, 50);
  EXPECT_TRUE(RunHardCase(gpu, k).ok());
}

TEST(GpuBackwardGradErrorsTest,
     DriverErrorsAreReportedAndDoNotAffectLaterCalls) {
  FakeCublasGpu gpu;
  ExpectFailuresAreReported(&gpu, &gpu.driver(), CUDA_ERROR_LAUNCH_FAILED);
}

TEST(GpuBackwardGradErrorsTest,
     CublasErrorsAreReportedAndDoNotAffectLaterCalls) {
  FakeCublasGpu gpu;
  ExpectFailuresAreReported(&gpu, &gpu.fake_cublas(),
                            CUBLAS_STATUS_EXECUTION_FAILED);
}

TEST(GpuBackwardGradErrorsTest, OutOfMemoryDoesNotAffectLaterCalls) {
  FakeCublasGpu gpu;
  Case k = HardCase();
  GpuEngine<rnn::BFloat16> engine(&gpu, k);
  int failures = 0;
  for (;; ++failures) {
    FakeScratchAllocator scratch(&gpu.driver());
    scratch.Fail(failures);
    BackwardGradResult result;
    const Status status = engine.TryRun({}, &scratch, &result);
    if (status.ok()) break;  // fewer calls than that
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << failures;
  }
  EXPECT_GT(failures, 20);
}

TEST(GpuBackwardGradErrorsTest, RejectsOverflowingActivationSizes) {
  FakeCublasGpu gpu;
  Case k = RandomCase({RnnMode::kLstm, false, 1, 1, 1, 1, 0}, {1, 1});
  k.size = {std::int64_t{1} << 40, std::int64_t{1} << 22};
  FakeScratchAllocator scratch(&gpu.driver());
  rnn::NetworkBackwardGrad<float> pass{};
  pass.config = k.config;
  pass.size = k.size;
  pass.time_major = true;
  const Status status = RunNetworkBackwardGrad(gpu.Call(&scratch), gpu.cublas(),
                                               /*allow_tf32=*/false, pass);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("the network is too large"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
