// Runs one pass of the engine on one thread, for tools/costs.py, which counts
// the instructions within functions whose names contain Measured.
//
//   instruction_counts NAME    runs the pass of that name
//   instruction_counts         prints the names

#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cc/rnn/block_lstm_test_support.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/gru_block_cell.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/network_test_support.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/test_support.h"
#include "cc/rnn/weights.h"

namespace tf_rnn_ops::rnn {
namespace {

template <typename T>
NetworkKernels<T> kernels;

// kRun: a member of NetworkKernels<T>
template <typename T, typename P,
          void (*NetworkKernels<T>::*kRun)(const P&, Executor&)>
[[gnu::noinline]] void Measured(const P& pass, Executor& executor) {
  (kernels<T>.*kRun)(pass, executor);
}

enum class Pass { kForward, kBackward, kBackwardGrad, kPack };

// The kernels, with the function of one kind of pass measured.
template <typename T>
NetworkKernels<T> KernelsFor(Pass pass) {
  using Kernels = NetworkKernels<T>;
  Kernels result = kernels<T>;
  switch (pass) {
    case Pass::kForward:
      result.forward = Measured<T, NetworkForward<T>, &Kernels::forward>;
      break;
    case Pass::kBackward:
      result.backward = Measured<T, NetworkBackward<T>, &Kernels::backward>;
      break;
    case Pass::kBackwardGrad:
      result.backward_grad =
          Measured<T, NetworkBackwardGrad<T>, &Kernels::backward_grad>;
      break;
    case Pass::kPack:
      result.pack_weights =
          Measured<T, WeightPacking<T>, &Kernels::pack_weights>;
  }
  return result;
}

template <typename T>
void Train(Pass pass, Case k) {
  kernels<T> = GetNetworkKernels<T>(ActiveInstructionSet(), k.config);
  SerialExecutor executor;
  Engine<T> engine(KernelsFor<T>(pass), k);
  engine.Forward(/*is_training=*/true, executor);
  if (pass != Pass::kForward) engine.Backward(executor);
  if (pass == Pass::kBackwardGrad) engine.BackwardGrad(executor);
}

// format: of packed weights.
void Infer(Pass pass, Case k, WeightFormat format) {
  kernels<float> =
      GetInferenceKernels(ActiveInstructionSet(), k.config, format);
  SerialExecutor executor;
  Engine<float>(KernelsFor<float>(pass), k)
      .Forward(/*is_training=*/false, executor, /*has_constant_weights=*/true,
               /*packs=*/true);
}
void Infer(Case k) {
  kernels<float> = GetNetworkKernels<float>(ActiveInstructionSet(), k.config);
  SerialExecutor executor;
  Engine<float>(KernelsFor<float>(Pass::kForward), k)
      .Forward(/*is_training=*/false, executor);
}

void RunBlockLstm(Pass pass) {
  LstmCase k = RandomLstm({true, false, 0, 0}, {10, 16}, 48, 72);
  kernels<float> =
      GetNetworkKernels<float>(ActiveInstructionSet(), ConfigOf(k));
  Forward(k);  // the reference, which makes the activations
  SerialExecutor executor;
  LstmEngine<float> engine(KernelsFor<float>(pass), ActiveInstructionSet(), k);
  engine.Forward(executor);
  if (pass == Pass::kBackward) engine.Backward(executor);
}

// The same numbers in each run.
Buffer<float> Random(std::int64_t size) {
  static std::mt19937 generator(1);
  Array values = RandomArray(size, 0.1, generator);
  return Buffer<float>(Rounded<float>(values));
}

[[gnu::noinline]] void MeasuredStep(
    void (*run)(const GruBlockCellForward<float>&, Executor&),
    const GruBlockCellForward<float>& step, Executor& executor) {
  run(step, executor);
}

void RunGruBlockCell() {
  constexpr BlockCellSize kSize{16, 48, 72};
  const auto step_kernels =
      GetGruBlockCellKernels<float>(ActiveInstructionSet());
  const std::int64_t state = kSize.batch * kSize.cell_size;
  const std::int64_t rows = kSize.input_size + kSize.cell_size;
  Buffer<float> x = Random(kSize.batch * kSize.input_size);
  Buffer<float> h_prev = Random(state),
                w_ru = Random(rows * 2 * kSize.cell_size);
  Buffer<float> w_c = Random(rows * kSize.cell_size);
  Buffer<float> b_ru = Random(2 * kSize.cell_size);
  Buffer<float> b_c = Random(kSize.cell_size);
  Buffer<float> r(state), u(state), c(state), h(state);
  GruBlockCellForward<float> step{
      kSize,      x.data(), h_prev.data(), w_ru.data(), w_c.data(), b_ru.data(),
      b_c.data(), r.data(), u.data(),      c.data(),    h.data(),   nullptr};
  Buffer<char> workspace(step_kernels.forward_workspace(step, 1));
  step.workspace = workspace.data();
  SerialExecutor executor;
  MeasuredStep(step_kernels.forward, step, executor);
}

constexpr RnnSize kOne{20, 1}, kMany{10, 16}, kOneStep{1, 1};

// A layer of Keras.
Case Keras(RnnMode mode, const RnnSize& size,
           GateDropout dropout = GateDropout::kNone) {
  RnnConfig config{mode, false, 1, 1, 48, 72, 0, /*keeps_output=*/true};
  config.input_dropout = config.state_dropout = dropout;
  return RandomCase(config, size);
}

// A network of cuDNN with two layers.
Case Cudnn(RnnMode mode, std::int64_t num_directions) {
  return RandomCase({mode, false, num_directions, 2, 48, 40, 0}, kMany);
}

Case WithLengths(Case k) {
  for (std::int64_t i = 0; i < k.size.batch; ++i) {
    k.lengths.push_back(static_cast<std::int32_t>(k.size.time - 2 * (i % 5)));
  }
  return k;
}

struct NamedPass {
  const char* name;
  std::function<void()> run;
};

const std::vector<NamedPass>& Passes() {
  constexpr auto kLstm = RnnMode::kLstm, kGru = RnnMode::kGru;
  constexpr auto kForward = Pass::kForward, kBackward = Pass::kBackward,
                 kBackwardGrad = Pass::kBackwardGrad, kPack = Pass::kPack;
  constexpr auto kFloat32 = WeightFormat::kFloat32, kInt8 = WeightFormat::kInt8;
  static const std::vector<NamedPass> passes{
      {"lstm one sequence", [] { Infer(Keras(kLstm, kOne)); }},
      {"lstm one step", [] { Infer(Keras(kLstm, kOneStep)); }},
      {"lstm", [] { Infer(Keras(kLstm, kMany)); }},
      {"gru one sequence", [] { Infer(Keras(kGru, kOne)); }},
      {"gru", [] { Infer(Keras(kGru, kMany)); }},
      {"gru reset before",
       [] { Infer(Keras(RnnMode::kGruResetBefore, kMany)); }},
      {"tanh", [] { Infer(Keras(RnnMode::kTanh, kMany)); }},
      {"lstm lengths", [] { Infer(WithLengths(Keras(kLstm, kMany))); }},
      {"lstm packed", [] { Infer(kForward, Keras(kLstm, kOne), kFloat32); }},
      {"lstm packing", [] { Infer(kPack, Keras(kLstm, kOne), kFloat32); }},
      {"lstm int8", [] { Infer(kForward, Keras(kLstm, kOne), kInt8); }},
      {"lstm int8 packing", [] { Infer(kPack, Keras(kLstm, kOne), kInt8); }},
      {"lstm training", [] { Train<float>(kForward, Keras(kLstm, kMany)); }},
      {"lstm backward", [] { Train<float>(kBackward, Keras(kLstm, kMany)); }},
      {"lstm second order",
       [] { Train<float>(kBackwardGrad, Keras(kLstm, kMany)); }},
      {"gru backward", [] { Train<float>(kBackward, Keras(kGru, kMany)); }},
      {"lstm masks backward",
       [] {
         Train<float>(kBackward, Keras(kLstm, kMany, GateDropout::kSameMasks));
       }},
      {"lstm two directions", [] { Train<float>(kForward, Cudnn(kLstm, 2)); }},
      {"gru two layers backward",
       [] { Train<float>(kBackward, Cudnn(kGru, 1)); }},
      {"lstm float64", [] { Train<double>(kBackward, Keras(kLstm, kMany)); }},
      {"lstm bfloat16", [] { Train<BFloat16>(kForward, Keras(kLstm, kMany)); }},
      {"block lstm", [] { RunBlockLstm(kForward); }},
      {"block lstm backward", [] { RunBlockLstm(kBackward); }},
      {"gru block cell", [] { RunGruBlockCell(); }},
  };
  return passes;
}

int Main(int argc, char** argv) {
  for (const NamedPass& each : Passes()) {
    if (argc == 1) std::puts(each.name);
    if (argc == 2 && each.name == std::string(argv[1])) {
      each.run();
      return 0;
    }
  }
  return argc == 1 ? 0 : 1;
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

int main(int argc, char** argv) { return tf_rnn_ops::rnn::Main(argc, argv); }
