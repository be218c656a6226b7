// Fuzzes the steps of GRU cells of any size. Workspace sizes must be correct or
// reported as overflow. Small steps must not access memory outside their arrays
// or read uninitialized memory, and must give the same bits with threads.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/gru_block_cell.h"

namespace tf_rnn_ops::rnn {
namespace {

constexpr int kNan = 0xff;  // a NaN has this value in every byte
constexpr int kZero = 0;

template <typename T>
class FuzzedSteps {
 public:
  FuzzedSteps(const BlockCellSize& size, InstructionSet instruction_set,
              std::int64_t misalignment, Values values)
      : size_(size),
        kernels_(GetGruBlockCellKernels<T>(instruction_set)),
        misalignment_(misalignment) {
    for (ExactArray<T>* array : {&x_, &h_prev_, &w_ru_, &w_c_, &b_ru_, &b_c_,
                                 &r_, &u_, &c_, &d_r_, &d_u_, &d_c_, &d_h_}) {
      values.Fill(*array);
    }
  }

  // garbage: the initial byte of all memory that the engine writes.
  std::vector<ExactArray<T>> Forward(int garbage, Executor& executor) const {
    std::vector<ExactArray<T>> results = Results({Of(1), Of(1), Of(1), Of(1)});
    for (ExactArray<T>& result : results) result.Fill(garbage);
    GruBlockCellForward<T> a{};
    a.size = size_;
    a.x = x_.data();
    a.h_prev = h_prev_.data();
    a.w_ru = w_ru_.data();
    a.w_c = w_c_.data();
    a.b_ru = b_ru_.data();
    a.b_c = b_c_.data();
    a.r = results[0].data();
    a.u = results[1].data();
    a.c = results[2].data();
    a.h = results[3].data();
    RunPass(a, kernels_.forward_workspace, kernels_.forward, garbage, executor);
    return results;
  }

  // given: one bit for each optional array.
  std::vector<ExactArray<T>> Backward(int given, int garbage,
                                      Executor& executor) const {
    std::vector<ExactArray<T>> results =
        Results({size_.batch * size_.input_size, Of(1), Of(1), Of(2)});
    for (ExactArray<T>& result : results) result.Fill(garbage);
    GruBlockCellBackward<T> a{};
    a.size = size_;
    a.h_prev = h_prev_.data();
    a.w_ru = w_ru_.data();
    a.w_c = w_c_.data();
    a.r = r_.data();
    a.u = u_.data();
    a.c = c_.data();
    a.d_r = given & 1 ? d_r_.data() : nullptr;
    a.d_u = given & 2 ? d_u_.data() : nullptr;
    a.d_c = given & 4 ? d_c_.data() : nullptr;
    a.d_h = d_h_.data();
    a.d_x = results[0].data();
    a.d_h_prev = results[1].data();
    a.d_c_bar = results[2].data();
    a.d_r_bar_u_bar = results[3].data();
    RunPass(a, kernels_.backward_workspace, kernels_.backward, garbage,
            executor);
    return results;
  }

 private:
  std::int64_t Of(std::int64_t gates) const {
    return gates * size_.batch * size_.cell_size;
  }
  std::int64_t fan_in() const { return size_.input_size + size_.cell_size; }
  // An array that the caller owns.
  ExactArray<T> Given(std::int64_t size) const {
    return ExactArray<T>(size, misalignment_);
  }

  static std::vector<ExactArray<T>> Results(
      const std::vector<std::int64_t>& sizes) {
    std::vector<ExactArray<T>> results;
    for (std::int64_t size : sizes) results.emplace_back(size);
    return results;
  }

