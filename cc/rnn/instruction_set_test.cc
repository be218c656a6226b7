#include "cc/rnn/instruction_set.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace tf_rnn_ops::rnn {
namespace {

// The choice is made once per process, so each case runs in its own process.
void ExpectActive(const char* variable, InstructionSet expected) {
  if (variable == nullptr) {
    unsetenv("TF_RNN_OPS_ISA");
  } else {
    setenv("TF_RNN_OPS_ISA", variable, /*overwrite=*/1);
  }
  EXPECT_EXIT(std::exit(ActiveInstructionSet() == expected ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

#if defined(__linux__) && defined(TF_RNN_OPS_HAS_HIGHER_SETS)
// Whether the system has granted this process the AMX tile registers; nullopt
// if the system does not know them.
std::optional<bool> TilesArePermitted() {
  constexpr int kGetPermission = 0x1022;  // ARCH_GET_XCOMP_PERM
  constexpr int kTileData = 18;           // XFEATURE_XTILEDATA
  std::uint64_t permitted = 0;
  if (syscall(SYS_arch_prctl, kGetPermission, &permitted) != 0) return {};
  return (permitted >> kTileData & 1) != 0;
}

// Must be the first test, because child processes inherit permissions granted
// to this process.
TEST(InstructionSetTest, TilesAreRequestedOnlyIfAmxIsAllowed) {
  if (TilesArePermitted() != false) GTEST_SKIP();
  for (InstructionSet cap :
       {InstructionSet::kAvx512Bf16, InstructionSet::kAmx}) {
    setenv("TF_RNN_OPS_ISA", InstructionSetName(cap), /*overwrite=*/1);
    EXPECT_EXIT(
        {
          const bool uses_amx = ActiveInstructionSet() == InstructionSet::kAmx;
          std::exit(TilesArePermitted() == uses_amx ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
  }
}
#endif

TEST(InstructionSetTest, NamesParse) {
  for (InstructionSet each :
       {InstructionSet::kBaseline, InstructionSet::kAvx2,
        InstructionSet::kAvx512, InstructionSet::kAvx512Vnni,
        InstructionSet::kAvx512Bf16, InstructionSet::kAmx}) {
    InstructionSet parsed;
    ASSERT_TRUE(ParseInstructionSet(InstructionSetName(each), &parsed));
    EXPECT_EQ(parsed, each);
  }
  InstructionSet untouched = InstructionSet::kAvx2;
  EXPECT_FALSE(ParseInstructionSet("AVX2", &untouched));
  EXPECT_EQ(untouched, InstructionSet::kAvx2);
}

TEST(InstructionSetTest, SetsWithoutAFunctionUseThatOfALowerOne) {
  int (*const of_avx2)() = [] { return 2; };
  int (*const of_amx)() = [] { return 5; };
  const auto highest = [&](InstructionSet instruction_set) {
    return HighestUpTo<int()>(
        instruction_set,
        {{InstructionSet::kAvx2, of_avx2}, {InstructionSet::kAmx, of_amx}});
  };
  EXPECT_EQ(highest(InstructionSet::kBaseline), nullptr);
  EXPECT_EQ(highest(InstructionSet::kAvx2), of_avx2);
  EXPECT_EQ(highest(InstructionSet::kAvx512Bf16), of_avx2);
  EXPECT_EQ(highest(InstructionSet::kAmx), of_amx);
}

TEST(InstructionSetTest, SupportedAreAscendingFromBaseline) {
  const auto supported = SupportedInstructionSets();
  ASSERT_FALSE(supported.empty());
  EXPECT_EQ(supported.front(), InstructionSet::kBaseline);
  EXPECT_TRUE(std::is_sorted(supported.begin(), supported.end()));
}

TEST(InstructionSetTest, TheHighestSupportedIsActive) {
  const InstructionSet highest = SupportedInstructionSets().back();
  ExpectActive(nullptr, highest);
  ExpectActive("", highest);
}

TEST(InstructionSetTest, TheVariableCaps) {
  for (InstructionSet each : SupportedInstructionSets()) {
    ExpectActive(InstructionSetName(each), each);
  }
}

TEST(InstructionSetTest, AnUnknownNameIsReportedAndIgnored) {
  setenv("TF_RNN_OPS_ISA", "avx3", /*overwrite=*/1);
  EXPECT_EXIT(
      std::exit(
          ActiveInstructionSet() == SupportedInstructionSets().back() ? 0 : 1),
      testing::ExitedWithCode(0), "ignoring TF_RNN_OPS_ISA \"avx3\"");
}

}  // namespace
}  // namespace tf_rnn_ops::rnn
