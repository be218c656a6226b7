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

StagedShape StateShape(const BlockCellSize& size) {
  return {1, size.batch, size.cell_size};
}
StagedShape PeepholeShape(const BlockCellSize& size) {
  return {1, 1, size.cell_size};
}

template <typename T>
class ForwardCall {
 public:
  using C = ComputeType<T>;

  static double Microseconds(const BlockCellSize& size) {
    return MicrosecondsOfProducts(size, kLstmGates);
  }

  ForwardCall(const LstmBlockCellForward<T>& a, int num_threads, Arena& arena)
      : a_(a),
        input_{1, a.size.batch, a.size.input_size},
        state_(StateShape(a.size)),
        w_shape_{kLstmGates, a.size.input_size + a.size.cell_size,
                 a.size.cell_size},
        b_shape_{kLstmGates, 1, a.size.cell_size},
        x_(staging_.Buffer(input_, arena)),
        c_prev_(staging_.Buffer(state_, arena)),
        h_prev_(staging_.Buffer(state_, arena)),
        w_(staging_.Buffer(w_shape_, arena)),
        b_(staging_.Buffer(b_shape_, arena)),
        peepholes_(a.peepholes, PeepholeShape(a.size), arena),
        activations_(a.activations, state_, arena),
        h_(staging_.BufferIfAny(a.h, state_, arena)),
        scratch_(a.size, num_threads, arena) {}

  void Run(Executor& executor) const {
    LstmBlockStepForward<C>(
        {a_.size, a_.options, staging_.Read(a_.x, x_, input_, executor),
         staging_.Read(a_.c_prev, c_prev_, state_, executor),
         staging_.Read(a_.h_prev, h_prev_, state_, executor),
         staging_.Read(a_.w, w_, w_shape_, executor),
         staging_.Read(a_.b, b_, b_shape_, executor), peepholes_.Read(executor),
         activations_.Target(), staging_.Target(a_.h, h_), nullptr},
        scratch_, executor)
        .Run();
    activations_.Write(executor);
    staging_.Write(h_, a_.h, state_, executor);
  }

 private:
  const LstmBlockCellForward<T>& a_;
  const StagedShape input_;
  const StagedShape state_;
  const StagedShape w_shape_;
  const StagedShape b_shape_;
  const Staging<T> staging_{/*time_major=*/true};
  C* const x_;
  C* const c_prev_;
  C* const h_prev_;
  C* const w_;
  C* const b_;
  const ArraysStaging<Peepholes, const T> peepholes_;
  const ArraysStaging<LstmActivations, T> activations_;
  C* const h_;
  const LstmBlockStepForwardScratch<C> scratch_;
};

template <typename T>
class BackwardCall {
 public:
  using C = ComputeType<T>;

  static double Microseconds(const BlockCellSize& size) {
    constexpr double kCellsPerMicrosecond = 300;
    return static_cast<double>(size.batch) *
           static_cast<double>(size.cell_size) / kCellsPerMicrosecond;
  }

  BackwardCall(const LstmBlockCellBackward<T>& a, int /*num_threads*/,
               Arena& arena)
      : a_(a),
        state_(StateShape(a.size)),
        gates_{kLstmGates, a.size.batch, a.size.cell_size},
        c_prev_(staging_.Buffer(state_, arena)),
        peepholes_(a.peepholes, PeepholeShape(a.size), arena),
        activations_(a.activations, state_, arena),
        d_c_(staging_.Buffer(state_, arena)),
        d_h_(staging_.Buffer(state_, arena)),
        d_c_prev_(staging_.Buffer(state_, arena)),
        d_gates_(staging_.Buffer(gates_, arena)),
        d_peepholes_(a.d_peepholes, PeepholeShape(a.size), arena) {}

  void Run(Executor& executor) const {
    RunLstmBlockStepBackward<C>(
        {a_.size, a_.options,
         staging_.Read(a_.c_prev, c_prev_, state_, executor),
         peepholes_.Read(executor), activations_.Read(executor),
         staging_.Read(a_.d_c, d_c_, state_, executor),
         staging_.Read(a_.d_h, d_h_, state_, executor),
         staging_.Target(a_.d_c_prev, d_c_prev_),
         staging_.Target(a_.d_gates, d_gates_), d_peepholes_.Target(), nullptr},
        executor);
    staging_.Write(d_c_prev_, a_.d_c_prev, state_, executor);
    staging_.Write(d_gates_, a_.d_gates, gates_, executor);
    d_peepholes_.Write(executor);
  }

 private:
  const LstmBlockCellBackward<T>& a_;
  const StagedShape state_;
  const StagedShape gates_;
  const Staging<T> staging_{/*time_major=*/true};
  C* const c_prev_;
  const ArraysStaging<Peepholes, const T> peepholes_;
  const ArraysStaging<LstmActivations, const T> activations_;
  C* const d_c_;
  C* const d_h_;
  C* const d_c_prev_;
  C* const d_gates_;
  const ArraysStaging<Peepholes, T> d_peepholes_;
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
