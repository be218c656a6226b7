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
struct ForwardCall : TimeOfStep {
  using C = ComputeType<T>;

  struct Memory {
    Memory(const GruBlockCellForward<T>& a, int num_threads, Arena& arena)
        : shapes(a.size),
          x(a.x, &shapes.input, &kNetworksLayout, arena),
          h_prev(a.h_prev, &shapes.state, &kNetworksLayout, arena),
          w_ru(a.w_ru, &shapes.w_ru, &kNetworksLayout, arena),
          w_c(a.w_c, &shapes.w_c, &kNetworksLayout, arena),
          b_ru(a.b_ru, &shapes.b_ru, &kNetworksLayout, arena),
          b_c(a.b_c, &shapes.b_c, &kNetworksLayout, arena),
          r(a.r, &shapes.state, &kNetworksLayout, arena),
          u(a.u, &shapes.state, &kNetworksLayout, arena),
          c(a.c, &shapes.state, &kNetworksLayout, arena),
          h(a.h, &shapes.state, &kNetworksLayout, arena),
          step(a.size, num_threads, arena) {}

    const Shapes shapes;
    const StagedArray<const T> x, h_prev, w_ru, w_c, b_ru, b_c;
    const StagedArray<T> r, u, c, h;
    const GruBlockStepForwardScratch<C> step;
  };

  static void Run(const GruBlockCellForward<T>& a, const Memory& memory,
                  Executor& executor) {
    GruBlockCellForward<C> step{};
    step.size = a.size;
    step.x = memory.x.Read(executor);
    step.h_prev = memory.h_prev.Read(executor);
    step.w_ru = memory.w_ru.Read(executor);
    step.w_c = memory.w_c.Read(executor);
    step.b_ru = memory.b_ru.Read(executor);
    step.b_c = memory.b_c.Read(executor);
    step.r = memory.r.Target();
    step.u = memory.u.Target();
    step.c = memory.c.Target();
    step.h = memory.h.Target();
    GruBlockStepForward<C>(step, memory.step, executor).Run();
    for (const StagedArray<T>* const result :
         {&memory.r, &memory.u, &memory.c, &memory.h}) {
      result->Write(executor);
    }
  }
};

template <typename T>
struct BackwardCall : TimeOfStep {
  using C = ComputeType<T>;

  struct Memory {
    Memory(const GruBlockCellBackward<T>& a, int num_threads, Arena& arena)
        : shapes(a.size),
          h_prev(a.h_prev, &shapes.state, &kNetworksLayout, arena),
          w_ru(a.w_ru, &shapes.w_ru, &kNetworksLayout, arena),
          w_c(a.w_c, &shapes.w_c, &kNetworksLayout, arena),
          r(a.r, &shapes.state, &kNetworksLayout, arena),
          u(a.u, &shapes.state, &kNetworksLayout, arena),
          c(a.c, &shapes.state, &kNetworksLayout, arena),
          d_r(a.d_r, &shapes.state, &kNetworksLayout, arena),
          d_u(a.d_u, &shapes.state, &kNetworksLayout, arena),
          d_c(a.d_c, &shapes.state, &kNetworksLayout, arena),
          d_h(a.d_h, &shapes.state, &kNetworksLayout, arena),
          d_x(a.d_x, &shapes.input, &kNetworksLayout, arena),
          d_h_prev(a.d_h_prev, &shapes.state, &kNetworksLayout, arena),
          d_c_bar(a.d_c_bar, &shapes.state, &kNetworksLayout, arena),
          d_r_bar_u_bar(a.d_r_bar_u_bar, &shapes.gates, &kNetworksLayout,
                        arena),
          step(a.size, num_threads, arena) {}

    const Shapes shapes;
    const StagedArray<const T> h_prev, w_ru, w_c, r, u, c, d_r, d_u, d_c, d_h;
    const StagedArray<T> d_x, d_h_prev, d_c_bar, d_r_bar_u_bar;
    const GruBlockStepBackwardScratch<C> step;
  };

  static void Run(const GruBlockCellBackward<T>& a, const Memory& memory,
                  Executor& executor) {
    GruBlockCellBackward<C> step{};
    step.size = a.size;
    step.h_prev = memory.h_prev.Read(executor);
    step.w_ru = memory.w_ru.Read(executor);
    step.w_c = memory.w_c.Read(executor);
    step.r = memory.r.Read(executor);
    step.u = memory.u.Read(executor);
    step.c = memory.c.Read(executor);
    step.d_r = memory.d_r.Read(executor);
    step.d_u = memory.d_u.Read(executor);
    step.d_c = memory.d_c.Read(executor);
    step.d_h = memory.d_h.Read(executor);
    step.d_x = memory.d_x.Target();
    step.d_h_prev = memory.d_h_prev.Target();
    step.d_c_bar = memory.d_c_bar.Target();
    step.d_r_bar_u_bar = memory.d_r_bar_u_bar.Target();
    GruBlockStepBackward<C>(step, memory.step, executor).Run();
    for (const StagedArray<T>* const result :
         {&memory.d_x, &memory.d_h_prev, &memory.d_c_bar,
          &memory.d_r_bar_u_bar}) {
      result->Write(executor);
    }
  }
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
