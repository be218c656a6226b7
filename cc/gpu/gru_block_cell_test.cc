// The engine on a fake GPU, with the GPU kernels compiled for the host.

#include "cc/gpu/gru_block_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/gpu/fakes/fake_cublas.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_gru_block_cell.h"
#include "cc/rnn/gru_block_cell_reference.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;
using rnn::BackwardResult;
using rnn::Case;
using rnn::ForwardResult;
using rnn::GruBlockCellSize;
using rnn::kTolerance;
using rnn::ReferenceBackward;
using rnn::ReferenceForward;

// The gradients of gates that a backward step has.
struct GateGradients {
  bool r;
  bool u;
  bool c;
};
constexpr GateGradients kNoGateGradients = {false, false, false};
constexpr GateGradients kAllGateGradients = {true, true, true};

// Arrays on the GPU: constant inputs, and outputs.
template <typename T>
class Arrays {
 public:
  // offset: offset of each array in its allocation, in elements.
  Arrays(FakeCudaDriver* driver, std::size_t offset)
      : driver_(driver), offset_(offset) {}
  ~Arrays() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::vector<T> now = inputs_[i]->ToVector();
      EXPECT_TRUE(now.empty() || std::memcmp(now.data(), values_[i].data(),
                                             now.size() * sizeof(T)) == 0)
          << "an input was written";
    }
  }

  const T* In(Array values) {
    values_.push_back(rnn::Rounded<T>(values));
    inputs_.push_back(
        std::make_unique<FakeDeviceArray<T>>(driver_, values_.back(), offset_));
    return inputs_.back()->data();
  }
  T* Out(std::int64_t size) {
    outputs_.push_back(
        std::make_unique<FakeDeviceArray<T>>(driver_, size, offset_));
    return outputs_.back()->data();
  }
  // The outputs, in the order of creation.
  Array Result(std::size_t index) const {
    Array result;
    for (T value : outputs_[index]->ToVector()) {
      result.push_back(rnn::ToDouble(value));
    }
    return result;
  }

 private:
  FakeCudaDriver* driver_;
  std::size_t offset_;
  std::vector<std::vector<T>> values_;  // of the inputs
  std::vector<std::unique_ptr<FakeDeviceArray<T>>> inputs_;
  std::vector<std::unique_ptr<FakeDeviceArray<T>>> outputs_;
};

// A GPU whose context is current, with kernels for T.
template <typename T>
class FakeGpu {
 public:
  FakeGpu() {
    RegisterGruBlockCellKernels(&driver_);
    EnterNewContext();
  }
  ~FakeGpu() { LeaveContext(); }

  Status TryForward(const Case& k, std::size_t offset, ForwardResult* result) {
    const std::int64_t state = k.size.batch * k.size.cell_size;
    Arrays<T> arrays(&driver_, offset);
    rnn::GruBlockCellForward<T> step{};
    step.size = k.size;
    step.x = arrays.In(k.x);
    step.h_prev = arrays.In(k.h_prev);
    step.w_ru = arrays.In(k.w_ru);
    step.w_c = arrays.In(k.w_c);
    step.b_ru = arrays.In(k.b_ru);
    step.b_c = arrays.In(k.b_c);
    step.r = arrays.Out(state);
    step.u = arrays.Out(state);
    step.c = arrays.Out(state);
    step.h = arrays.Out(state);
    TF_RNN_OPS_RETURN_IF_ERROR(Run([&](const Call& call) {
      return RunGruBlockCellForward(call, cublas_, allow_tf32, step);
    }));
    *result = {arrays.Result(0), arrays.Result(1), arrays.Result(2),
               arrays.Result(3)};
    return Status();
  }

