// Shared by the fuzz targets: input parsing, and memory and an executor that
// expose errors.

#ifndef TF_RNN_OPS_CC_RNN_FUZZ_SUPPORT_H_
#define TF_RNN_OPS_CC_RNN_FUZZ_SUPPORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/rnn/executor.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/instruction_set.h"

namespace tf_rnn_ops::rnn {

// Aborts, which the fuzzer reports, unless the condition holds.
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "error: requirement failed: %s\n", what);
  std::abort();
}

// Reads numbers from the input bytes of a target; zeros after the end.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : data_(data), size_(size) {}

  std::uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  bool Bool() { return Byte() % 2 == 1; }
  // In [0, largest], for largest < 256.
  std::int64_t UpTo(std::int64_t largest) { return Byte() % (largest + 1); }
  std::uint64_t Word(int num_bytes) {
    std::uint64_t word = 0;
    for (int i = 0; i < num_bytes; ++i) word = word << 8 | Byte();
    return word;
  }
  // Any non-negative size. The first byte selects the number of bits, so all
  // magnitudes are equally likely.
  std::int64_t Size() {
    const int bits = Byte() % 64;
    const std::uint64_t word = Word((bits + 7) / 8);
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    return static_cast<std::int64_t>(word & mask);
  }

  // The unread bytes.
  const std::uint8_t* rest() const { return data_; }
  std::size_t rest_size() const { return size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// An array in an allocation of exactly its size, so that AddressSanitizer
// detects out-of-bounds access; null if its size is zero.
template <typename T>
class ExactArray {
 public:
  // misalignment: offset in elements from an address with TensorFlow's
  // alignment, as in slices of tensors.
  explicit ExactArray(std::int64_t size, std::int64_t misalignment = 0)
      : size_(size) {
    if (size == 0) return;
    void* memory = nullptr;
    const std::size_t elements = static_cast<std::size_t>(size + misalignment);
    Require(posix_memalign(&memory, 64, elements * sizeof(T)) == 0,
            "there is enough memory");
    memory_.reset(static_cast<T*>(memory));
    data_ = memory_.get() + misalignment;
    Fill(0xff);
  }

  // Sets every byte.
  void Fill(int byte) {
    if (size_ > 0) std::memset(static_cast<void*>(data_), byte, bytes());
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(size_) * sizeof(T);
  }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };

  std::int64_t size_;
  std::unique_ptr<T[], Free> memory_;
  T* data_ = nullptr;
};

inline bool IsNan(Half value) { return (value.bits & 0x7fff) > 0x7c00; }
inline bool IsNan(BFloat16 value) { return (value.bits & 0x7fff) > 0x7f80; }
inline bool IsNan(float value) { return value != value; }
inline bool IsNan(double value) { return value != value; }

// Whether two arrays have the same bits, where any two NaNs count as equal.
template <typename T>
bool AreSame(const ExactArray<T>& a, const ExactArray<T>& b) {
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const T& x = a.data()[i];
    const T& y = b.data()[i];
    if (std::memcmp(&x, &y, sizeof(T)) != 0 && !(IsNan(x) && IsNan(y))) {
      return false;
    }
  }
  return a.size() == b.size();
}

template <typename T>
void RequireSame(const std::vector<ExactArray<T>>& results,
                 const std::vector<ExactArray<T>>& others) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    Require(AreSame(results[i], others[i]),
            "a pass gives the same bits for any executor and initial memory");
  }
}

// Runs a kernel of the engine with a workspace of exactly the size it requests.
// garbage: the initial byte of the workspace.
template <typename Pass, typename Workspace, typename Kernel>
void RunPass(Pass& a, Workspace workspace_size, Kernel kernel, int garbage,
             Executor& executor) {
  const std::int64_t size = workspace_size(a, executor.num_threads());
  Require(size >= 0, "the workspace size of a small pass does not overflow");
  ExactArray<char> workspace(size);
  workspace.Fill(garbage);
  a.workspace = workspace.data();
  kernel(a, executor);
}

// Generates the inputs of a network.
class Values {
 public:
  // are_any_bits: includes infinities, denormals and NaN; otherwise values are
  // between -1 and 1.
  Values(std::uint64_t seed, bool are_any_bits)
      : state_(seed), are_any_bits_(are_any_bits) {}

  template <typename T>
  void Fill(ExactArray<T>& array) {
    for (std::int64_t i = 0; i < array.size(); ++i) {
      if (are_any_bits_) {
        const std::uint64_t bits = Next();
        std::memcpy(&array.data()[i], &bits, sizeof(T));
      } else {
        array.data()[i] = Small<T>();
      }
    }
  }

 private:
  // SplitMix64.
  std::uint64_t Next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  template <typename T>
  T Small() {
    const std::uint64_t random = Next();
    if constexpr (sizeof(T) == 2) {
      // Any sign and fraction, and one of four exponents below one.
      constexpr int kFractionBits = std::is_same_v<T, Half> ? 10 : 7;
      constexpr int kBias = std::is_same_v<T, Half> ? 15 : 127;
      const std::uint64_t exponent = kBias - 1 - (random >> 16) % 4;
      const std::uint64_t fraction = random & ((1u << kFractionBits) - 1);
      const std::uint64_t sign = random & 0x8000;
      return T{static_cast<std::uint16_t>(sign | exponent << kFractionBits |
                                          fraction)};
    } else {
      return static_cast<T>(static_cast<double>(random >> 11) * 0x1p-52 - 1);
    }
  }

  std::uint64_t state_;
  const bool are_any_bits_;
};

// Runs everything on the calling thread, but in an order that threads might
// produce: the tasks of a step in reverse, each with another worker.
class ScatteringExecutor final : public Executor {
 public:
  explicit ScatteringExecutor(int num_threads, IsCancelled is_cancelled = {})
      : Executor(std::move(is_cancelled)), num_threads_(num_threads) {}

  int num_threads() const override { return num_threads_; }

 private:
  bool AreThreadsAwake() const override { return true; }
  void RunSteps(std::int64_t num_steps, std::int64_t tasks_per_step,
                const StepTask& task) override {
    for (std::int64_t step = 0; step < num_steps; ++step) {
      for (std::int64_t i = tasks_per_step; i > 0;) {
        task(step, --i, NextWorker());
      }
    }
  }
  void RunSequences(std::int64_t num_steps, std::int64_t num_sequences,
                    const StepTask& task) override {
    for (std::int64_t i = num_sequences; i > 0;) {
      --i;
      for (std::int64_t step = 0; step < num_steps; ++step) {
        task(step, i, NextWorker());
      }
    }
  }
  int NextWorker() { return worker_ = (worker_ + 1) % num_threads_; }

  const int num_threads_;
  int worker_ = 0;
};

inline InstructionSet ReadInstructionSet(FuzzInput& input) {
  static const std::vector<InstructionSet> supported =
      SupportedInstructionSets();
  return supported[static_cast<std::size_t>(input.Byte()) % supported.size()];
}

// Calls run(T()) for one of the four types.
template <typename Run>
void WithType(std::uint8_t choice, const Run& run) {
  switch (choice % 4) {
    case 0:
      return run(float());
    case 1:
      return run(double());
    case 2:
      return run(Half());
    default:
      return run(BFloat16());
  }
}

}  // namespace tf_rnn_ops::rnn

// The entry point of a target, called by libFuzzer and fuzz_corpus_main.cc.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

#endif  // TF_RNN_OPS_CC_RNN_FUZZ_SUPPORT_H_
