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
#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/rnn/network_test_support.h"

namespace tf_rnn_ops::gpu {

// A network on a fake GPU.
template <typename T>
class FakeNetwork {
 public:
  FakeNetwork(FakeGpu* gpu, const rnn::Case& k, bool is_standard_only = false)
      : stream(gpu->stream()),
        gpu_(*gpu),
        k_(k),
        networks_(*gpu->cudnn().cudnn(), gpu->handles(), is_standard_only) {}

  // Training uses the dropout masks of the CPU tests.
  Status TryForward(bool is_training, rnn::ForwardResult* result) {
    FakeScratchAllocator scratch(&gpu_.driver());
    const CudnnRnnCall call = Call(&scratch);
    CudnnRnnPlan plan;
    TF_RNN_OPS_RETURN_IF_ERROR(networks_.Plan(call, Key(), is_training, &plan));
    FakeArrays<T> arrays(&gpu_);
    rnn::NetworkForward<T> pass{};
    Fill(&pass, &arrays);
    if (is_training) {
      pass.stream = rnn::kStream;
      reserve_space_ = std::make_unique<FakeDeviceArray<char>>(
          &gpu_.driver(), plan.reserve_space_bytes());
      pass.kept = rnn::Kept<T>::ReserveSpace(
          reinterpret_cast<T*>(reserve_space_->data()));
      ReserveSpaceHeader header;
      rnn::WriteReserveSpaceHeader<T>(plan.key(), pass.stream, header.data());
      TF_RNN_OPS_RETURN_IF_ERROR(
          WriteReserveSpaceHeader(call, header, pass.kept.data));
    }
    pass.output = arrays.Out(k_.d_output.size(), &result->output);
    pass.output_h = arrays.Out(k_.input_h.size(), &result->output_h);
    pass.output_c = arrays.Out(k_.input_c.size(), &result->output_c);
    TF_RNN_OPS_RETURN_IF_ERROR(networks_.Forward(pass, &plan));
    if (is_training) ExpectFiniteReserveSpace();
    arrays.Read();
    output_ = result->output;
    return Status();
  }

  // Runs the backward pass of the last forward pass.
  Status TryBackward(rnn::BackwardResult* result, bool wants_params = true) {
    FakeScratchAllocator scratch(&gpu_.driver());
    const CudnnRnnCall call = Call(&scratch);
    CudnnRnnPlan plan;
    TF_RNN_OPS_RETURN_IF_ERROR(
        networks_.Plan(call, Key(), /*is_training=*/true, &plan));
    FakeArrays<T> arrays(&gpu_);
    rnn::NetworkBackward<T> pass{};
    Fill(&pass, &arrays);
    pass.output = arrays.In(output_);
    pass.output_backprop = arrays.In(k_.d_output);
    pass.output_h_backprop = arrays.In(k_.d_output_h);
    pass.output_c_backprop = arrays.In(k_.d_output_c);
    ReserveSpaceHeader header;
    TF_RNN_OPS_RETURN_IF_ERROR(
        ReadReserveSpaceHeader(call, reserve_space_->data(), &header));
    pass.kept = rnn::Kept<const T>::ReserveSpace(
        reinterpret_cast<T*>(reserve_space_->data()), &header);
    pass.input_backprop = arrays.Out(k_.input.size(), &result->input);
    pass.input_h_backprop = arrays.Out(k_.input_h.size(), &result->input_h);
    pass.input_c_backprop = arrays.Out(k_.input_c.size(), &result->input_c);
    pass.weights_backprop.params =
        arrays.Out(wants_params ? k_.params.size() : 0, &result->params);
    const std::vector<char> before = reserve_space_->ToVector();
    TF_RNN_OPS_RETURN_IF_ERROR(
        networks_.Backward(pass, &plan, owns_reserve_space));
    if (!owns_reserve_space) {
      EXPECT_EQ(reserve_space_->ToVector(), before) << "was written to";
    }
    arrays.Read();
    return Status();
  }

  // The same, which must succeed.
  rnn::ForwardResult Forward(bool is_training) {
    rnn::ForwardResult result;
    const Status status = TryForward(is_training, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }
  rnn::BackwardResult Backward(bool wants_params = true) {
    rnn::BackwardResult result;
    const Status status = TryBackward(&result, wants_params);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
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

  CUstream stream;
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
    return {{gpu_.driver().driver(), stream, scratch}, allow_tf32};
  }

  const std::int32_t* lengths() const {
    return k_.lengths.empty() ? nullptr : k_.lengths.data();
  }

  template <typename Pass>
  void Fill(Pass* pass, FakeArrays<T>* arrays) {
    pass->config = k_.config;
    pass->size = k_.size;
    pass->time_major = k_.time_major;
    pass->sequence_lengths = lengths();
    pass->dropout = k_.dropout;
    pass->input = arrays->In(k_.input);
    pass->input_h = arrays->In(k_.input_h);
    pass->input_c = arrays->In(k_.input_c);
    pass->weights.params = arrays->In(k_.params);
  }

  FakeGpu& gpu_;
  const rnn::Case& k_;
  CudnnRnn<T> networks_;
  rnn::Array output_;  // of the last forward pass
  std::unique_ptr<FakeDeviceArray<char>> reserve_space_;
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
