#include "cc/rnn/gru_block_cell.h"

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/simd/block_cells/block_cells.h"
#include "cc/rnn/simd/block_cells/gru_block_step_backward.h"
#include "cc/rnn/simd/block_cells/gru_block_step_forward.h"
#include "cc/rnn/simd/block_cells/step_call.h"
#include "cc/rnn/simd/vector/staging.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// The shapes of the arrays of a step.
struct Shapes {
  explicit Shapes(const BlockCellSize& size)
      : input{1, size.batch, size.input_size},
        state{1, size.batch, size.cell_size},
        gates{2, size.batch, size.cell_size},
        w_ru{2, size.input_size + size.cell_size, size.cell_size},
        w_c{1, size.input_size + size.cell_size, size.cell_size},
        b_ru{2, 1, size.cell_size},
        b_c{1, 1, size.cell_size} {}

  StagedShape input;
  StagedShape state;
  StagedShape gates;
  StagedShape w_ru;
  StagedShape w_c;
  StagedShape b_ru;
  StagedShape b_c;
};

// The products of a step backward take as long as those of a step forward.
struct TimeOfStep {
  static double Microseconds(const BlockCellSize& size) {
    return MicrosecondsOfProducts(size, /*num_products=*/3);
  }
};

template <typename T>
class ForwardCall : public TimeOfStep {
 public:
  using C = ComputeType<T>;

  ForwardCall(const GruBlockCellForward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        shapes_(a.size),
        staging_(/*time_major=*/true),
        x_(staging_.Buffer(shapes_.input, arena)),
        h_prev_(staging_.Buffer(shapes_.state, arena)),
        w_ru_(staging_.Buffer(shapes_.w_ru, arena)),
        w_c_(staging_.Buffer(shapes_.w_c, arena)),
        b_ru_(staging_.Buffer(shapes_.b_ru, arena)),
        b_c_(staging_.Buffer(shapes_.b_c, arena)),
        r_(staging_.Buffer(shapes_.state, arena)),
        u_(staging_.Buffer(shapes_.state, arena)),
        c_(staging_.Buffer(shapes_.state, arena)),
        h_(staging_.Buffer(shapes_.state, arena)),
        scratch_(a.size, num_threads, arena) {}

  void Run(Executor& executor) const {
    GruBlockStepForward<C>(
        {a_.size, staging_.Read(a_.x, x_, shapes_.input, executor),
         staging_.Read(a_.h_prev, h_prev_, shapes_.state, executor),
         staging_.Read(a_.w_ru, w_ru_, shapes_.w_ru, executor),
         staging_.Read(a_.w_c, w_c_, shapes_.w_c, executor),
         staging_.Read(a_.b_ru, b_ru_, shapes_.b_ru, executor),
         staging_.Read(a_.b_c, b_c_, shapes_.b_c, executor),
         staging_.Target(a_.r, r_), staging_.Target(a_.u, u_),
         staging_.Target(a_.c, c_), staging_.Target(a_.h, h_), nullptr},
        scratch_, executor)
        .Run();
    staging_.Write(r_, a_.r, shapes_.state, executor);
    staging_.Write(u_, a_.u, shapes_.state, executor);
    staging_.Write(c_, a_.c, shapes_.state, executor);
    staging_.Write(h_, a_.h, shapes_.state, executor);
  }

 private:
  const GruBlockCellForward<T>& a_;
  const Shapes shapes_;
  const Staging<T> staging_;
  C* const x_;
  C* const h_prev_;
  C* const w_ru_;
  C* const w_c_;
  C* const b_ru_;
  C* const b_c_;
  C* const r_;
  C* const u_;
  C* const c_;
  C* const h_;
  const GruBlockStepForwardScratch<C> scratch_;
};

template <typename T>
class BackwardCall : public TimeOfStep {
 public:
  using C = ComputeType<T>;

