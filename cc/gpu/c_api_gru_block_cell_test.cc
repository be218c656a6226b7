// GRUBlockCell through the C interface.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "cc/gpu/c_api.h"
#include "cc/gpu/c_api_test_support.h"
#include "cc/rnn/gru_block_cell_reference.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Array;
using rnn::kTolerance;

// The step and arrays of a case, with values rounded to T.
template <typename T>
class CaseStep {
 public:
  explicit CaseStep(const rnn::GruBlockCellSize& size)
      : k_(rnn::RandomCase(size, 1)) {
    for (Array* array : {&k_.x, &k_.h_prev, &k_.w_ru, &k_.w_c, &k_.b_ru,
                         &k_.b_c, &k_.d_r, &k_.d_u, &k_.d_c, &k_.d_h}) {
      rnn::Rounded<T>(*array);
    }
    forward_ = rnn::ReferenceForward(k_);
    for (Array* array : {&forward_.r, &forward_.u, &forward_.c, &forward_.h}) {
      rnn::Rounded<T>(*array);
    }
  }

  rnn::ForwardResult ExpectedForward() const {
    return rnn::ReferenceForward(k_);
  }
  rnn::ForwardResult Forward() {
    const auto [batch, input_size, cell_size] = k_.size;
    const Array& state = k_.h_prev;
    T* const results[] = {gpu_.Like<T>(state), gpu_.Like<T>(state),
                          gpu_.Like<T>(state), gpu_.Like<T>(state)};
    const TfRnnOpsGpu_GruCellForward step = {batch,
                                             input_size,
                                             cell_size,
                                             gpu_.Copy<T>(k_.x),
                                             gpu_.Copy<T>(k_.h_prev),
                                             gpu_.Copy<T>(k_.w_ru),
                                             gpu_.Copy<T>(k_.w_c),
                                             gpu_.Copy<T>(k_.b_ru),
                                             gpu_.Copy<T>(k_.b_c),
                                             results[0],
                                             results[1],
                                             results[2],
                                             results[3]};
    const TfRnnOpsGpu_Call call = gpu_.Call();
    ExpectOk(TfRnnOpsGpu_RunGruCellForward(kType<T>, &call, &step));
    return {ToDoubles(results[0], state.size()),
            ToDoubles(results[1], state.size()),
            ToDoubles(results[2], state.size()),
            ToDoubles(results[3], state.size())};
  }

  rnn::BackwardResult ExpectedBackward(bool has_gate_gradients) const {
    rnn::Case k = k_;
    if (!has_gate_gradients) {
      k.d_r = k.d_u = k.d_c = Array(k.d_h.size());
    }
    return rnn::ReferenceBackward(k, forward_);
  }
  rnn::BackwardResult Backward(bool has_gate_gradients) {
    const auto [batch, input_size, cell_size] = k_.size;
    const auto gradient = [&](const Array& values) {
      return has_gate_gradients ? gpu_.Copy<T>(values) : nullptr;
    };
    const Array bars(2 * k_.h_prev.size());
    T* const d_x = gpu_.Like<T>(k_.x);
    T* const d_h_prev = gpu_.Like<T>(k_.h_prev);
    T* const d_c_bar = gpu_.Like<T>(k_.h_prev);
    T* const d_r_bar_u_bar = gpu_.Like<T>(bars);
    const TfRnnOpsGpu_GruCellBackward step = {batch,
                                              input_size,
                                              cell_size,
                                              gpu_.Copy<T>(k_.h_prev),
                                              gpu_.Copy<T>(k_.w_ru),
                                              gpu_.Copy<T>(k_.w_c),
                                              gpu_.Copy<T>(forward_.r),
                                              gpu_.Copy<T>(forward_.u),
                                              gpu_.Copy<T>(forward_.c),
                                              gradient(k_.d_r),
                                              gradient(k_.d_u),
                                              gradient(k_.d_c),
                                              gpu_.Copy<T>(k_.d_h),
                                              d_x,
                                              d_h_prev,
                                              d_c_bar,
                                              d_r_bar_u_bar};
    const TfRnnOpsGpu_Call call = gpu_.Call();
    ExpectOk(TfRnnOpsGpu_RunGruCellBackward(kType<T>, &call, &step));
    return {ToDoubles(d_x, k_.x.size()), ToDoubles(d_h_prev, k_.h_prev.size()),
            ToDoubles(d_c_bar, k_.h_prev.size()),
            ToDoubles(d_r_bar_u_bar, bars.size())};
  }

 private:
  Gpu gpu_;
  rnn::Case k_;
  rnn::ForwardResult forward_;
};

template <typename T>
class CApiGruCellTest : public CApiTest {};
TYPED_TEST_SUITE(CApiGruCellTest, rnn::StorageTypes);

TYPED_TEST(CApiGruCellTest, StepsEqualTheReference) {
  for (const rnn::GruBlockCellSize& size : rnn::kGruBlockCellSizes) {
    CaseStep<TypeParam> step(size);
    rnn::ExpectClose(step.Forward(), step.ExpectedForward(),
                     kTolerance<TypeParam>);
    for (bool has_gate_gradients : {false, true}) {
      rnn::ExpectClose(step.Backward(has_gate_gradients),
                       step.ExpectedBackward(has_gate_gradients),
                       kTolerance<TypeParam>);
    }
  }
}

