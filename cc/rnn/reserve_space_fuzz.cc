// Fuzzes the reserve_space argument of the backward passes with arbitrary
// bytes. A pass must not access memory outside a reserve_space that the check
// accepts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "cc/rnn/executor.h"
#include "cc/rnn/fuzz_support.h"
#include "cc/rnn/network_fuzz_support.h"
#include "cc/rnn/reserve_space.h"

namespace tf_rnn_ops::rnn {
namespace {

// A reserve_space of any size and contents: a correct one with some bytes
// changed, because a fuzzer would hardly find a correct header; or the rest of
// the input.
template <typename T>
ExactArray<T> ReadReserveSpace(const FuzzedNetwork& network, FuzzInput& input) {
  const std::int64_t expected =
      ReserveSpaceSize<T>(network.config, network.size);
  const std::int64_t size =
      input.UpTo(3) == 0 ? static_cast<std::int64_t>(input.Word(2)) : expected;
  ExactArray<T> reserve_space(size);
  if (size == 0) return reserve_space;
  Values(input.Word(8), /*are_any_bits=*/true).Fill(reserve_space);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(reserve_space.data());
  if (input.UpTo(3) == 0) {
    std::copy_n(input.rest(),
                std::min(input.rest_size(), reserve_space.bytes()), bytes);
    return reserve_space;
  }
  if (static_cast<std::int64_t>(reserve_space.bytes()) >=
      kReserveSpaceHeaderBytes) {
    WriteReserveSpaceHeader<T>(
        network.key(), {input.Word(8), input.Word(8), input.Word(8)},
        reserve_space.data(), !network.lengths.empty() && input.Bool());
  }
  for (std::int64_t changes = input.UpTo(20); changes > 0; --changes) {
    const std::uint64_t place = input.Word(2);
    bytes[place % reserve_space.bytes()] = input.Byte();
  }
  return reserve_space;
}

template <typename T>
void RunBackwardPasses(const FuzzedNetwork& network,
                       const ExactArray<T>& reserve_space, FuzzInput& input) {
  const InstructionSet instruction_set = ReadInstructionSet(input);
  ScatteringExecutor executor(1 + static_cast<int>(input.UpTo(8)));
  FuzzedPasses<T> passes(network, instruction_set, input.UpTo(2),
                         Values(input.Word(8), input.Bool()));
  std::memcpy(passes.reserve_space(), reserve_space.data(),
              reserve_space.bytes());
  constexpr int kGarbage = 0xff;
  passes.Backward(input.Byte(), kGarbage, executor);
  passes.BackwardGrad(input.Byte(), input.Byte(), kGarbage, executor);
}

template <typename T>
void FuzzReserveSpace(FuzzInput& input) {
  const FuzzedNetwork network = ReadSmallNetwork(input);
  const ExactArray<T> reserve_space = ReadReserveSpace<T>(network, input);
  FindReserveSpaceOrigin(
      CopyReserveSpaceHeader(reserve_space.data(), reserve_space.bytes()));
  const std::string mismatch = ReserveSpaceMismatch(
      network.key(), reserve_space.data(), reserve_space.size());
  if (!mismatch.empty()) return;
  Require(
      reserve_space.size() == ReserveSpaceSize<T>(network.config, network.size),
      "an accepted reserve_space has the size that a pass reads");
  RunBackwardPasses(network, reserve_space, input);
}

}  // namespace
}  // namespace tf_rnn_ops::rnn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  namespace rnn = tf_rnn_ops::rnn;
  rnn::FuzzInput input(data, size);
  rnn::WithType(input.Byte(), [&](auto type) {
    rnn::FuzzReserveSpace<decltype(type)>(input);
  });
  return 0;
}
