#include "cc/rnn/lstm_block_cell.h"

#include <cstdint>

#include "cc/rnn/arena.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/kept.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/simd/block_cells/block_cells.h"
#include "cc/rnn/simd/block_cells/lstm_block_step.h"
#include "cc/rnn/simd/block_cells/step_call.h"
#include "cc/rnn/simd/vector/staging.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET {
namespace {

// The shapes of the arrays of a step.
struct Shapes {
  explicit Shapes(const BlockCellSize& size)
      : input{1, size.batch, size.input_size},
        state{1, size.batch, size.cell_size},
        gates{kLstmGates, size.batch, size.cell_size},
        w{kLstmGates, size.input_size + size.cell_size, size.cell_size},
        b{kLstmGates, 1, size.cell_size},
        peephole{1, 1, size.cell_size} {}

  StagedShape input;
  StagedShape state;
  StagedShape gates;
  StagedShape w;
  StagedShape b;
  StagedShape peephole;
};

template <typename T>
struct ForwardCall {
  using C = ComputeType<T>;

  static double Microseconds(const BlockCellSize& size) {
    return MicrosecondsOfProducts(size, kLstmGates);
  }

  struct Memory {
    Memory(const LstmBlockCellForward<T>& a, int num_threads, Arena& arena)
        : shapes(a.size),
          x(a.x, &shapes.input, &kNetworksLayout, arena),
          c_prev(a.c_prev, &shapes.state, &kNetworksLayout, arena),
          h_prev(a.h_prev, &shapes.state, &kNetworksLayout, arena),
          w(a.w, &shapes.w, &kNetworksLayout, arena),
          b(a.b, &shapes.b, &kNetworksLayout, arena),
          peepholes(a.peepholes, &shapes.peephole, &kNetworksLayout, arena),
          activations(a.activations, &shapes.state, &kNetworksLayout, arena),
          h(a.h, &shapes.state, &kNetworksLayout, arena),
          step(a.size, num_threads, arena) {}

    const Shapes shapes;
    const StagedArray<const T> x, c_prev, h_prev, w, b;
    const StagedArrays<Peepholes, const T> peepholes;
    const StagedArrays<LstmActivations, T> activations;
    const StagedArray<T> h;
    const LstmBlockStepForwardScratch<C> step;
  };

  static void Run(const LstmBlockCellForward<T>& a, const Memory& memory,
                  Executor& executor) {
    LstmBlockCellForward<C> step{};
    step.size = a.size;
    step.options = a.options;
    step.x = memory.x.Read(executor);
    step.c_prev = memory.c_prev.Read(executor);
    step.h_prev = memory.h_prev.Read(executor);
    step.w = memory.w.Read(executor);
    step.b = memory.b.Read(executor);
    step.peepholes = memory.peepholes.Read(executor);
    step.activations = memory.activations.Target();
    step.h = memory.h.Target();
    LstmBlockStepForward<C>(step, memory.step, executor).Run();
    memory.activations.Write(executor);
    memory.h.Write(executor);
  }
};

template <typename T>
struct BackwardCall {
  using C = ComputeType<T>;

  static double Microseconds(const BlockCellSize& size) {
    constexpr double kCellsPerMicrosecond = 300;
    return static_cast<double>(size.batch) *
           static_cast<double>(size.cell_size) / kCellsPerMicrosecond;
  }

  struct Memory {
    Memory(const LstmBlockCellBackward<T>& a, int /*num_threads*/, Arena& arena)
        : shapes(a.size),
          c_prev(a.c_prev, &shapes.state, &kNetworksLayout, arena),
          peepholes(a.peepholes, &shapes.peephole, &kNetworksLayout, arena),
          activations(a.activations, &shapes.state, &kNetworksLayout, arena),
          d_c(a.d_c, &shapes.state, &kNetworksLayout, arena),
          d_h(a.d_h, &shapes.state, &kNetworksLayout, arena),
          d_c_prev(a.d_c_prev, &shapes.state, &kNetworksLayout, arena),
          d_gates(a.d_gates, &shapes.gates, &kNetworksLayout, arena),
          d_peepholes(a.d_peepholes, &shapes.peephole, &kNetworksLayout,
                      arena) {}

    const Shapes shapes;
    const StagedArray<const T> c_prev;
    const StagedArrays<Peepholes, const T> peepholes;
    const StagedArrays<LstmActivations, const T> activations;
    const StagedArray<const T> d_c, d_h;
    const StagedArray<T> d_c_prev, d_gates;
    const StagedArrays<Peepholes, T> d_peepholes;
  };

  static void Run(const LstmBlockCellBackward<T>& a, const Memory& memory,
                  Executor& executor) {
    LstmBlockCellBackward<C> step{};
    step.size = a.size;
    step.options = a.options;
    step.c_prev = memory.c_prev.Read(executor);
    step.peepholes = memory.peepholes.Read(executor);
    step.activations = memory.activations.Read(executor);
    step.d_c = memory.d_c.Read(executor);
    step.d_h = memory.d_h.Read(executor);
    step.d_c_prev = memory.d_c_prev.Target();
    step.d_gates = memory.d_gates.Target();
    step.d_peepholes = memory.d_peepholes.Target();
    RunLstmBlockStepBackward<C>(step, executor);
    memory.d_c_prev.Write(executor);
    memory.d_gates.Write(executor);
    memory.d_peepholes.Write(executor);
  }
};

template <typename T>
void Forward(const LstmBlockCellForward<T>& a, Executor& executor) {
  if (!HasNoState(a.size)) RunStep<ForwardCall<T>>(a, executor);
}

template <typename T>
void Backward(const LstmBlockCellBackward<T>& a, Executor& executor) {
  if (!HasNoState(a.size)) {
    RunStep<BackwardCall<T>>(a, executor);
    return;
  }
  for (T* const peephole : a.d_peepholes.arrays) {
    if (peephole != nullptr) FillZero(peephole, a.size.cell_size, executor);
  }
}

template <typename T>
LstmBlockCellKernels<T> Kernels() {
  return {&StepWorkspace<ForwardCall<T>, LstmBlockCellForward<T>>,
          &StepWorkspace<BackwardCall<T>, LstmBlockCellBackward<T>>,
          &Forward<T>, &Backward<T>};
}

}  // namespace

template <>
LstmBlockCellKernels<float> LstmBlockCell<float>() {
  return Kernels<float>();
}
template <>
LstmBlockCellKernels<double> LstmBlockCell<double>() {
  return Kernels<double>();
}
template <>
LstmBlockCellKernels<Half> LstmBlockCell<Half>() {
  return Kernels<Half>();
}
template <>
LstmBlockCellKernels<BFloat16> LstmBlockCell<BFloat16>() {
  return Kernels<BFloat16>();
}

}  // namespace tf_rnn_ops::rnn::TF_RNN_OPS_INSTRUCTION_SET
