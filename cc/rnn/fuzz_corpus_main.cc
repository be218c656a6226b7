// Runs a fuzz target on its corpus, as a test without a fuzzer. Each line of
// the given files is an input in hexadecimal.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cc/rnn/fuzz_support.h"

namespace {

[[noreturn]] void Fail(const char* file, int line, const char* problem) {
  std::fprintf(stderr, "error: %s:%d: %s\n", file, line, problem);
  std::exit(1);
}

std::uint8_t Digit(char c) {
  const char* const digits = "0123456789abcdef";
  const std::size_t value = std::string(digits).find(c);
  return value == std::string::npos ? 255 : static_cast<std::uint8_t>(value);
}

}  // namespace

int main(int argc, char** argv) {
  int num_inputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    if (!file) Fail(argv[i], 0, "cannot be read");
    int number = 0;
    for (std::string line; std::getline(file, line); ++num_inputs) {
      std::fprintf(stderr, "%s:%d\n", argv[i], ++number);
      if (line.size() % 2 != 0) Fail(argv[i], number, "odd number of digits");
      std::vector<std::uint8_t> bytes(line.size() / 2);
      for (std::size_t k = 0; k < bytes.size(); ++k) {
        const std::uint8_t high = Digit(line[2 * k]);
        const std::uint8_t low = Digit(line[2 * k + 1]);
        if (high > 15 || low > 15)
          Fail(argv[i], number, "not a hexadecimal digit");
        bytes[k] = static_cast<std::uint8_t>(high << 4 | low);
      }
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  if (num_inputs == 0) Fail("corpus", 0, "no inputs");
  std::fprintf(stderr, "%d inputs\n", num_inputs);
  return 0;
}