  Status TryBackward(const Case& k, const ForwardResult& forward,
                     const GateGradients& gradients, std::size_t offset,
                     BackwardResult* result) {
    const std::int64_t state = k.size.batch * k.size.cell_size;
    Arrays<T> arrays(&driver_, offset);
    rnn::GruBlockCellBackward<T> step{};
    step.size = k.size;
    step.h_prev = arrays.In(k.h_prev);
    step.w_ru = arrays.In(k.w_ru);
    step.w_c = arrays.In(k.w_c);
    step.r = arrays.In(forward.r);
    step.u = arrays.In(forward.u);
    step.c = arrays.In(forward.c);
    step.d_r = gradients.r ? arrays.In(k.d_r) : nullptr;
    step.d_u = gradients.u ? arrays.In(k.d_u) : nullptr;
    step.d_c = gradients.c ? arrays.In(k.d_c) : nullptr;
    step.d_h = arrays.In(k.d_h);
    step.d_x = arrays.Out(k.size.batch * k.size.input_size);
    step.d_h_prev = arrays.Out(state);
    step.d_c_bar = arrays.Out(state);
    step.d_r_bar_u_bar = arrays.Out(2 * state);
    TF_RNN_OPS_RETURN_IF_ERROR(Run([&](const Call& call) {
      return RunGruBlockCellBackward(call, cublas_, allow_tf32, step);
    }));
    *result = {arrays.Result(0), arrays.Result(1), arrays.Result(2),
               arrays.Result(3)};
    return Status();
  }

