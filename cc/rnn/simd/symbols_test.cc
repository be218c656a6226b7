// No code of a higher instruction set may be linked into a lower one.
//
// The linker keeps one of several inline functions of the same name. So every
// symbol that an object file compiled for a higher instruction set defines, and
// that others could share, must carry the set's name.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

// INSTRUCTION_SET=ARCHIVE, from the command line.
std::vector<std::string> archives;

// What nm prints of the symbols that an archive defines for other files:
// lines of a value, a type and a demangled name.
std::string SharedSymbols(const std::string& archive) {
  const std::string command =
      "nm --demangle --defined-only --extern-only " + archive;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

// A pointer to a function of the C++ runtime: data, the same in every file.
bool IsRuntimeReference(const std::string& name) {
  return name.rfind("DW.ref.", 0) == 0;
}

TEST(SymbolsTest, CarryTheNameOfTheirInstructionSet) {
  for (const std::string& each : archives) {
    const std::size_t separator = each.find('=');
    const std::string instruction_set = each.substr(0, separator);
    std::istringstream lines(SharedSymbols(each.substr(separator + 1)));
    int num_symbols = 0;
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string value, type, name;
      if (!(fields >> value >> type) ||
          !std::getline(fields >> std::ws, name)) {
        continue;  // a header
      }
      if (IsRuntimeReference(name)) continue;
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
  archives.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
