// Selects the CPU instruction set that the engine uses.

#ifndef TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_
#define TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_

#include <initializer_list>
#include <string_view>
#include <vector>

// Whether the build includes instruction sets above the baseline: only on
// x86-64, and not with --config=baseline (.bazelrc).
#if defined(__x86_64__) && !defined(TF_RNN_OPS_BASELINE_ALONE)
#define TF_RNN_OPS_HAS_HIGHER_SETS
#endif

// DECLARE(namespace) for the code of each instruction set.
#define TF_RNN_OPS_FOR_EACH_SET(DECLARE) \
  DECLARE(baseline)                      \
  DECLARE(avx2)                          \
  DECLARE(avx512)                        \
  DECLARE(avx512_vnni)                   \
  DECLARE(avx512_bf16)                   \
  DECLARE(amx)

namespace tf_rnn_ops::rnn {

// In ascending order: a CPU that supports one supports all before it.
enum class InstructionSet {
  kBaseline,    // the compiler's default for the architecture
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, CD, BW, DQ, VL
  kAvx512Vnni,  // AVX-512 VNNI
  kAvx512Bf16,  // AVX-512 BF16
  kAmx,         // AMX TILE, BF16, INT8
};

// A function that is compiled for some instruction sets.
template <typename Function>
struct CompiledFor {
  InstructionSet instruction_set;
  Function* function;
};

// The function for the highest instruction set up to `instruction_set`, or null
// if there is none. compiled: in ascending order.
template <typename Function>
Function* HighestUpTo(InstructionSet instruction_set,
                      std::initializer_list<CompiledFor<Function>> compiled) {
  Function* highest = nullptr;
  for (const CompiledFor<Function>& each : compiled) {
    if (each.instruction_set <= instruction_set) highest = each.function;
  }
  return highest;
}

// "baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx".
const char* InstructionSetName(InstructionSet instruction_set);

// Returns whether `name` names an instruction set, and sets `*result` if so.
bool ParseInstructionSet(std::string_view name, InstructionSet* result);

// The instruction sets that this CPU and this build support, in ascending
// order. Requests operating-system support where it is needed, as for AMX tile
// registers.
std::vector<InstructionSet> SupportedInstructionSets();

// The instruction set in use: the highest supported one, up to the one named by
// the environment variable TF_RNN_OPS_ISA if that is set. Decided once, at the
// first call. An unknown name is reported on stderr and ignored.
InstructionSet ActiveInstructionSet();

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_