  ForwardResult Forward(const Case& k, std::size_t offset = 0) {
    ForwardResult result;
    const Status status = TryForward(k, offset, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }
  BackwardResult Backward(const Case& k, const ForwardResult& forward,
                          const GateGradients& gradients,
                          std::size_t offset = 0) {
    BackwardResult result;
    const Status status = TryBackward(k, forward, gradients, offset, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  // A context without loaded code and cuBLAS handle.
  void UseNewContext() {
    LeaveContext();
    EnterNewContext();
  }

  // Runs a step with scratch memory.
  template <typename Step>
  Status Run(const Step& step) {
    FakeScratchAllocator scratch(&driver_);
    if (is_out_of_memory) scratch.Fail();
    return step(Call{driver_.driver(), stream_, &scratch});
  }

  FakeCudaDriver& driver() { return driver_; }
  FakeCublas& fake_cublas() { return fake_cublas_; }
  Cublas& cublas() { return cublas_; }

  bool allow_tf32 = false;
  bool is_out_of_memory = false;

 private:
  void EnterNewContext() {
    const CUcontext context = driver_.NewContext();
    stream_ = driver_.NewStream(context);
    driver_.driver()->cuCtxPushCurrent_v2(context);
  }
  void LeaveContext() {
    CUcontext left;
    driver_.driver()->cuCtxPopCurrent_v2(&left);
  }

  FakeCudaDriver driver_;
  FakeCublas fake_cublas_{&driver_};
  Cublas cublas_{fake_cublas_.functions()};
  CUstream stream_ = nullptr;
};

// A case with values rounded to T.
template <typename T>
Case RandomCase(const GruBlockCellSize& size) {
  Case k = rnn::RandomCase(size, 1);
  for (Array* array : {&k.x, &k.h_prev, &k.w_ru, &k.w_c, &k.b_ru, &k.b_c,
                       &k.d_r, &k.d_u, &k.d_c, &k.d_h}) {
    rnn::Rounded<T>(*array);
  }
  return k;
}

template <typename T>
ForwardResult RoundedForward(const Case& k) {
  ForwardResult forward = ReferenceForward(k);
  for (Array* array : {&forward.r, &forward.u, &forward.c, &forward.h}) {
    rnn::Rounded<T>(*array);
  }
  return forward;
}

// The case with zeros for missing gradients.
Case WithoutOthers(Case k, const GateGradients& gradients) {
  const auto clear = [](bool is_given, Array* array) {
    if (!is_given) std::fill(array->begin(), array->end(), 0.0);
  };
  clear(gradients.r, &k.d_r);
  clear(gradients.u, &k.d_u);
  clear(gradients.c, &k.d_c);
  return k;
}

template <typename T>
void ForEachSize(const std::function<void(const Case&)>& check) {
  for (const GruBlockCellSize& size : rnn::kGruBlockCellSizes) {
    SCOPED_TRACE("batch " + std::to_string(size.batch) + " input_size " +
                 std::to_string(size.input_size) + " cell_size " +
                 std::to_string(size.cell_size));
    check(RandomCase<T>(size));
  }
}

template <typename T>
class GpuGruBlockCellTest : public testing::Test {
 protected:
  FakeGpu<T> gpu_;
};
TYPED_TEST_SUITE(GpuGruBlockCellTest, rnn::StorageTypes);

TYPED_TEST(GpuGruBlockCellTest, ForwardEqualsTheReference) {
  ForEachSize<TypeParam>([&](const Case& k) {
    rnn::ExpectClose(this->gpu_.Forward(k), ReferenceForward(k),
                     kTolerance<TypeParam>);
  });
}

TYPED_TEST(GpuGruBlockCellTest, BackwardEqualsTheReference) {
  ForEachSize<TypeParam>([&](const Case& k) {
    const ForwardResult forward = RoundedForward<TypeParam>(k);
    for (const GateGradients& gradients : {kNoGateGradients,
                                           kAllGateGradients,
                                           {true, false, false},
                                           {false, true, false},
                                           {false, false, true}}) {
      rnn::ExpectClose(this->gpu_.Backward(k, forward, gradients),
                       ReferenceBackward(WithoutOthers(k, gradients), forward),
                       kTolerance<TypeParam>);
    }
  });
}

TYPED_TEST(GpuGruBlockCellTest, BitsDoNotDependOnAlignment) {
  // Some sizes allow vector access, others do not.
  ForEachSize<TypeParam>([&](const Case& k) {
    const ForwardResult forward = this->gpu_.Forward(k);
    const BackwardResult backward =
        this->gpu_.Backward(k, forward, kAllGateGradients);
    for (std::size_t offset : {1, 8}) {
      rnn::ExpectSameBits(this->gpu_.Forward(k, offset), forward);
      rnn::ExpectSameBits(
          this->gpu_.Backward(k, forward, kAllGateGradients, offset), backward);
    }
  });
}

TYPED_TEST(GpuGruBlockCellTest, TakesFiveLaunches) {
  const Case k = RandomCase<TypeParam>({3, 4, 8});
  const ForwardResult forward = this->gpu_.Forward(k);
  EXPECT_EQ(this->gpu_.driver().CountCalls("cuLaunchKernel"), 3);
  EXPECT_EQ(this->gpu_.fake_cublas().computed().size(), 2);
  this->gpu_.Backward(k, forward, kAllGateGradients);
  EXPECT_EQ(this->gpu_.driver().CountCalls("cuLaunchKernel"), 6);
  EXPECT_EQ(this->gpu_.fake_cublas().computed().size(), 4);
  EXPECT_EQ(this->gpu_.driver().loaded_images().size(), 1);
}

TYPED_TEST(GpuGruBlockCellTest, EmptyArraysLaunchNoKernels) {
  for (const GruBlockCellSize& size :
       {GruBlockCellSize{0, 3, 4}, GruBlockCellSize{3, 4, 0},
        GruBlockCellSize{0, 0, 0}}) {
    const Case k = RandomCase<TypeParam>(size);
    const ForwardResult forward = this->gpu_.Forward(k);
    this->gpu_.Backward(k, forward, kNoGateGradients);
  }
  EXPECT_EQ(this->gpu_.driver().CountCalls("cuLaunchKernel"), 0);
  EXPECT_EQ(this->gpu_.fake_cublas().num_handles(), 0);
}

TYPED_TEST(GpuGruBlockCellTest, UsesTf32OnlyIfAllowed) {
  const Case k = RandomCase<TypeParam>({3, 4, 8});
  for (bool allow_tf32 : {false, true}) {
    this->gpu_.allow_tf32 = allow_tf32;
    this->gpu_.Backward(k, this->gpu_.Forward(k), kAllGateGradients);
  }
  const auto computed = this->gpu_.fake_cublas().computed();
  const auto count = std::count(computed.begin(), computed.end(),
                                CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(count, (std::is_same_v<TypeParam, float> ? 4 : 0));
}

TYPED_TEST(GpuGruBlockCellTest, SpecialValuesPropagate) {
  const double inf = std::numeric_limits<double>::infinity();
  Case k = RandomCase<TypeParam>({3, 2, 20});
  for (double value : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    std::fill(k.b_ru.begin(), k.b_ru.end(), value);
    const ForwardResult f = this->gpu_.Forward(k);
    for (std::size_t i = 0; i < f.u.size(); ++i) {
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(f.r[i]) && std::isnan(f.u[i]) &&
                    std::isnan(f.c[i]) && std::isnan(f.h[i]));
      } else {
        EXPECT_EQ(f.r[i], value > 0 ? 1 : 0);
        EXPECT_EQ(f.u[i], value > 0 ? 1 : 0);
        EXPECT_EQ(f.h[i], value > 0 ? k.h_prev[i] : f.c[i]);
      }
    }
  }
}

TYPED_TEST(GpuGruBlockCellTest, RejectsOverflowingSizes) {
  const std::int64_t huge = std::int64_t{1} << 61;
  rnn::GruBlockCellForward<TypeParam> forward{};
  rnn::GruBlockCellBackward<TypeParam> backward{};
  for (const GruBlockCellSize& size :
       {GruBlockCellSize{huge, 1, huge}, GruBlockCellSize{huge, 0, 9},
        GruBlockCellSize{2, huge, huge}}) {
    forward.size = backward.size = size;
    EXPECT_EQ(this->gpu_
                  .Run([&](const Call& call) {
                    return RunGruBlockCellForward(call, this->gpu_.cublas(),
                                                  false, forward);
                  })
                  .code(),
              StatusCode::kUnimplemented);
    EXPECT_EQ(this->gpu_
                  .Run([&](const Call& call) {
                    return RunGruBlockCellBackward(call, this->gpu_.cublas(),
                                                   false, backward);
                  })
                  .code(),
              StatusCode::kUnimplemented);
  }
  EXPECT_EQ(this->gpu_.driver().CountCalls("cuLaunchKernel"), 0);
}

// Runs forward and backward steps while the first, second, ... call fails,
// until none fails, each in a new context. fail(number of preceding calls)
// makes a call fail; clear() returns whether no call failed.
template <typename T>
void ExpectEachFailureIsReported(FakeGpu<T>& gpu,
                                 const std::function<void(int)>& fail,
                                 const std::function<bool()>& clear) {
  const Case k = RandomCase<T>({3, 4, 8});
  const ForwardResult forward = gpu.Forward(k);
  const BackwardResult backward = gpu.Backward(k, forward, kAllGateGradients);
  for (bool is_backward : {false, true}) {
    for (int num_calls = 0;; ++num_calls) {
      ASSERT_LT(num_calls, 100);
      gpu.UseNewContext();
      fail(num_calls);
      ForwardResult f;
      BackwardResult b;
      const Status status =
          is_backward ? gpu.TryBackward(k, forward, kAllGateGradients, 0, &b)
                      : gpu.TryForward(k, 0, &f);
      if (clear()) {
        EXPECT_TRUE(status.ok()) << status.message();
        EXPECT_GT(num_calls, 3);
        break;
      }
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << num_calls;
      EXPECT_NE(status.message().find(" returned CU"), std::string::npos)
          << status.message();
      rnn::ExpectSameBits(gpu.Forward(k), forward);
      rnn::ExpectSameBits(gpu.Backward(k, forward, kAllGateGradients),
                          backward);
    }
  }
}

TYPED_TEST(GpuGruBlockCellTest, EachFailureOfTheDriverIsReported) {
  FakeCudaDriver& driver = this->gpu_.driver();
  ExpectEachFailureIsReported<TypeParam>(
      this->gpu_,
      [&](int num_calls) {
        driver.FailAny(CUDA_ERROR_OUT_OF_MEMORY, num_calls);
      },
      [&] { return driver.ClearFailures(); });
}

TYPED_TEST(GpuGruBlockCellTest, EachFailureOfCublasIsReported) {
  FakeCublas& cublas = this->gpu_.fake_cublas();
  ExpectEachFailureIsReported<TypeParam>(
      this->gpu_,
      [&](int num_calls) {
        cublas.FailAny(CUBLAS_STATUS_ALLOC_FAILED, num_calls);
      },
      [&] { return cublas.ClearFailures(); });
}

TYPED_TEST(GpuGruBlockCellTest, OutOfScratchMemoryIsReported) {
  const Case k = RandomCase<TypeParam>({3, 4, 8});
  const ForwardResult forward = this->gpu_.Forward(k);
  this->gpu_.driver().ClearCalls();
  this->gpu_.is_out_of_memory = true;
  ForwardResult f;
  BackwardResult b;
  EXPECT_EQ(this->gpu_.TryForward(k, 0, &f).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(this->gpu_.TryBackward(k, forward, kNoGateGradients, 0, &b).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(this->gpu_.driver().calls().empty());
}

TYPED_TEST(GpuGruBlockCellTest, MemsetFailureIsReported) {
  const Case k = RandomCase<TypeParam>({3, 4, 0});
  BackwardResult b;
  this->gpu_.driver().Fail("cuMemsetD8Async", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(this->gpu_.TryBackward(k, {}, kNoGateGradients, 0, &b).code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
