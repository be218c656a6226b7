// The engine on a fake GPU, with the GPU kernels compiled for the host.

#include "cc/gpu/gru_block_cell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "cc/gpu/fakes/fake_gpu.h"
#include "cc/rnn/gru_block_cell_reference.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;
using rnn::BackwardResult;
using rnn::BlockCellSize;
using rnn::Case;
using rnn::ForwardResult;
using rnn::kTolerance;
using rnn::ReferenceBackward;
using rnn::ReferenceForward;

// Runs steps on a fake GPU.
template <typename T>
class GpuCell {
 public:
  // offset: of each array in its allocation, in elements.
  Status TryForward(const Case& k, std::size_t offset, ForwardResult* result) {
    const std::int64_t state = k.size.batch * k.size.cell_size;
    FakeArrays<T> arrays(&gpu, offset);
    rnn::GruBlockCellForward<T> step{};
    step.size = k.size;
    step.x = arrays.In(k.x);
    step.h_prev = arrays.In(k.h_prev);
    step.w_ru = arrays.In(k.w_ru);
    step.w_c = arrays.In(k.w_c);
    step.b_ru = arrays.In(k.b_ru);
    step.b_c = arrays.In(k.b_c);
    step.r = arrays.Out(state, &result->r);
    step.u = arrays.Out(state, &result->u);
    step.c = arrays.Out(state, &result->c);
    step.h = arrays.Out(state, &result->h);
    TF_RNN_OPS_RETURN_IF_ERROR(Run(step));
    arrays.Read();
    return Status();
  }

  Status TryBackward(const Case& k, const ForwardResult& forward,
                     std::size_t offset, BackwardResult* result) {
    const std::int64_t state = k.size.batch * k.size.cell_size;
    FakeArrays<T> arrays(&gpu, offset);
    rnn::GruBlockCellBackward<T> step{};
    step.size = k.size;
    step.h_prev = arrays.In(k.h_prev);
    step.w_ru = arrays.In(k.w_ru);
    step.w_c = arrays.In(k.w_c);
    step.r = arrays.In(forward.r);
    step.u = arrays.In(forward.u);
    step.c = arrays.In(forward.c);
    step.d_r = arrays.In(k.d_r);
    step.d_u = arrays.In(k.d_u);
    step.d_c = arrays.In(k.d_c);
    step.d_h = arrays.In(k.d_h);
    step.d_x = arrays.Out(k.x.size(), &result->d_x);
    step.d_h_prev = arrays.Out(state, &result->d_h_prev);
    step.d_c_bar = arrays.Out(state, &result->d_c_bar);
    step.d_r_bar_u_bar = arrays.Out(2 * state, &result->d_r_bar_u_bar);
    TF_RNN_OPS_RETURN_IF_ERROR(Run(step));
    arrays.Read();
    return Status();
  }

