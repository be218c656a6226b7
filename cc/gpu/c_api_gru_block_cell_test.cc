// GRUBlockCell by the C interface.

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

// A case's step and arrays, with values that T can hold.
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

}  // namespace
}  // namespace tf_rnn_ops::gpu
