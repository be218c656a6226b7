// Support for tests of cudnn_rnn.h: networks on a fake GPU and on the CPU.

#ifndef TF_RNN_OPS_CC_GPU_CUDNN_RNN_TEST_SUPPORT_H_
#define TF_RNN_OPS_CC_GPU_CUDNN_RNN_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cc/gpu/cudnn_rnn.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_cudnn.h"
#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::gpu {

template <typename T>
rnn::Array ToDoubles(const FakeDeviceArray<T>& array) {
  rnn::Array result;
  for (T value : array.ToVector()) result.push_back(rnn::ToDouble(value));
  return result;
}

// The tensors of a case on a GPU, and its network.
template <typename T>
class GpuNetwork {
 public:
  GpuNetwork(FakeGpu* gpu, const Cudnn& cudnn, CudnnHandlePool* handles,
             rnn::Case& k, bool is_standard_only = false)
      : gpu_(*gpu),
        k_(k),
        networks_(cudnn, *handles, is_standard_only),
        input_(&gpu->driver(), rnn::Rounded<T>(k.input)),
        input_h_(&gpu->driver(), rnn::Rounded<T>(k.input_h)),
        input_c_(&gpu->driver(), rnn::Rounded<T>(k.input_c)),
        params_(&gpu->driver(), rnn::Rounded<T>(k.params)),
        d_output_(&gpu->driver(), rnn::Rounded<T>(k.d_output)),
        d_output_h_(&gpu->driver(), rnn::Rounded<T>(k.d_output_h)),
        d_output_c_(&gpu->driver(), rnn::Rounded<T>(k.d_output_c)),
        output_(&gpu->driver(), k.d_output.size()) {}

  // Training uses the dropout masks of the CPU tests.
  Status Forward(bool is_training, rnn::ForwardResult* result) {
    FakeScratchAllocator scratch(&gpu_.driver());
    const CudnnRnnCall call = Call(&scratch);
    CudnnRnnPlan plan;
    TF_RNN_OPS_RETURN_IF_ERROR(networks_.Plan(call, Key(), is_training, &plan));
    rnn::NetworkForward<T> pass{};
    Fill(&pass);
    pass.is_training = is_training;
    if (is_training) {
      pass.stream = rnn::kStream;
      reserve_space_ = std::make_unique<FakeDeviceArray<char>>(
          &gpu_.driver(), plan.reserve_space_bytes());
      pass.reserve_space = reinterpret_cast<T*>(reserve_space_->data());
      ReserveSpaceHeader header;
      rnn::WriteReserveSpaceHeader<T>(plan.key(), pass.stream, header.data());
      TF_RNN_OPS_RETURN_IF_ERROR(
          WriteReserveSpaceHeader(call, header, pass.reserve_space));
    }
    FakeDeviceArray<T> output_h(&gpu_.driver(), k_.input_h.size());
    FakeDeviceArray<T> output_c(&gpu_.driver(), k_.input_c.size());
    pass.output = output_.data();
    pass.output_h = output_h.data();
    pass.output_c = output_c.data();
    TF_RNN_OPS_RETURN_IF_ERROR(networks_.Forward(pass, &plan));
    if (is_training) ExpectFiniteReserveSpace();
    *result = {ToDoubles(output_), ToDoubles(output_h), ToDoubles(output_c)};
    return Status();
  }

