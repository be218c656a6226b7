// Which of the CPU's instruction sets the engine computes with.

#ifndef TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_
#define TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_

#include <string_view>
#include <vector>

// Whether the build has sets beyond the baseline: not for other CPUs, nor with
// .bazelrc's config `baseline`.
#if defined(__x86_64__) && !defined(TF_RNN_OPS_BASELINE_ALONE)
#define TF_RNN_OPS_HAS_HIGHER_SETS
#endif

namespace tf_rnn_ops::rnn {

// In ascending order: a CPU that has one has all before it.
enum class InstructionSet {
  kBaseline,    // what the compiler assumes of any CPU of the architecture
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, CD, BW, DQ, VL
  kAvx512Bf16,  // AVX-512 BF16
  kAmx,         // AMX TILE, BF16
};

// "baseline", "avx2", "avx512", "avx512_bf16", "amx".
const char* InstructionSetName(InstructionSet instruction_set);

// Whether `name` is an instruction set's name; sets `*result` if so.
bool ParseInstructionSet(std::string_view name, InstructionSet* result);

// The instruction sets that both this CPU and this build have, in ascending
// order. Asks the system for all that they need, as AMX's tile registers.
std::vector<InstructionSet> SupportedInstructionSets();

// The one in use: the highest supported, or the highest supported up to the one
// that the environment variable TF_RNN_OPS_ISA names. Decided once, at the
// first call. A variable that names none is reported on stderr and ignored.
InstructionSet ActiveInstructionSet();

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_INSTRUCTION_SET_H_
