#include "cc/gpu/gru_block_cell.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "cc/gpu/arrays.h"
#include "cc/gpu/device_code.h"
#include "cc/gpu/device_module.h"
#include "cc/gpu/gru_block_cell_device.h"
#include "cc/rnn/arena.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/float16.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::Arena;
using rnn::BlockCellSize;
using rnn::CheckedInt;
using rnn::ComputeType;

// ---------------------------------------------------------------------------
// Kernels

template <typename Kernel>
constexpr const char* kKernelName = nullptr;
#define TF_RNN_OPS_NAME(name, Kernel, T) \
  template <>                            \
  constexpr const char* kKernelName<Kernel<T>> = #name;
TF_RNN_OPS_GRU_BLOCK_CELL_KERNELS(TF_RNN_OPS_NAME)
#undef TF_RNN_OPS_NAME

DeviceModule& Module() {
  static DeviceModule* const module = new DeviceModule(kGruBlockCellCode);
  return *module;
}

// Launches kernels and matrix products of a step.
struct Engine {
  const Call& call;
  Cublas& cublas;
  bool allow_tf32;

  template <template <typename> class Kernel, typename T>
  Status Launch(const Kernel<T>& kernel) const {
    const std::int64_t width = kernel.shape.is_aligned ? kVectorWidth<T> : 1;
    return Module().Launch(
        call, kKernelName<Kernel<T>>,
        ShapeFor(kernel.shape.batch, (kernel.width() + width - 1) / width),
        kernel);
  }

  template <typename T>
  Status Multiply(const MatrixProduct<T>& product) const {
    return cublas.Multiply(call, product, allow_tf32);
  }
};

// Null is aligned.
template <typename T>
bool IsAligned(std::initializer_list<const T*> arrays) {
  return std::all_of(arrays.begin(), arrays.end(), [](const T* array) {
    return reinterpret_cast<std::uintptr_t>(array) %
               sizeof(StoredVector<T, kVectorWidth<T>>) ==
           0;
  });
}

template <typename T>
GruBlockCellShape ShapeOf(const BlockCellSize& size,
                          std::initializer_list<const T*> arrays) {
  return {size.batch, size.input_size, size.cell_size,
          size.input_size % kVectorWidth<T> == 0 &&
              size.cell_size % kVectorWidth<T> == 0 && IsAligned(arrays)};
}

// ---------------------------------------------------------------------------
// Scratch memory

template <typename T>
struct ForwardScratch {
  ForwardScratch(const BlockCellSize& size, Arena& arena)
      : joined(arena.Take<T>(CheckedInt(size.batch) *
                             (CheckedInt(size.input_size) + size.cell_size))),
        bar(arena.Take<ComputeType<T>>(CheckedInt(size.batch) * 2 *
                                       size.cell_size)) {}

  T* joined;            // [B, I + C]: [x h_prev], then [x r ∘ h_prev]
  ComputeType<T>* bar;  // [B, 2C]: [r_bar u_bar], then c_bar: [B, C]
};

template <typename T>
struct BackwardScratch {
  BackwardScratch(const BlockCellSize& size, Arena& arena)
      : d_operands(arena.Take<ComputeType<T>>(
            CheckedInt(size.batch) *
            (CheckedInt(size.input_size) + size.cell_size))) {}

  // [B, I + C]: [d_x_2 d_h_prevr], then the gradient of [x h_prev]
  ComputeType<T>* d_operands;
};

// Allocates the scratch memory for a step of this size.
template <typename Scratch>
Status Allocate(const Call& call, const BlockCellSize& size, void** memory) {
  Arena counting(nullptr);
  Scratch(size, counting);
  if (counting.used() < 0) {
    return Status(StatusCode::kUnimplemented,
                  "the step is too large: its size must fit in 64 bits");
  }
  return call.scratch->Allocate(static_cast<std::size_t>(counting.used()),
                                memory);
}

// ---------------------------------------------------------------------------
// Steps, with B > 0 and C > 0

