// Runs a fuzz target over its corpus, as a test that needs no fuzzer. The files
// that are named have an input in each line, in hexadecimal.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "cc/rnn/fuzz_support.h"

int main(int argc, char** argv) {
  int num_inputs = 0;
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    for (std::string line; std::getline(file, line); ++num_inputs) {
      std::fprintf(stderr, "%s:%d\n", argv[i], num_inputs + 1);
      std::vector<std::uint8_t> bytes(line.size() / 2);
      for (std::size_t k = 0; k < bytes.size(); ++k) {
        bytes[k] = static_cast<std::uint8_t>(
            std::stoi(line.substr(2 * k, 2), nullptr, 16));
      }
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  std::fprintf(stderr, "%d inputs\n", num_inputs);
  return num_inputs > 0 ? 0 : 1;
}
