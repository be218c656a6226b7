#include "cc/rnn/instruction_set.h"

#include <cstdio>
#include <cstdlib>

namespace tf_rnn_ops::rnn {
namespace {

constexpr InstructionSet kAll[] = {
    InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512};

bool Supports(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kBaseline:
      return true;
#if defined(__x86_64__)
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
    case InstructionSet::kAvx512:
      return Supports(InstructionSet::kAvx2) &&
             __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
#endif
    default:
      return false;
  }
}

// The cap that TF_RNN_OPS_ISA sets, or none.
InstructionSet CapFromEnvironment() {
  constexpr InstructionSet kNone = InstructionSet::kAvx512;
  const char* value = std::getenv("TF_RNN_OPS_ISA");
  if (value == nullptr || *value == '\0') return kNone;
  InstructionSet cap;
  if (ParseInstructionSet(value, &cap)) return cap;
  std::fprintf(stderr,
               "tf_rnn_ops: TF_RNN_OPS_ISA is \"%s\" and is ignored; it should "
               "be baseline, avx2 or avx512\n",
               value);
  return kNone;
}

}  // namespace

const char* InstructionSetName(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kBaseline:
      return "baseline";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

bool ParseInstructionSet(std::string_view name, InstructionSet* result) {
  for (InstructionSet candidate : kAll) {
    if (name == InstructionSetName(candidate)) {
      *result = candidate;
      return true;
    }
  }
  return false;
}

std::vector<InstructionSet> SupportedInstructionSets() {
  std::vector<InstructionSet> supported;
  for (InstructionSet candidate : kAll) {
    if (Supports(candidate)) supported.push_back(candidate);
  }
  return supported;
}

InstructionSet ActiveInstructionSet() {
  static const InstructionSet active = [] {
    const InstructionSet cap = CapFromEnvironment();
    InstructionSet highest = InstructionSet::kBaseline;
    for (InstructionSet candidate : SupportedInstructionSets()) {
      if (candidate <= cap) highest = candidate;
    }
    return highest;
  }();
  return active;
}

}  // namespace tf_rnn_ops::rnn
