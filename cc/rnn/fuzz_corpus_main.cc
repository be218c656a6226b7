// Runs a fuzz target over the files that are named: its corpus, as a test that
// needs no fuzzer.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "cc/rnn/fuzz_support.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "error: there is no corpus\n");
    return 1;
  }
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "error: %s cannot be read\n", argv[i]);
      return 1;
    }
    std::fprintf(stderr, "%s\n", argv[i]);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                           bytes.size());
  }
  std::fprintf(stderr, "%d inputs\n", argc - 1);
  return 0;
}
