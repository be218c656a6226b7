#include "cc/ops/cpu/packed_weights.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"
#include "gtest/gtest.h"

extern "C" std::int64_t TfRnnOps_PackedWeightsBytes();

namespace {

// How many allocations of this thread succeed before one fails; negative if all
// succeed.
thread_local int allocations_before_failure = -1;
thread_local int num_allocations = 0;

bool Fails() {
  ++num_allocations;
  return allocations_before_failure >= 0 && allocations_before_failure-- == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = Fails() ? nullptr : std::malloc(size + (size == 0));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tf_rnn_ops {
namespace {

constexpr std::int64_t kSize = 4;  // of everything

// A call of an op with one input, the weights.
class Frame final : public CallFrame {
 public:
  // memory: or null if others may write to the weights.
  explicit Frame(const void* memory) : memory_(memory) {}

  const void* FindOwnMemory(const char*) override { return memory_; }
  std::shared_ptr<const void> Hold(const char*) override {
    return std::make_shared<int>();
  }
  Status FindInputs(const char*, std::vector<Array>*) override {
    return Status();
  }
  int NumOutputs(const char*) const override { return 0; }
  Status MakeOutputs(const char*, const std::vector<Shape>&,
                     std::vector<Array>*) override {
    return Status();
  }
  bool IsWanted(const char*) const override { return true; }
  Status MakeScratch(std::int64_t num_bytes, void** memory) override {
    scratch_.push_back(PackedWeights::Allocate(num_bytes));
    *memory = scratch_.back()->data();
    return Status();
  }
  Threads FindThreads() override { return {}; }

 private:
  const void* const memory_;
  std::vector<std::unique_ptr<PackedWeights>> scratch_;
};

struct Marked final : Attributes {
  bool Has(const char*) const override { return true; }
  Status Get(const char*, bool*) const override { return Status(); }
  Status Get(const char*, std::int64_t*) const override { return Status(); }
  Status Get(const char*, float*) const override { return Status(); }
  Status Get(const char*, std::string* value) const override {
    *value = "int8";
    return Status();
  }
  Status Get(const char*, std::vector<std::string>*) const override {
    return Status();
  }
  Status MakeSeeds(std::uint64_t*, std::uint64_t*) const override {
    return Status();
  }
};

struct Inputs {
  const rnn::RnnConfig& config() const { return config_; }
  Status TooLarge() const { return InvalidArgument("too large"); }

  rnn::RnnConfig config_{rnn::RnnMode::kLstm, false, 1, 2, kSize, kSize, 0};
};

class PackedWeightsTest : public testing::Test {
 protected:
  struct Result {
    std::vector<float> output;
    bool is_packed;
  };

  PackedWeightsTest() { EXPECT_TRUE(weights_.Init(Marked()).ok()); }

  std::vector<float> Params(float value) const {
    return std::vector<float>(rnn::CudnnRnnParamsSize(inputs_.config()), value);
  }

  // Runs a pass. memory: the identity of the weights.
  Result Run(const void* memory, const std::vector<float>& params) {
    constexpr std::int64_t kStates = 2 * kSize * kSize;
    const std::vector<float> input(kSize * kSize * kSize, 0.25f);
    const std::vector<float> states(kStates);
    std::vector<float> output(input.size()), output_h(kStates),
        output_c(kStates);
    rnn::NetworkForward<float> pass{};
    pass.config = inputs_.config();
    pass.size = {kSize, kSize};
    pass.time_major = true;
    pass.input = input.data();
    pass.input_h = pass.input_c = states.data();
    pass.weights = rnn::Weights<const float>::Cudnn(params.data());
    pass.output = output.data();
    pass.output_h = output_h.data();
    pass.output_c = output_c.data();
    Frame frame(memory);
    EXPECT_TRUE(weights_.RunForward(&frame, inputs_, &pass).ok());
    return {output, pass.weights.is_packed()};
  }

  const Inputs inputs_;
  ConstantWeights<float> weights_{{"params"}};
};

TEST_F(PackedWeightsTest, MemoryIdentifiesWeights) {
  const char memory[2] = {};
  std::vector<float> params = Params(0.5f);
  const Result first = Run(&memory[0], params);
  EXPECT_TRUE(first.is_packed);
  // The framework has promised that they have not changed.
  params.assign(params.size(), -0.5f);
  EXPECT_EQ(Run(&memory[0], params).output, first.output);
  // Other memory at the same address.
  const Result second = Run(&memory[1], params);
  EXPECT_TRUE(second.is_packed);
  EXPECT_LT(first.output[0] * second.output[0], 0);
  // Memory that others may write to.
  params.assign(params.size(), 0.5f);
  const Result third = Run(nullptr, params);
  EXPECT_FALSE(third.is_packed);
  EXPECT_EQ(TfRnnOps_PackedWeightsBytes(), 0);
  EXPECT_LT(second.output[0] * third.output[0], 0);
}

// Packing is optional: its failed allocations fail no call, and the next call
// packs.
TEST_F(PackedWeightsTest, AFailedAllocationDoesNotEndPacking) {
  const std::vector<float> params = Params(0.5f);
  const std::vector<char> memory(1000);
  const auto count = [&](const char* identity) {
    num_allocations = 0;
    Run(identity, params);
    return num_allocations;
  };
  const int num_in_all = count(&memory[0]);
  const int num_of_pass = count(&memory[0]);
  ASSERT_GT(num_in_all, num_of_pass);
  int num_failed = 0;
  for (int i = 0; i < num_in_all; ++i) {
    allocations_before_failure = i;
    try {
      Run(&memory[2 * i + 1], params);
    } catch (const std::bad_alloc&) {
      ++num_failed;
    }
    allocations_before_failure = -1;
    EXPECT_TRUE(Run(&memory[2 * i + 2], params).is_packed) << i;
  }
  EXPECT_LE(num_failed, num_of_pass);
}

// Each result is that of its own weights.
TEST_F(PackedWeightsTest, ThreadsThatPackAndGiveUpWeights) {
  const std::vector<float> params[] = {Params(0.5f), Params(-0.5f)};
  const char memory[2] = {};
  // float32 for weights that are not packed, eight bits for others.
  const std::vector<float> expected[][2] = {
      {Run(nullptr, params[0]).output, Run(&memory[0], params[0]).output},
      {Run(nullptr, params[1]).output, Run(&memory[1], params[1]).output}};
  std::vector<std::thread> threads;
  std::atomic<int> num_wrong{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 500; ++i) {
        const int which = (i / (thread + 1)) % 2;
        const bool has_identity = i % 7 > 0;
        const Result result =
            Run(has_identity ? &memory[which] : nullptr, params[which]);
        num_wrong += result.output != expected[which][has_identity];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

// A forked process has no threads but the one that forked.
TEST_F(PackedWeightsTest, AForkedProcessPacksForItself) {
  const std::vector<float> params = Params(0.5f);
  const char memory[3] = {};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    for (int i = 0; !ends; ++i) {
      Run(&memory[i % 2], params);
      PackedWeights::Share(PackedWeights::Allocate(1 << 20));
    }
  });
  int status = 0;
  for (int i = 0; i < 200 && status == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(Run(&memory[2], params).is_packed ? 0 : 1);
    }
    waitpid(child, &status, 0);
  }
  ends = true;
  other.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tf_rnn_ops
