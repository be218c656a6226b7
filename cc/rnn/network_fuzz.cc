// Fuzzes the passes of small networks with arbitrary configurations and
// sequences. No pass, even if cancelled, may access memory outside its arrays,
// read uninitialized memory, or give different bits with threads.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/rnn/executor.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/network_fuzz_support.h"

namespace tf_rnn_ops::rnn {
namespace {

constexpr int kNan = 0xff;  // a NaN has this value in every byte
constexpr int kZero = 0;

// The parameters of a fuzz case.
struct Run {
  bool is_training;
  int given;   // bits: which optional arrays are passed
  int wanted;  // bits: which optional results are computed
};

// The results of all passes; each pass uses the results of the previous one.
// garbage: the initial byte of all memory that the engine writes.
template <typename T>
std::vector<ExactArray<T>> RunPasses(const Run& run, int garbage,
                                     FuzzedPasses<T>& passes,
                                     Executor& executor) {
  std::vector<ExactArray<T>> results =
      passes.Forward(run.is_training, garbage, executor);
  if (!run.is_training) return results;
  for (auto& result : passes.Backward(run.wanted, garbage, executor)) {
    results.push_back(std::move(result));
  }
  for (auto& result :
       passes.BackwardGrad(run.given, run.wanted, garbage, executor)) {
    results.push_back(std::move(result));
  }
  return results;
}

template <typename T>
void FuzzPasses(FuzzInput& input) {
  const InstructionSet instruction_set = ReadInstructionSet(input);
  const FuzzedNetwork network = ReadSmallNetwork(input);
  const bool is_training = input.UpTo(7) > 0;
  const Run run{is_training, input.Byte(), input.Byte()};
  const std::int64_t misalignment = input.UpTo(2);
  SerialExecutor serial;
  ScatteringExecutor scattering(1 + static_cast<int>(input.UpTo(8)));
  const bool are_any_bits = input.UpTo(3) == 0;
  FuzzedPasses<T> passes(network, instruction_set, misalignment,
                         Values(input.Word(8), are_any_bits));
  RequireSame(RunPasses(run, kZero, passes, scattering),
              RunPasses(run, kNan, passes, serial));
  if (input.Bool()) {
    // The results are not compared, because tasks are skipped.
    ScatteringExecutor cancelled(scattering.num_threads(),
                                 [checks = input.Word(2)]() mutable {
                                   return checks == 0 || --checks == 0;
                                 });
    RunPasses(run, kNan, passes, cancelled);
  }
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  namespace rnn = tf_rnn_ops::rnn;
  rnn::FuzzInput input(data, size);
  rnn::WithType(input.Byte(),
                [&](auto type) { rnn::FuzzPasses<decltype(type)>(input); });
  return 0;
}