template <typename T>
Status Forward(const Engine& engine, const rnn::GruBlockCellForward<T>& step,
               const ForwardScratch<T>& scratch) {
  const auto [batch, input_size, cell_size] = step.size;
  const std::int64_t fan_in = input_size + cell_size;
  const GruBlockCellShape shape =
      ShapeOf<T>(step.size, {step.x, step.h_prev, step.b_ru, step.b_c, step.r,
                             step.u, step.c, step.h});
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Launch(
      GruBlockCellJoin<T>{shape, step.x, step.h_prev, scratch.joined}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Multiply(
      MatrixProduct<T>{batch, 2 * cell_size, fan_in, scratch.joined, step.w_ru,
                       /*is_b_transposed=*/false, scratch.bar,
                       /*is_added=*/false}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Launch(
      GruBlockCellGates<T>{shape, scratch.bar, step.b_ru, step.h_prev, step.r,
                           step.u, scratch.joined}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Multiply(
      MatrixProduct<T>{batch, cell_size, fan_in, scratch.joined, step.w_c,
                       /*is_b_transposed=*/false, scratch.bar,
                       /*is_added=*/false}));
  return engine.Launch(GruBlockCellCandidate<T>{
      shape, scratch.bar, step.b_c, step.h_prev, step.u, step.c, step.h});
}

template <typename T>
Status Backward(const Engine& engine, const rnn::GruBlockCellBackward<T>& step,
                const BackwardScratch<T>& scratch) {
  const auto [batch, input_size, cell_size] = step.size;
  const std::int64_t fan_in = input_size + cell_size;
  const GruBlockCellShape shape =
      ShapeOf<T>(step.size, {step.h_prev, step.r, step.u, step.c, step.d_r,
                             step.d_u, step.d_c, step.d_h, step.d_x,
                             step.d_h_prev, step.d_c_bar, step.d_r_bar_u_bar});
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Launch(GruBlockCellCandidateGradient<T>{
      shape, step.h_prev, step.u, step.c, step.d_u, step.d_c, step.d_h,
      step.d_c_bar, step.d_r_bar_u_bar}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Multiply(
      MatrixProduct<T>{batch, fan_in, cell_size, step.d_c_bar, step.w_c,
                       /*is_b_transposed=*/true, scratch.d_operands,
                       /*is_added=*/false}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Launch(GruBlockCellResetGradient<T>{
      shape, step.h_prev, step.r, step.u, step.d_r, step.d_h,
      scratch.d_operands, step.d_r_bar_u_bar}));
  TF_RNN_OPS_RETURN_IF_ERROR(engine.Multiply(
      MatrixProduct<T>{batch, fan_in, 2 * cell_size, step.d_r_bar_u_bar,
                       step.w_ru, /*is_b_transposed=*/true, scratch.d_operands,
                       /*is_added=*/true}));
  return engine.Launch(
      GruBlockCellSplit<T>{shape, scratch.d_operands, step.d_x, step.d_h_prev});
}

}  // namespace

template <typename T>
Status RunGruBlockCellForward(const Call& call, Cublas& cublas, bool allow_tf32,
                              const rnn::GruBlockCellForward<T>& step) {
  if (step.size.batch == 0 || step.size.cell_size == 0) return Status();
  void* memory;
  TF_RNN_OPS_RETURN_IF_ERROR(
      Allocate<ForwardScratch<T>>(call, step.size, &memory));
  Arena arena(memory);
  return Forward(Engine{call, cublas, allow_tf32}, step,
                 ForwardScratch<T>(step.size, arena));
}

template <typename T>
Status RunGruBlockCellBackward(const Call& call, Cublas& cublas,
                               bool allow_tf32,
                               const rnn::GruBlockCellBackward<T>& step) {
  const auto [batch, input_size, cell_size] = step.size;
  if (batch == 0 || input_size + cell_size == 0) return Status();
  if (cell_size == 0) {
    return ZeroBytes(call, batch * input_size * sizeof(T), step.d_x);
  }
  void* memory;
  TF_RNN_OPS_RETURN_IF_ERROR(
      Allocate<BackwardScratch<T>>(call, step.size, &memory));
  Arena arena(memory);
  return Backward(Engine{call, cublas, allow_tf32}, step,
                  BackwardScratch<T>(step.size, arena));
}

#define INSTANTIATE(T)                                                        \
  template Status RunGruBlockCellForward(const Call&, Cublas&, bool,          \
                                         const rnn::GruBlockCellForward<T>&); \
  template Status RunGruBlockCellBackward(const Call&, Cublas&, bool,         \
                                          const rnn::GruBlockCellBackward<T>&)

INSTANTIATE(rnn::Half);
INSTANTIATE(rnn::BFloat16);
INSTANTIATE(float);
INSTANTIATE(double);

#undef INSTANTIATE

}  // namespace tf_rnn_ops::gpu
