#include "cc/ops/cpu/packed_weights.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cc/ops/call_frame.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/network.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/status.h"
#include "gtest/gtest.h"

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
  PackedWeightsTest()
      : params_(rnn::CudnnRnnParamsSize(inputs_.config()), 0.5f),
        input_(kSize * kSize * kSize, 0.25f),
        output_(input_.size()),
        states_(4 * 2 * kSize * kSize) {
    EXPECT_TRUE(weights_.Init(Marked()).ok());
  }

  // The output of a pass.
  std::vector<float> Run(const void* memory) {
    rnn::NetworkForward<float> pass{};
    pass.config = inputs_.config();
    pass.size = {kSize, kSize};
    pass.time_major = true;
    pass.input = input_.data();
    float* state = states_.data();
    pass.input_h = state;
    pass.input_c = state + 2 * kSize * kSize;
    pass.output_h = state + 4 * kSize * kSize;
    pass.output_c = state + 6 * kSize * kSize;
    pass.params = params_.data();
    pass.output = output_.data();
    Frame frame(memory);
    EXPECT_TRUE(weights_.RunForward(&frame, inputs_, &pass).ok());
    is_packed_ = pass.packed_weights != nullptr;
    return output_;
  }

  Inputs inputs_;
  std::vector<float> params_, input_, output_, states_;
  ConstantWeights<float> weights_{{"params"}};
  bool is_packed_ = false;
};

TEST_F(PackedWeightsTest, MemoryIsWhatIdentifiesWeights) {
  const int memory[2] = {};
  const std::vector<float> first = Run(&memory[0]);
  EXPECT_TRUE(is_packed_);
  // Same memory: whoever changes it breaks a promise.
  std::fill(params_.begin(), params_.end(), -0.5f);
  EXPECT_EQ(Run(&memory[0]), first);
  // Another buffer at the same address.
  const std::vector<float> second = Run(&memory[1]);
  EXPECT_TRUE(is_packed_);
  EXPECT_NE(second, first);
  // Memory that others may write to.
  std::fill(params_.begin(), params_.end(), 0.5f);
  Run(nullptr);
  EXPECT_FALSE(is_packed_);
  EXPECT_LT(output_[0] * second[0], 0);
}

// Packing is optional: its failed allocations fail no call, and the next call
// packs.
TEST_F(PackedWeightsTest, AFailedAllocationDoesNotEndPacking) {
  const std::vector<float> expected = Run(nullptr);
  std::vector<int> memory(1000);
  Run(&memory[0]);
  num_allocations = 0;
  Run(&memory[0]);
  const int num_of_pass = num_allocations;
  num_allocations = 0;
  Run(&memory[1]);
  const int num_in_all = num_allocations;
  EXPECT_GT(num_in_all, num_of_pass);
  int num_failed = 0;
  for (int i = 0; i < num_in_all; ++i) {
    allocations_before_failure = i;
    try {
      Run(&memory[2 * i + 2]);
    } catch (const std::bad_alloc&) {
      ++num_failed;
    }
    allocations_before_failure = -1;
    Run(&memory[2 * i + 3]);
    EXPECT_TRUE(is_packed_) << i;
  }
  // No more than those of the pass itself.
  EXPECT_LE(num_failed, num_of_pass);
}

}  // namespace
}  // namespace tf_rnn_ops