  ForwardResult Forward(const Case& k, std::size_t offset = 0) {
    ForwardResult result;
    const Status status = TryForward(k, offset, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }
  BackwardResult Backward(const Case& k, const ForwardResult& forward,
                          std::size_t offset = 0) {
    BackwardResult result;
    const Status status = TryBackward(k, forward, offset, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    return result;
  }

  Status Run(const rnn::GruBlockCellForward<T>& step) {
    FakeScratchAllocator scratch(&gpu.driver());
    return RunGruBlockCellForward(gpu.Call(&scratch), gpu.cublas(), allow_tf32,
                                  step);
  }
  Status Run(const rnn::GruBlockCellBackward<T>& step) {
    FakeScratchAllocator scratch(&gpu.driver());
    return RunGruBlockCellBackward(gpu.Call(&scratch), gpu.cublas(), allow_tf32,
                                   step);
  }

  FakeGpu gpu;
  bool allow_tf32 = false;
};

// A case with values rounded to T.
template <typename T>
Case RandomCase(const BlockCellSize& size) {
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

template <typename T>
void ForEachSize(const std::function<void(const Case&)>& check) {
  for (const BlockCellSize& size : rnn::kGruBlockCellSizes) {
    SCOPED_TRACE("batch " + std::to_string(size.batch) + " input_size " +
                 std::to_string(size.input_size) + " cell_size " +
                 std::to_string(size.cell_size));
    check(RandomCase<T>(size));
  }
}

template <typename T>
class GpuGruBlockCellTest : public testing::Test {
 protected:
  GpuCell<T> cell_;
};
TYPED_TEST_SUITE(GpuGruBlockCellTest, rnn::StorageTypes);

TYPED_TEST(GpuGruBlockCellTest, ForwardEqualsTheReference) {
  ForEachSize<TypeParam>([&](const Case& k) {
    rnn::ExpectClose(this->cell_.Forward(k), ReferenceForward(k),
                     kTolerance<TypeParam>);
  });
}

TYPED_TEST(GpuGruBlockCellTest, BackwardEqualsTheReference) {
  ForEachSize<TypeParam>([&](const Case& k) {
    const ForwardResult forward = RoundedForward<TypeParam>(k);
    // The gradients of gates that are given, as bits. Others are null.
    for (unsigned given : {0, 1, 2, 4, 7}) {
      Case some = k, zeros = k;
      for (Array Case::* gate : {&Case::d_r, &Case::d_u, &Case::d_c}) {
        if ((given & 1) == 0) {
          (some.*gate).clear();
          (zeros.*gate).assign((k.*gate).size(), 0);
        }
        given /= 2;
      }
      rnn::ExpectClose(this->cell_.Backward(some, forward),
                       ReferenceBackward(zeros, forward),
                       kTolerance<TypeParam>);
    }
  });
}

TYPED_TEST(GpuGruBlockCellTest, BitsDoNotDependOnAlignment) {
  // Some sizes allow vector access, others do not.
  ForEachSize<TypeParam>([&](const Case& k) {
    const ForwardResult forward = this->cell_.Forward(k);
    const BackwardResult backward = this->cell_.Backward(k, forward);
    for (std::size_t offset : {1, 8}) {
      rnn::ExpectSameBits(this->cell_.Forward(k, offset), forward);
      rnn::ExpectSameBits(this->cell_.Backward(k, forward, offset), backward);
    }
  });
}

TYPED_TEST(GpuGruBlockCellTest, TakesFiveLaunches) {
  const Case k = RandomCase<TypeParam>({3, 4, 8});
  const ForwardResult forward = this->cell_.Forward(k);
  EXPECT_EQ(this->cell_.gpu.driver().CountCalls("cuLaunchKernel"), 3);
  EXPECT_EQ(this->cell_.gpu.fake_cublas().computed().size(), 2);
  this->cell_.Backward(k, forward);
  EXPECT_EQ(this->cell_.gpu.driver().CountCalls("cuLaunchKernel"), 6);
  EXPECT_EQ(this->cell_.gpu.fake_cublas().computed().size(), 4);
  EXPECT_EQ(this->cell_.gpu.driver().loaded_images().size(), 1);
}

TYPED_TEST(GpuGruBlockCellTest, EmptyArraysLaunchNoKernels) {
  for (const BlockCellSize& size :
       {BlockCellSize{0, 3, 4}, BlockCellSize{3, 4, 0},
        BlockCellSize{0, 0, 0}}) {
    const Case k = RandomCase<TypeParam>(size);
    const ForwardResult forward = this->cell_.Forward(k);
    this->cell_.Backward(k, forward);
  }
  EXPECT_EQ(this->cell_.gpu.driver().CountCalls("cuLaunchKernel"), 0);
  EXPECT_EQ(this->cell_.gpu.fake_cublas().num_handles(), 0);
}

TYPED_TEST(GpuGruBlockCellTest, UsesTf32OnlyIfAllowed) {
  const Case k = RandomCase<TypeParam>({3, 4, 8});
  for (bool allow_tf32 : {false, true}) {
    this->cell_.allow_tf32 = allow_tf32;
    this->cell_.Backward(k, this->cell_.Forward(k));
  }
  const auto computed = this->cell_.gpu.fake_cublas().computed();
  const auto count = std::count(computed.begin(), computed.end(),
                                CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(count, (std::is_same_v<TypeParam, float> ? 4 : 0));
}

TYPED_TEST(GpuGruBlockCellTest, SpecialValuesPropagate) {
  const double inf = std::numeric_limits<double>::infinity();
  Case k = RandomCase<TypeParam>({3, 2, 20});
  for (double value : {inf, -inf, std::numeric_limits<double>::quiet_NaN()}) {
    std::fill(k.b_ru.begin(), k.b_ru.end(), value);
    const ForwardResult f = this->cell_.Forward(k);
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
  for (const BlockCellSize& size :
       {BlockCellSize{huge, 1, huge}, BlockCellSize{huge, 0, 9},
        BlockCellSize{2, huge, huge}}) {
    forward.size = backward.size = size;
    EXPECT_EQ(this->cell_.Run(forward).code(), StatusCode::kUnimplemented);
    EXPECT_EQ(this->cell_.Run(backward).code(), StatusCode::kUnimplemented);
  }
  EXPECT_EQ(this->cell_.gpu.driver().CountCalls("cuLaunchKernel"), 0);
}

// Each in a new context, without loaded code and handle. Out of memory includes
// scratch memory.
template <typename T, typename Library, typename Error>
void ExpectFailuresAreReported(GpuCell<T>& cell, Library& library,
                               Error error) {
  const Case k = RandomCase<T>({3, 4, 8});
  const ForwardResult forward = cell.Forward(k);
  const BackwardResult backward = cell.Backward(k, forward);
  for (bool is_backward : {false, true}) {
    const int failures = ExpectEachFailureIsReported(
        library, error, StatusCode::kResourceExhausted, {" returned CU"},
        [&] {
          ForwardResult f;
          BackwardResult b;
          return is_backward ? cell.TryBackward(k, forward, 0, &b)
                             : cell.TryForward(k, 0, &f);
        },
        [&] { cell.gpu.UseNewContext(); },
        [&] {
          rnn::ExpectSameBits(cell.Forward(k), forward);
          rnn::ExpectSameBits(cell.Backward(k, forward), backward);
        });
    EXPECT_GT(failures, 3);
  }
}

TYPED_TEST(GpuGruBlockCellTest, EachFailureIsReported) {
  FakeGpu& gpu = this->cell_.gpu;
  ExpectFailuresAreReported(this->cell_, gpu.driver(),
                            CUDA_ERROR_OUT_OF_MEMORY);
  ExpectFailuresAreReported(this->cell_, gpu.fake_cublas(),
                            CUBLAS_STATUS_ALLOC_FAILED);
}

TYPED_TEST(GpuGruBlockCellTest, MemsetFailureIsReported) {
  const Case k = RandomCase<TypeParam>({3, 4, 0});
  BackwardResult b;
  this->cell_.gpu.driver().Fail("cuMemsetD8Async", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(this->cell_.TryBackward(k, {}, 0, &b).code(),
            StatusCode::kInternal);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
