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

// Runs the pass of a case on a GPU.
template <typename T>
class GpuEngine {
 public:
  GpuEngine(FakeGpu* gpu, const Case& k) : gpu_(*gpu), k_(k) {}

  // Results that are not wanted are empty.
  Status TryRun(const BackwardGradParts& parts, BackwardGradResult* result) {
    const std::int32_t* const lengths =
        k_.lengths.empty() ? nullptr : k_.lengths.data();
    rnn::ReserveSpaceHeader header;
    rnn::WriteReserveSpaceHeader<T>({k_.config, k_.size, k_.time_major, lengths,
                                     k_.dropout, rnn::Device::kGpu},
                                    rnn::kStream, header.data());
    FakeArrays<T> arrays(&gpu_);
    const auto in = [&](const Array& values, bool is_there = true) {
      return is_there ? arrays.In(values) : nullptr;
    };
    const auto out = [&](const Array& like, bool is_wanted, Array* to) {
      return arrays.Out(is_wanted ? like.size() : 0, to);
    };
    rnn::NetworkBackwardGrad<T> pass{};
    pass.config = k_.config;
    pass.size = k_.size;
    pass.time_major = k_.time_major;
    pass.sequence_lengths = lengths;
    pass.dropout = k_.dropout;
    pass.kept = rnn::Kept<const T>::ReserveSpace(nullptr, &header);
    pass.input = in(k_.input);
    pass.input_h = in(k_.input_h);
    pass.input_c = in(k_.input_c);
    pass.weights.params = in(k_.params);
    pass.output_backprop = in(k_.d_output);
    pass.output_h_backprop = in(k_.d_output_h);
    pass.output_c_backprop = in(k_.d_output_c);
    pass.dot_input = in(k_.dot_input, parts.has_dot_input);
    pass.dot_input_h = in(k_.dot_input_h, parts.has_dot_states);
    pass.dot_input_c = in(k_.dot_input_c, parts.has_dot_states);
    pass.dot_weights.params = in(k_.dot_params, parts.has_dot_params);
    pass.input_grad = out(k_.input, parts.wants_input, &result->input);
    pass.input_h_grad = out(k_.input_h, parts.wants_states, &result->input_h);
    pass.input_c_grad = out(k_.input_c, parts.wants_states, &result->input_c);
    pass.weights_grad.params =
        out(k_.params, parts.wants_params, &result->params);
    pass.output_backprop_grad =
        out(k_.d_output, parts.wants_outputs, &result->d_output);
    pass.output_h_backprop_grad =
        out(k_.d_output_h, parts.wants_outputs, &result->d_output_h);
    pass.output_c_backprop_grad =
        out(k_.d_output_c, parts.wants_outputs, &result->d_output_c);
    FakeScratchAllocator scratch(&gpu_.driver());
    TF_RNN_OPS_RETURN_IF_ERROR(RunNetworkBackwardGrad(
        gpu_.Call(&scratch), gpu_.cublas(), allow_tf32, pass));
    arrays.Read();
    return Status();
  }

  BackwardGradResult Run(const BackwardGradParts& parts = {}) {
    BackwardGradResult result;
    const Status status = TryRun(parts, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  bool allow_tf32 = false;

 private:
  FakeGpu& gpu_;
  const Case& k_;
};

template <typename T>
BackwardGradResult RunOnCpu(Case& k, const BackwardGradParts& parts = {}) {
  rnn::SerialExecutor executor;
  rnn::Engine<T> engine(rnn::InstructionSet::kBaseline, k);
  engine.Forward(/*is_training=*/true, executor);
  return engine.BackwardGrad(executor, parts);
}

std::vector<Array> Arrays(const BackwardGradResult& r) {
  return {r.input,    r.input_h,    r.input_c,   r.params,
          r.d_output, r.d_output_h, r.d_output_c};
}

// The cases of the CPU tests, except Keras weights, and cases with more lengths
// than fit in one launch, and with sequences of length 0 only.
std::vector<Case> GpuCases() {
  std::vector<Case> cases;
  for (Case& k : Cases()) {
    if (!rnn::HasKerasWeights(k.config)) cases.push_back(k);
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
  FakeGpu gpu;
  for (Case& k : GpuCases()) {
    SCOPED_TRACE(Describe(k));
    rnn::ExpectAllClose(k.config, GpuEngine<TypeParam>(&gpu, k).Run(),
                        RunOnCpu<TypeParam>(k), kTolerance<TypeParam>);
  }
}

// The next two tests enumerate proper subsets of the parts as bits.

TYPED_TEST(GpuBackwardGradTest, NullIsZeros) {
  FakeGpu gpu;
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
  FakeGpu gpu;
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
    BackwardGradResult expected = engine.Run();
    if (!parts.wants_input) expected.input.clear();
    if (!parts.wants_states) expected.input_h.clear(), expected.input_c.clear();
    if (!parts.wants_params) expected.params.clear();
    if (!parts.wants_outputs) {
      expected.d_output.clear();
      expected.d_output_h.clear();
      expected.d_output_c.clear();
    }
    EXPECT_EQ(Arrays(engine.Run(parts)), Arrays(expected));
  }
}

// Padding has no effect, even NaN.
TYPED_TEST(GpuBackwardGradTest, PaddingHasNoEffect) {
  FakeGpu gpu;
  for (RnnMode mode : rnn::kModes) {
    for (bool skip_input : {false, true}) {
      Case k = RandomCase({mode, skip_input, 2, 2, 17, 17, 0}, {5, 4});
      k.lengths = {2, 0, 5, 1};
      SCOPED_TRACE(Describe(k));
      Case padded = WithPadding(k);
      EXPECT_EQ(Arrays(GpuEngine<TypeParam>(&gpu, padded).Run()),
                Arrays(GpuEngine<TypeParam>(&gpu, k).Run()));
    }
  }
}

// Weights do not affect sequences of length 0, even if infinite.
TYPED_TEST(GpuBackwardGradTest, WeightsHaveNoEffectOnEmptySequences) {
  FakeGpu gpu;
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
    for (Array* array : {&k.dot_input_h, &k.dot_input_c}) {
      rnn::Rounded<TypeParam>(*array);
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
    FakeGpu gpu;
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
  FakeGpu gpu;
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
    FakeGpu gpu;
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

// Includes out of scratch memory.
TEST(GpuBackwardGradErrorsTest, EachFailureIsReported) {
  FakeGpu gpu;
  const Case k = HardCase();
  const auto run = [&] {
    BackwardGradResult result;
    return GpuEngine<rnn::BFloat16>(&gpu, k).TryRun({}, &result);
  };
  const std::vector<std::string> texts = {" returned ", "rnn_mode lstm"};
  EXPECT_GT(
      ExpectEachFailureIsReported(gpu.driver(), CUDA_ERROR_OUT_OF_MEMORY,
                                  StatusCode::kResourceExhausted, texts, run),
      70);
  EXPECT_GT(ExpectEachFailureIsReported(gpu.fake_cublas(),
                                        CUBLAS_STATUS_EXECUTION_FAILED,
                                        StatusCode::kInternal, texts, run),
            50);
  EXPECT_TRUE(run().ok());
}

TEST(GpuBackwardGradErrorsTest, RejectsOverflowingActivationSizes) {
  FakeGpu gpu;
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