  // Runs the backward pass of the last forward pass.
  Status Backward(rnn::BackwardResult* result, bool wants_params = true) {
    FakeScratchAllocator scratch(&gpu_.driver());
    const CudnnRnnCall call = Call(&scratch);
    CudnnRnnPlan plan;
    TF_RNN_OPS_RETURN_IF_ERROR(
        networks_.Plan(call, Key(), /*is_training=*/true, &plan));
    FakeDeviceArray<T> d_input(&gpu_.driver(), k_.input.size());
    FakeDeviceArray<T> d_h(&gpu_.driver(), k_.input_h.size());
    FakeDeviceArray<T> d_c(&gpu_.driver(), k_.input_c.size());
    FakeDeviceArray<T> d_params(&gpu_.driver(),
                                wants_params ? k_.params.size() : 0);
    rnn::NetworkBackward<T> pass{};
    Fill(&pass);
    pass.output = output_.data();
    pass.output_backprop = d_output_.data();
    pass.output_h_backprop = d_output_h_.data();
    pass.output_c_backprop = d_output_c_.data();
    pass.reserve_space = reinterpret_cast<T*>(reserve_space_->data());
    ReserveSpaceHeader header;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadReserveSpaceHeader(call, pass.reserve_space, &header));
    pass.reserve_space_header = &header;
    pass.input_backprop = d_input.data();
    pass.input_h_backprop = d_h.data();
    pass.input_c_backprop = d_c.data();
    pass.params_backprop = wants_params ? d_params.data() : nullptr;
    const std::vector<char> before = reserve_space_->ToVector();
    TF_RNN_OPS_RETURN_IF_ERROR(
        networks_.Backward(pass, &plan, owns_reserve_space));
    if (!owns_reserve_space) {
      EXPECT_EQ(reserve_space_->ToVector(), before) << "was written to";
    }
    *result = {ToDoubles(d_input), ToDoubles(d_h), ToDoubles(d_c),
               ToDoubles(d_params)};
    return Status();
  }

  // Returns the error if the reserve space does not match a key.
  std::string Mismatch(const rnn::ReserveSpaceKey& key) {
    FakeScratchAllocator scratch(&gpu_.driver());
    const CudnnRnnCall call = Call(&scratch);
    CudnnRnnPlan plan;
    EXPECT_TRUE(networks_.Plan(call, key, /*is_training=*/true, &plan).ok());
    ReserveSpaceHeader header;
    EXPECT_TRUE(
        ReadReserveSpaceHeader(call, reserve_space_->data(), &header).ok());
    return rnn::ReserveSpaceMismatch<T>(plan.key(), header.data(),
                                        reserve_space_->size() / sizeof(T),
                                        plan.reserve_space_bytes() / sizeof(T));
  }

  // The variant of the reserve space.
  std::uint64_t Variant() {
    FakeScratchAllocator scratch(&gpu_.driver());
    ReserveSpaceHeader header;
    EXPECT_TRUE(
        ReadReserveSpaceHeader(Call(&scratch), reserve_space_->data(), &header)
            .ok());
    return rnn::FindReserveSpaceOrigin(header).variant;
  }

  rnn::ReserveSpaceKey Key() const {
    return {k_.config, k_.size, k_.time_major, lengths(), k_.dropout};
  }

  bool allow_tf32 = false;
  bool owns_reserve_space = false;

 private:
  // FakeDeviceArray and the fake cuDNN leave bytes that are NaN.
  void ExpectFiniteReserveSpace() {
    const std::vector<char> bytes = reserve_space_->ToVector();
    std::vector<T> elements(bytes.size() / sizeof(T));
    EXPECT_EQ(elements.size() * sizeof(T), bytes.size());
    std::memcpy(elements.data(), bytes.data(), bytes.size());
    EXPECT_TRUE(std::all_of(elements.begin(), elements.end(), [](T element) {
      return std::isfinite(rnn::ToDouble(element));
    }));
  }

  CudnnRnnCall Call(ScratchAllocator* scratch) {
    return {gpu_.Call(scratch), allow_tf32};
  }

  const std::int32_t* lengths() const {
    return k_.lengths.empty() ? nullptr : k_.lengths.data();
  }

  template <typename Pass>
  void Fill(Pass* pass) {
    pass->config = k_.config;
    pass->size = k_.size;
    pass->time_major = k_.time_major;
    pass->sequence_lengths = lengths();
    pass->dropout = k_.dropout;
    pass->input = input_.data();
    pass->input_h = input_h_.data();
    pass->input_c = input_c_.data();
    pass->params = params_.data();
  }

  FakeGpu& gpu_;
  const rnn::Case& k_;
  CudnnRnn<T> networks_;
  FakeDeviceArray<T> input_, input_h_, input_c_, params_;
  FakeDeviceArray<T> d_output_, d_output_h_, d_output_c_, output_;
  std::unique_ptr<FakeDeviceArray<char>> reserve_space_;
};

// A fake GPU with a fake cuDNN.
class FakeCudnnGpu : public FakeGpu {
 public:
  FakeCudnn& cudnn() { return cudnn_; }
  CudnnHandlePool& handles() { return handles_; }

 private:
  FakeCudnn cudnn_{&driver()};
  CudnnHandlePool handles_{*cudnn_.cudnn()};
};

template <typename T>
class FakeNetwork : public GpuNetwork<T> {
 public:
  FakeNetwork(FakeCudnnGpu* gpu, rnn::Case& k, bool is_standard_only = false)
      : GpuNetwork<T>(gpu, *gpu->cudnn().cudnn(), &gpu->handles(), k,
                      is_standard_only) {}
};

// Runs a case with the CPU engine.
template <typename T>
class CpuNetwork {
 public:
  explicit CpuNetwork(rnn::Case& k)
      : engine_(rnn::InstructionSet::kBaseline, k) {}

  rnn::ForwardResult Forward(bool is_training) {
    return engine_.Forward(is_training, executor_);
  }
  rnn::BackwardResult Backward() { return engine_.Backward(executor_); }

 private:
  rnn::SerialExecutor executor_;
  rnn::Engine<T> engine_;
};

inline void ExpectSame(const rnn::ForwardResult& actual,
                       const rnn::ForwardResult& expected, double tolerance) {
  rnn::ExpectClose(actual.output, expected.output, tolerance, "output");
  rnn::ExpectClose(actual.output_h, expected.output_h, tolerance, "output_h");
  rnn::ExpectClose(actual.output_c, expected.output_c, tolerance, "output_c");
}

inline void ExpectSame(const rnn::BackwardResult& actual,
                       const rnn::BackwardResult& expected, double tolerance) {
  rnn::ExpectClose(actual.input, expected.input, tolerance, "input");
  rnn::ExpectClose(actual.input_h, expected.input_h, tolerance, "input_h");
  rnn::ExpectClose(actual.input_c, expected.input_c, tolerance, "input_c");
  rnn::ExpectClose(actual.params, expected.params, tolerance, "params");
}

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_CUDNN_RNN_TEST_SUPPORT_H_