  BackwardCall(const GruBlockCellBackward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        shapes_(a.size),
        staging_(/*time_major=*/true),
        h_prev_(staging_.Buffer(shapes_.state, arena)),
        w_ru_(staging_.Buffer(shapes_.w_ru, arena)),
        w_c_(staging_.Buffer(shapes_.w_c, arena)),
        r_(staging_.Buffer(shapes_.state, arena)),
        u_(staging_.Buffer(shapes_.state, arena)),
        c_(staging_.Buffer(shapes_.state, arena)),
        d_r_(staging_.Buffer(shapes_.state, arena)),
        d_u_(staging_.Buffer(shapes_.state, arena)),
        d_c_(staging_.Buffer(shapes_.state, arena)),
        d_h_(staging_.Buffer(shapes_.state, arena)),
        d_x_(staging_.Buffer(shapes_.input, arena)),
        d_h_prev_(staging_.Buffer(shapes_.state, arena)),
        d_c_bar_(staging_.Buffer(shapes_.state, arena)),
        d_r_bar_u_bar_(staging_.Buffer(shapes_.gates, arena)),
        scratch_(a.size, num_threads, arena) {}

  void Run(Executor& executor) const {
    GruBlockStepBackward<C>(
        {a_.size, staging_.Read(a_.h_prev, h_prev_, shapes_.state, executor),
         staging_.Read(a_.w_ru, w_ru_, shapes_.w_ru, executor),
         staging_.Read(a_.w_c, w_c_, shapes_.w_c, executor),
         staging_.Read(a_.r, r_, shapes_.state, executor),
         staging_.Read(a_.u, u_, shapes_.state, executor),
         staging_.Read(a_.c, c_, shapes_.state, executor),
         staging_.Read(a_.d_r, d_r_, shapes_.state, executor),
         staging_.Read(a_.d_u, d_u_, shapes_.state, executor),
         staging_.Read(a_.d_c, d_c_, shapes_.state, executor),
         staging_.Read(a_.d_h, d_h_, shapes_.state, executor),
         staging_.Target(a_.d_x, d_x_), staging_.Target(a_.d_h_prev, d_h_prev_),
         staging_.Target(a_.d_c_bar, d_c_bar_),
         staging_.Target(a_.d_r_bar_u_bar, d_r_bar_u_bar_), nullptr},
        scratch_, executor)
        .Run();
    staging_.Write(d_x_, a_.d_x, shapes_.input, executor);
    staging_.Write(d_h_prev_, a_.d_h_prev, shapes_.state, executor);
    staging_.Write(d_c_bar_, a_.d_c_bar, shapes_.state, executor);
    staging_.Write(d_r_bar_u_bar_, a_.d_r_bar_u_bar, shapes_.gates, executor);
  }

 private:
  const GruBlockCellBackward<T>& a_;
  const Shapes shapes_;
  const Staging<T> staging_;
  C* const h_prev_;
  C* const w_ru_;
  C* const w_c_;
  C* const r_;
  C* const u_;
  C* const c_;
  C* const d_r_;
  C* const d_u_;
  C* const d_c_;
  C* const d_h_;
  C* const d_x_;
  C* const d_h_prev_;
  C* const d_c_bar_;
  C* const d_r_bar_u_bar_;
  const GruBlockStepBackwardScratch<C> scratch_;
};

template <typename T>
void Forward(const GruBlockCellForward<T>& a, Executor& executor) {
  if (!HasNoState(a.size)) RunStep<ForwardCall<T>>(a, executor);
}

template <typename T>
void Backward(const GruBlockCellBackward<T>& a, Executor& executor) {
  if (HasNoState(a.size)) {
    FillZero(a.d_x, a.size.batch * a.size.input_size, executor);
  } else {
    RunStep<BackwardCall<T>>(a, executor);
  }
}

template <typename T>
GruBlockCellKernels<T> Kernels() {
  return {&StepWorkspace<ForwardCall<T>, GruBlockCellForward<T>>,
          &StepWorkspace<BackwardCall<T>, GruBlockCellBackward<T>>, &Forward<T>,
          &Backward<T>};
}

}  // namespace

template <>
GruBlockCellKernels<float> GruBlockCell<float>() {
  return Kernels<float>();
}
template <>
GruBlockCellKernels<double> GruBlockCell<double>() {
  return Kernels<double>();
}
template <>
GruBlockCellKernels<Half> GruBlockCell<Half>() {
  return Kernels<Half>();
}
template <>
GruBlockCellKernels<BFloat16> GruBlockCell<BFloat16>() {
  return Kernels<BFloat16>();
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
