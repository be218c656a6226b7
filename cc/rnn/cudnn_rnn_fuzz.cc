// Fuzzes the passes of small networks, whatever the network and its sequence:
// none touches what is beside its arrays, also where it is cancelled, reads
// what nothing has written, or gives other bits on threads.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/rnn/cudnn_rnn_fuzz_support.h"
#include "cc/rnn/executor.h"
#include "cc/rnn/fuzz_support.h"

namespace tf_rnn_ops::rnn {
namespace {

constexpr int kNan = 0xff;  // every byte of one
constexpr int kZero = 0;

// What a case runs.
struct Run {
  bool is_training;
  int given;   // of what may be null
  int wanted;  // of what may be null
};

// The results of all passes, each over what the one before it left.
// garbage: what is in all memory that the engine is to write.
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
    // Results are then nothing to compare: tasks are left out.
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