  const BlockCellSize size_;
  const GruBlockCellKernels<T> kernels_;
  const std::int64_t misalignment_;
  ExactArray<T> x_ = Given(size_.batch * size_.input_size);
  ExactArray<T> h_prev_ = Given(Of(1));
  ExactArray<T> w_ru_ = Given(fan_in() * 2 * size_.cell_size);
  ExactArray<T> w_c_ = Given(fan_in() * size_.cell_size);
  ExactArray<T> b_ru_ = Given(2 * size_.cell_size);
  ExactArray<T> b_c_ = Given(size_.cell_size);
  ExactArray<T> r_ = Given(Of(1));
  ExactArray<T> u_ = Given(Of(1));
  ExactArray<T> c_ = Given(Of(1));
  ExactArray<T> d_r_ = Given(Of(1));
  ExactArray<T> d_u_ = Given(Of(1));
  ExactArray<T> d_c_ = Given(Of(1));
  ExactArray<T> d_h_ = Given(Of(1));
};

template <typename T>
void RunSteps(FuzzInput& input) {
  const InstructionSet instruction_set = ReadInstructionSet(input);
  // A few are large enough to be shared between threads.
  const bool is_large = input.UpTo(15) == 0;
  const std::int64_t batch = input.UpTo(is_large ? 70 : 17);
  const std::int64_t input_size = input.UpTo(is_large ? 120 : 40);
  const std::int64_t cell_size = input.UpTo(is_large ? 120 : 40);
  const int given = input.Byte();
  const std::int64_t misalignment = input.UpTo(2);
  SerialExecutor serial;
  ScatteringExecutor scattering(1 + static_cast<int>(input.UpTo(8)));
  const bool are_any_bits = input.UpTo(3) == 0;
  const FuzzedSteps<T> steps({batch, input_size, cell_size}, instruction_set,
                             misalignment, Values(input.Word(8), are_any_bits));
  RequireSame(steps.Forward(kNan, serial), steps.Forward(kZero, scattering));
  RequireSame(steps.Backward(given, kNan, serial),
              steps.Backward(given, kZero, scattering));
}

// Whether tensors of these shapes can exist.
bool AreCountable(const BlockCellSize& size) {
  constexpr std::int64_t kBytes = sizeof(double);
  const CheckedInt fan_in = CheckedInt(size.input_size) + size.cell_size;
  return (CheckedInt(size.batch) * size.input_size * kBytes).valid() &&
         (CheckedInt(size.batch) * size.cell_size * 2 * kBytes).valid() &&
         fan_in.valid() && (fan_in * size.cell_size * 2 * kBytes).valid();
}

template <typename T>
void CheckWorkspaces(FuzzInput& input) {
  const auto kernels = GetGruBlockCellKernels<T>(ReadInstructionSet(input));
  const BlockCellSize size{input.Size(), input.Size(), input.Size()};
  if (!AreCountable(size)) return;
  const int num_threads = 1 + static_cast<int>(input.Word(2));
  T something{};  // only whether arrays are null matters
  GruBlockCellForward<T> forward{};
  forward.size = size;
  forward.x = forward.h_prev = forward.w_ru = forward.w_c = forward.b_ru =
      forward.b_c = forward.r = forward.u = forward.c = forward.h = &something;
  GruBlockCellBackward<T> backward{};
  backward.size = size;
  backward.h_prev = backward.w_ru = backward.w_c = backward.r = backward.u =
      backward.c = backward.d_r = backward.d_u = backward.d_c = backward.d_h =
          backward.d_x = backward.d_h_prev = backward.d_c_bar =
              backward.d_r_bar_u_bar = &something;
  Require(kernels.forward_workspace(forward, num_threads) >= -1 &&
              kernels.backward_workspace(backward, num_threads) >= -1,
          "a workspace size is valid or -1");
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  namespace rnn = tf_rnn_ops::rnn;
  rnn::FuzzInput input(data, size);
  const bool runs = input.UpTo(3) > 0;
  rnn::WithType(input.Byte(), [&](auto type) {
    using T = decltype(type);
    if (runs) {
      rnn::RunSteps<T>(input);
    } else {
      rnn::CheckWorkspaces<T>(input);
    }
  });
  return 0;
}
