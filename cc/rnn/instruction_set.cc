#include "cc/rnn/instruction_set.h"

#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdio>
#include <cstdlib>

namespace tf_rnn_ops::rnn {
namespace {

constexpr InstructionSet kAll[] = {
    InstructionSet::kBaseline,   InstructionSet::kAvx2,
    InstructionSet::kAvx512,     InstructionSet::kAvx512Vnni,
    InstructionSet::kAvx512Bf16, InstructionSet::kAmx};

#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
// Features that GCC 12's __builtin_cpu_supports does not know.
bool CpuHasAvx512Bfloat16() {
  constexpr unsigned kAvx512Bfloat16 = 1u << 5;  // EAX of leaf 7, subleaf 1
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) &&
         (eax & kAvx512Bfloat16) != 0;
}
bool CpuHasAmx() {
  constexpr unsigned kBfloat16 = 1u << 22;  // EDX of leaf 7, subleaf 0
  constexpr unsigned kTile = 1u << 24;      // likewise
  constexpr unsigned kInt8 = 1u << 25;      // likewise
  constexpr unsigned kAll = kBfloat16 | kTile | kInt8;
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
         (edx & kAll) == kAll;
}

// Requests the tile registers from the operating system, which grants them to a
// process on demand. The permission is permanent.
bool MayUseTiles() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

bool Supports(InstructionSet instruction_set) {
  switch (instruction_set) {
    case InstructionSet::kBaseline:
      return true;
#if defined(TF_RNN_OPS_HAS_HIGHER_SETS)
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
    case InstructionSet::kAvx512Vnni:
      return Supports(InstructionSet::kAvx512) &&
             __builtin_cpu_supports("avx512vnni");
    case InstructionSet::kAvx512Bf16:
      return Supports(InstructionSet::kAvx512Vnni) && CpuHasAvx512Bfloat16();
    case InstructionSet::kAmx:
      return Supports(InstructionSet::kAvx512Bf16) && CpuHasAmx() &&
             MayUseTiles();
#endif
    default:
      return false;
  }
}

// The maximum instruction set from TF_RNN_OPS_ISA, if set.
InstructionSet CapFromEnvironment() {
  constexpr InstructionSet kNone = InstructionSet::kAmx;
  const char* value = std::getenv("TF_RNN_OPS_ISA");
  if (value == nullptr || *value == '\0') return kNone;
  InstructionSet cap;
  if (ParseInstructionSet(value, &cap)) return cap;
  std::fprintf(stderr,
               "tf_rnn_ops: ignoring TF_RNN_OPS_ISA \"%s\"; it must be "
               "baseline, avx2, avx512, avx512_vnni, avx512_bf16 or amx\n",
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
    case InstructionSet::kAvx512Vnni:
      return "avx512_vnni";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
    case InstructionSet::kAmx:
      return "amx";
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
    // Do not probe sets above the cap: permissions from the system are
    // permanent.
    for (InstructionSet candidate : kAll) {
      if (candidate <= cap && Supports(candidate)) highest = candidate;
    }
    return highest;
  }();
  return active;
}

}  // namespace tf_rnn_ops::rnn
