// No code for a higher instruction set may be linked into lower ones.
//
// The linker keeps one of several inline functions with the same name.
// Therefore every shareable symbol that an object file for a higher instruction
// set defines must contain the name of the set.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

// INSTRUCTION_SET=OBJECT_FILE, from the command line.
std::vector<std::string> files;

// The output of nm for the shareable symbols that a file defines: lines with a
// value, a type and a demangled name.
std::string SharedSymbols(const std::string& file) {
  const std::string command =
      "nm --demangle --defined-only --extern-only " + file;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

TEST(SymbolsTest, CarryTheNameOfTheirInstructionSet) {
  for (const std::string& each : files) {
    const std::size_t separator = each.find('=');
    const std::string instruction_set = each.substr(0, separator);
    std::istringstream lines(SharedSymbols(each.substr(separator + 1)));
    int num_symbols = 0;
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string value, type, name;
      fields >> value >> type;
      std::getline(fields >> std::ws, name);
      if (name == "__llvm_profile_counter_bias") continue;
      ++num_symbols;
      EXPECT_NE(name.find(instruction_set), std::string::npos)
          << each << " defines " << name;
    }
    EXPECT_GT(num_symbols, 0) << each;
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  files.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