// ---------------------------------------------------------------------------
// Invalid arguments

class CApiGruCellArgumentsTest : public CApiTest {
 protected:
  void* Array() { return gpu_.Allocate(100 * sizeof(float)); }
  int Forward() {
    return TfRnnOpsGpu_RunGruCellForward(type_, &call_, &forward_);
  }
  int Backward() {
    return TfRnnOpsGpu_RunGruCellBackward(type_, &call_, &backward_);
  }

  Gpu gpu_;
  int type_ = TF_RNN_OPS_GPU_FLOAT;
  TfRnnOpsGpu_Call call_ = gpu_.Call();
  TfRnnOpsGpu_GruCellForward forward_ = {
      2,       3,       4,       Array(), Array(), Array(), Array(),
      Array(), Array(), Array(), Array(), Array(), Array()};
  TfRnnOpsGpu_GruCellBackward backward_ = {
      2,       3,       4,       Array(), Array(), Array(),
      Array(), Array(), Array(), nullptr, nullptr, nullptr,
      Array(), Array(), Array(), Array(), Array()};
};

TEST_F(CApiGruCellArgumentsTest, RejectsAForwardStepWithAMissingArray) {
  using Step = TfRnnOpsGpu_GruCellForward;
  const auto run = [this] { return Forward(); };
  ExpectNeeds(&forward_, &Step::x, "x", 6, run);
  ExpectNeeds(&forward_, &Step::h_prev, "h_prev", 8, run);
  ExpectNeeds(&forward_, &Step::w_ru, "w_ru", 56, run);
  ExpectNeeds(&forward_, &Step::w_c, "w_c", 28, run);
  ExpectNeeds(&forward_, &Step::b_ru, "b_ru", 8, run);
  ExpectNeeds(&forward_, &Step::b_c, "b_c", 4, run);
  ExpectNeeds(&forward_, &Step::r, "r", 8, run);
  ExpectNeeds(&forward_, &Step::u, "u", 8, run);
  ExpectNeeds(&forward_, &Step::c, "c", 8, run);
  ExpectNeeds(&forward_, &Step::h, "h", 8, run);
  ExpectOk(Forward());
}

TEST_F(CApiGruCellArgumentsTest, RejectsABackwardStepWithAMissingArray) {
  using Step = TfRnnOpsGpu_GruCellBackward;
  const auto run = [this] { return Backward(); };
  ExpectNeeds(&backward_, &Step::h_prev, "h_prev", 8, run);
  ExpectNeeds(&backward_, &Step::w_ru, "w_ru", 56, run);
  ExpectNeeds(&backward_, &Step::w_c, "w_c", 28, run);
  ExpectNeeds(&backward_, &Step::r, "r", 8, run);
  ExpectNeeds(&backward_, &Step::u, "u", 8, run);
  ExpectNeeds(&backward_, &Step::c, "c", 8, run);
  ExpectNeeds(&backward_, &Step::d_h, "d_h", 8, run);
  ExpectNeeds(&backward_, &Step::d_x, "d_x", 6, run);
  ExpectNeeds(&backward_, &Step::d_h_prev, "d_h_prev", 8, run);
  ExpectNeeds(&backward_, &Step::d_c_bar, "d_c_bar", 8, run);
  ExpectNeeds(&backward_, &Step::d_r_bar_u_bar, "d_r_bar_u_bar", 16, run);
  ExpectOk(Backward());
}

TEST_F(CApiGruCellArgumentsTest, RejectsInvalidTypesSizesAndNull) {
  type_ = 7;
  ExpectInvalid(Forward(), "type must be between 0 and 3, but is 7");
  ExpectInvalid(Backward(), "type must be between 0 and 3, but is 7");
  type_ = TF_RNN_OPS_GPU_FLOAT;
  ExpectInvalid(TfRnnOpsGpu_RunGruCellForward(type_, nullptr, &forward_),
                "call must not be null");
  ExpectInvalid(TfRnnOpsGpu_RunGruCellForward(type_, &call_, nullptr),
                "step must not be null");
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const struct {
    std::int64_t batch, input_size, cell_size;
    const char* message;
  } cases[] = {
      {-1, 3, 4, "batch must be at least 0, but is -1"},
      {2, -3, 4, "input_size must be at least 0, but is -3"},
      {2, 3, -4, "cell_size must be at least 0, but is -4"},
      {kMax, 3, 4,
       "h_prev is too large: its size in bytes must fit in 64 bits"},
      {2, 3, kMax / 64,
       "w_ru is too large: its size in bytes must fit in 64 bits"},
  };
  for (const auto& [batch, input_size, cell_size, message] : cases) {
    backward_.batch = batch;
    backward_.input_size = input_size;
    backward_.cell_size = cell_size;
    ExpectInvalid(Backward(), message);
  }
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
