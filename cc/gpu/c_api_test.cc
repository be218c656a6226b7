#include "cc/gpu/c_api.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "cc/gpu/c_api_test_support.h"
#include "cc/gpu/cudnn_rnn_test_support.h"
#include "cc/gpu/fakes/fake_gpu_library.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

using rnn::kTolerance;
using rnn::RnnMode;

// The network and tensors of a case.
template <typename T>
class CaseNetwork {
 public:
  CaseNetwork(Gpu* gpu, const rnn::Case& k)
      : gpu_(*gpu),
        k_(k),
        call_(gpu->Call()),
        sequences_{k.size.time, k.size.batch, k.time_major,
                   k.lengths.empty() ? nullptr : k.lengths.data()},
        input_(gpu->Copy<T>(k.input)),
        input_h_(gpu->Copy<T>(k.input_h)),
        input_c_(gpu->Copy<T>(k.input_c)),
        params_(gpu->Copy<T>(k.params)),
        output_(gpu->Like<T>(k.d_output)) {
    const rnn::RnnConfig& config = k.config;
    TfRnnOpsGpu_NetworkOptions options{};
    options.type = kType<T>;
    options.mode = static_cast<int>(config.mode);
    options.skip_input = config.skip_input;
    options.num_directions = static_cast<int>(config.num_directions);
    options.num_layers = config.num_layers;
    options.input_size = config.input_size;
    options.num_units = config.num_units;
    options.num_proj = config.num_proj;
    options.dropout = k.dropout;
    ExpectOk(TfRnnOpsGpu_MakeNetwork(&options, &network_));
  }
  ~CaseNetwork() { TfRnnOpsGpu_FreeNetwork(network_); }

  std::int64_t ParamsSize() {
    std::int64_t size = -1;
    ExpectOk(TfRnnOpsGpu_ParamsSize(network_, &size));
    return size;
  }

  rnn::ForwardResult Forward(bool is_training) {
    T* const output_h = gpu_.Like<T>(k_.input_h);
    T* const output_c = gpu_.Like<T>(k_.input_c);
    reserve_space_ = is_training ? MakeReserveSpace() : nullptr;
    const TfRnnOpsGpu_Forward pass = {input_,   input_h_,       input_c_,
                                      params_,  output_,        output_h,
                                      output_c, reserve_space_, kDropout};
    ExpectOk(TfRnnOpsGpu_RunForward(network_, &call_, &sequences_, &pass));
    return {ToDoubles(output_, k_.d_output.size()),
            ToDoubles(output_h, k_.input_h.size()),
            ToDoubles(output_c, k_.input_c.size())};
  }

  rnn::BackwardResult Backward(bool wants_params = true,
                               bool owns_reserve_space = false) {
    T* const d_input = gpu_.Like<T>(k_.input);
    T* const d_h = gpu_.Like<T>(k_.input_h);
    T* const d_c = gpu_.Like<T>(k_.input_c);
    T* const d_params = wants_params ? gpu_.Like<T>(k_.params) : nullptr;
    const TfRnnOpsGpu_Backward pass = {input_,
                                       input_h_,
                                       input_c_,
                                       params_,
                                       output_,
                                       gpu_.Copy<T>(k_.d_output),
                                       gpu_.Copy<T>(k_.d_output_h),
                                       gpu_.Copy<T>(k_.d_output_c),
                                       reserve_space_,
                                       owns_reserve_space,
                                       kDropout,
                                       d_input,
                                       d_h,
                                       d_c,
                                       d_params};
    ExpectOk(TfRnnOpsGpu_RunBackward(network_, &call_, &sequences_, &pass));
    return {ToDoubles(d_input, k_.input.size()),
            ToDoubles(d_h, k_.input_h.size()),
            ToDoubles(d_c, k_.input_c.size()),
            ToDoubles(d_params, wants_params ? k_.params.size() : 0)};
  }

  rnn::BackwardGradResult BackwardGrad() {
    T* const input = gpu_.Like<T>(k_.input);
    T* const input_h = gpu_.Like<T>(k_.input_h);
    T* const input_c = gpu_.Like<T>(k_.input_c);
    T* const params = gpu_.Like<T>(k_.params);
    T* const d_output = gpu_.Like<T>(k_.d_output);
    T* const d_output_h = gpu_.Like<T>(k_.d_output_h);
    T* const d_output_c = gpu_.Like<T>(k_.d_output_c);
    const TfRnnOpsGpu_BackwardGrad pass = {input_,
                                           input_h_,
                                           input_c_,
                                           params_,
                                           gpu_.Copy<T>(k_.d_output),
                                           gpu_.Copy<T>(k_.d_output_h),
                                           gpu_.Copy<T>(k_.d_output_c),
                                           kDropout,
                                           gpu_.Copy<T>(k_.dot_input),
                                           gpu_.Copy<T>(k_.dot_input_h),
                                           gpu_.Copy<T>(k_.dot_input_c),
                                           gpu_.Copy<T>(k_.dot_params),
                                           input,
                                           input_h,
                                           input_c,
                                           params,
                                           d_output,
                                           d_output_h,
                                           d_output_c};
    ExpectOk(TfRnnOpsGpu_RunBackwardGrad(network_, &call_, &sequences_, &pass));
    return {ToDoubles(input, k_.input.size()),
            ToDoubles(input_h, k_.input_h.size()),
            ToDoubles(input_c, k_.input_c.size()),
            ToDoubles(params, k_.params.size()),
            ToDoubles(d_output, k_.d_output.size()),
            ToDoubles(d_output_h, k_.d_output_h.size()),
            ToDoubles(d_output_c, k_.d_output_c.size())};
  }

 private:
  static constexpr TfRnnOpsGpu_RandomStream kDropout = {
      rnn::kStream.key, rnn::kStream.counter_low, rnn::kStream.counter_high};

  void* MakeReserveSpace() {
    std::size_t num_bytes = 0;
    const char* algorithm = nullptr;
    ExpectOk(TfRnnOpsGpu_ReserveSpace(network_, &call_, &sequences_, &num_bytes,
                                      &algorithm));
    EXPECT_NE(algorithm, nullptr);
    return gpu_.Allocate(num_bytes);
  }

  Gpu& gpu_;
  const rnn::Case& k_;
  const TfRnnOpsGpu_Call call_;
  const TfRnnOpsGpu_Sequences sequences_;
  T *const input_, *const input_h_, *const input_c_, *const params_,
                                                         *const output_;
  void* reserve_space_ = nullptr;
  TfRnnOpsGpu_Network* network_ = nullptr;
};

template <typename T>
class CApiTypedTest : public CApiTest {};
TYPED_TEST_SUITE(CApiTypedTest, rnn::StorageTypes);

// ---------------------------------------------------------------------------
// Networks

// A few small networks. The engine's tests cover all.
std::vector<rnn::Case> Cases() {
  std::vector<rnn::Case> cases;
  for (rnn::Case& k : rnn::Cases()) {
    if (k.config.has_keras_weights || k.size.time > 9) continue;
    if (k.config.num_units > 20) continue;
    cases.push_back(k);
  }
  cases.push_back(rnn::RandomCase({RnnMode::kLstm, false, 1, 2, 3, 5, 4}, {}));
  cases.push_back(
      rnn::RandomCase({RnnMode::kGru, false, 2, 1, 3, 5, 0}, {0, 2}));
  return cases;
}

TYPED_TEST(CApiTypedTest, NetworksEqualTheCpuEngine) {
  using T = TypeParam;
  const std::vector<rnn::Case> cases = Cases();
  EXPECT_GT(cases.size(), 20);
  for (bool has_bfloat16 : {false, true}) {
    if (has_bfloat16 && kType<T> != TF_RNN_OPS_GPU_BFLOAT16) continue;
    TfRnnOpsFake_SetCudnnVersion(has_bfloat16 ? 91300 : 90300);
    for (rnn::Case k : cases) {
      SCOPED_TRACE(rnn::Describe(k));
      Gpu gpu;
      CpuNetwork<T> cpu(k);
      CaseNetwork<T> network(&gpu, k);
      EXPECT_EQ(network.ParamsSize(), rnn::CudnnRnnParamsSize(k.config));
      ExpectSame(network.Forward(false), cpu.Forward(false), kTolerance<T>);
      ExpectSame(network.Forward(true), cpu.Forward(true), kTolerance<T>);
      const rnn::BackwardResult expected = cpu.Backward();
      const rnn::BackwardResult backward = network.Backward();
      ExpectSame(backward, expected, kTolerance<T>);
      const rnn::BackwardResult again = network.Backward(false);
      EXPECT_EQ(again.input, backward.input);
      EXPECT_EQ(again.input_h, backward.input_h);
      EXPECT_EQ(again.input_c, backward.input_c);
      // This pass may overwrite the reserve space.
      const rnn::BackwardResult last =
          network.Backward(true, /*owns_reserve_space=*/true);
      EXPECT_EQ(last.input, backward.input);
      EXPECT_EQ(last.params, backward.params);
    }
  }
}

TYPED_TEST(CApiTypedTest, SecondDerivativesEqualTheCpuEngine) {
  using T = TypeParam;
  rnn::SerialExecutor executor;
  for (rnn::Case k : Cases()) {
    k.dropout = 0.5f;
    SCOPED_TRACE(rnn::Describe(k));
    Gpu gpu;
    rnn::Engine<T> cpu(rnn::InstructionSet::kBaseline, k);
    cpu.Forward(/*is_training=*/true, executor);
    rnn::ExpectAllClose(k.config, CaseNetwork<T>(&gpu, k).BackwardGrad(),
                        cpu.BackwardGrad(executor), kTolerance<T>);
  }
}

TEST_F(CApiTest, ThreadsRunNetworksConcurrently) {
  rnn::Case k = rnn::RandomCase({RnnMode::kLstm, false, 2, 2, 5, 7, 0}, {9, 4});
  CpuNetwork<float> cpu(k);
  const rnn::ForwardResult forward = cpu.Forward(true);
  const rnn::BackwardResult backward = cpu.Backward();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&k, &forward, &backward] {
      for (int repetition = 0; repetition < 10; ++repetition) {
        Gpu gpu;
        CaseNetwork<float> network(&gpu, k);
        ExpectSame(network.Forward(true), forward, kTolerance<float>);
        ExpectSame(network.Backward(), backward, kTolerance<float>);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---------------------------------------------------------------------------
// Invalid arguments

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

constexpr TfRnnOpsGpu_NetworkOptions kLstm = {
    TF_RNN_OPS_GPU_FLOAT, TF_RNN_OPS_GPU_LSTM, 0, 1, 1, 3, 5, 0, 0, 0, 0};

TEST_F(CApiTest, RejectsInvalidNetworks) {
  struct InvalidNetwork {
    std::function<void(TfRnnOpsGpu_NetworkOptions*)> change;
    std::string message;
  };
  for (const auto& [change, message] : std::vector<InvalidNetwork>{
           {[](auto* o) { o->type = 4; },
            "type must be between 0 and 3, but is 4"},
           {[](auto* o) { o->mode = -1; },
            "mode must be between 0 and 3, but is -1"},
           {[](auto* o) { o->num_directions = 3; },
            "num_directions must be between 1 and 2, but is 3"},
           {[](auto* o) { o->num_layers = 0; },
            "num_layers must be between 1 and 2147483647, but is 0"},
           {[](auto* o) { o->num_layers = kMax; },
            "num_layers must be between 1 and 2147483647, but is "
            "9223372036854775807"},
           {[](auto* o) { o->input_size = -1; },
            "input_size must be at least 0, but is -1"},
           {[](auto* o) { o->num_units = -2; },
            "num_units must be at least 0, but is -2"},
           {[](auto* o) { o->num_proj = -3; },
            "num_proj must not be negative, but is -3"},
           {[](auto* o) { o->num_proj = 6; },
            "num_proj must be at most num_units = 5, but is 6"},
           {[](auto* o) { o->dropout = 1.5; },
            "dropout must be between 0 and 1, but is 1.5"},
           {[](auto* o) { o->dropout = std::nanf(""); },
            "dropout must be between 0 and 1, but is nan"},
           {[](auto* o) { o->skip_input = 1; },
            "input_size must be num_units = 5 where input_mode is skip_input, "
            "but is 3"},
           {[](auto* o) { o->num_units = kMax; },
            "params must have a size that fits in int64, but "
            "num_layers is 1, num_units 9223372036854775807, input_size 3 and "
            "num_proj 0"},
       }) {
    TfRnnOpsGpu_NetworkOptions options = kLstm;
    change(&options);
    TfRnnOpsGpu_Network* network = nullptr;
    ExpectInvalid(TfRnnOpsGpu_MakeNetwork(&options, &network), message);
    EXPECT_EQ(network, nullptr);
  }
  ExpectInvalid(TfRnnOpsGpu_MakeNetwork(&kLstm, nullptr),
                "network must not be null");
  TfRnnOpsGpu_FreeNetwork(nullptr);
}

// Valid arguments for the calls of a network.
class CApiArgumentsTest : public CApiTest {
 protected:
  CApiArgumentsTest() {
    ExpectOk(TfRnnOpsGpu_MakeNetwork(&kLstm, &network_));
    const char* algorithm;
    std::size_t num_bytes;
    ExpectOk(TfRnnOpsGpu_ReserveSpace(network_, &call_, &sequences_, &num_bytes,
                                      &algorithm));
    void* const reserve_space = gpu_.Allocate(num_bytes);
    const auto array = [this] { return gpu_.Copy<float>(rnn::Array(200)); };
    forward_ = {array(), array(), array(),       array(), array(),
                array(), array(), reserve_space, {}};
    backward_ = {array(), array(), array(), array(),       array(),
                 array(), array(), array(), reserve_space, 0,
                 {},      array(), array(), array(),       array()};
    backward_grad_.input = array();
    backward_grad_.input_h = array();
    backward_grad_.input_c = array();
    backward_grad_.params = array();
    backward_grad_.output_backprop = array();
    backward_grad_.output_h_backprop = array();
    backward_grad_.output_c_backprop = array();
  }
  ~CApiArgumentsTest() override { TfRnnOpsGpu_FreeNetwork(network_); }

  int Forward() {
    return TfRnnOpsGpu_RunForward(network_, &call_, &sequences_, &forward_);
  }
  int Backward() {
    return TfRnnOpsGpu_RunBackward(network_, &call_, &sequences_, &backward_);
  }
  int BackwardGrad() {
    return TfRnnOpsGpu_RunBackwardGrad(network_, &call_, &sequences_,
                                       &backward_grad_);
  }

  Gpu gpu_;
  TfRnnOpsGpu_Network* network_ = nullptr;
  TfRnnOpsGpu_Call call_ = gpu_.Call();
  TfRnnOpsGpu_Sequences sequences_ = {2, 3, 1, nullptr};
  TfRnnOpsGpu_Forward forward_;
  TfRnnOpsGpu_Backward backward_;
  TfRnnOpsGpu_BackwardGrad backward_grad_{};
};

TEST_F(CApiArgumentsTest, RejectsAForwardPassWithAMissingArray) {
  using Pass = TfRnnOpsGpu_Forward;
  const auto run = [this] { return Forward(); };
  ExpectNeeds(&forward_, &Pass::input, "input", 18, run);
  ExpectNeeds(&forward_, &Pass::input_h, "input_h", 15, run);
  ExpectNeeds(&forward_, &Pass::input_c, "input_c", 15, run);
  ExpectNeeds(&forward_, &Pass::params, "params", 200, run);
  ExpectNeeds(&forward_, &Pass::output, "output", 30, run);
  ExpectNeeds(&forward_, &Pass::output_h, "output_h", 15, run);
  ExpectNeeds(&forward_, &Pass::output_c, "output_c", 15, run);
  ExpectOk(Forward());
}

TEST_F(CApiArgumentsTest, RejectsABackwardPassWithAMissingArray) {
  using Pass = TfRnnOpsGpu_Backward;
  ExpectOk(Forward());
  const auto run = [this] { return Backward(); };
  ExpectNeeds(&backward_, &Pass::input, "input", 18, run);
  ExpectNeeds(&backward_, &Pass::input_h, "input_h", 15, run);
  ExpectNeeds(&backward_, &Pass::input_c, "input_c", 15, run);
  ExpectNeeds(&backward_, &Pass::params, "params", 200, run);
  ExpectNeeds(&backward_, &Pass::output, "output", 30, run);
  ExpectNeeds(&backward_, &Pass::output_backprop, "output_backprop", 30, run);
  ExpectNeeds(&backward_, &Pass::output_h_backprop, "output_h_backprop", 15,
              run);
  ExpectNeeds(&backward_, &Pass::output_c_backprop, "output_c_backprop", 15,
              run);
  ExpectNeeds(&backward_, &Pass::input_backprop, "input_backprop", 18, run);
  ExpectNeeds(&backward_, &Pass::input_h_backprop, "input_h_backprop", 15, run);
  ExpectNeeds(&backward_, &Pass::input_c_backprop, "input_c_backprop", 15, run);
  backward_.reserve_space = nullptr;
  ExpectInvalid(Backward(), "reserve_space must not be null");
  backward_.reserve_space = forward_.reserve_space;
  ExpectOk(Backward());
}

TEST_F(CApiArgumentsTest, RejectsABackwardGradPassWithAMissingArray) {
  using Pass = TfRnnOpsGpu_BackwardGrad;
  const auto run = [this] { return BackwardGrad(); };
  ExpectNeeds(&backward_grad_, &Pass::input, "input", 18, run);
  ExpectNeeds(&backward_grad_, &Pass::input_h, "input_h", 15, run);
  ExpectNeeds(&backward_grad_, &Pass::input_c, "input_c", 15, run);
  ExpectNeeds(&backward_grad_, &Pass::params, "params", 200, run);
  ExpectNeeds(&backward_grad_, &Pass::output_backprop, "output_backprop", 30,
              run);
  ExpectNeeds(&backward_grad_, &Pass::output_h_backprop, "output_h_backprop",
              15, run);
  ExpectNeeds(&backward_grad_, &Pass::output_c_backprop, "output_c_backprop",
              15, run);
  ExpectOk(BackwardGrad());  // the others may be null
}

TEST_F(CApiArgumentsTest, RejectsNull) {
  const char* algorithm;
  std::size_t num_bytes;
  std::int64_t size;
  ExpectInvalid(TfRnnOpsGpu_MakeNetwork(nullptr, &network_),
                "options must not be null");
  ExpectInvalid(TfRnnOpsGpu_ParamsSize(nullptr, &size),
                "network must not be null");
  ExpectInvalid(TfRnnOpsGpu_ParamsSize(network_, nullptr),
                "size must not be null");
  ExpectInvalid(TfRnnOpsGpu_ReserveSpace(network_, &call_, &sequences_, nullptr,
                                         &algorithm),
                "num_bytes must not be null");
  ExpectInvalid(TfRnnOpsGpu_ReserveSpace(network_, &call_, &sequences_,
                                         &num_bytes, nullptr),
                "algorithm must not be null");
  const struct {
    TfRnnOpsGpu_Network* network;
    const TfRnnOpsGpu_Call* call;
    const TfRnnOpsGpu_Sequences* sequences;
    const TfRnnOpsGpu_Forward* pass;
    const char* name;
  } calls[] = {{nullptr, &call_, &sequences_, &forward_, "network"},
               {network_, nullptr, &sequences_, &forward_, "call"},
               {network_, &call_, nullptr, &forward_, "sequences"},
               {network_, &call_, &sequences_, nullptr, "pass"}};
  for (const auto& [network, call, sequences, pass, name] : calls) {
    ExpectInvalid(TfRnnOpsGpu_RunForward(network, call, sequences, pass),
                  std::string(name) + " must not be null");
  }
  ExpectInvalid(TfRnnOpsGpu_RunBackward(network_, &call_, &sequences_, nullptr),
                "pass must not be null");
  ExpectInvalid(
      TfRnnOpsGpu_RunBackwardGrad(network_, &call_, &sequences_, nullptr),
      "pass must not be null");
  call_.allocate_scratch = nullptr;
  ExpectInvalid(Forward(), "allocate_scratch must not be null");
}

TEST_F(CApiArgumentsTest, RejectsInvalidSequences) {
  const std::int32_t lengths[] = {2, 3, 0};
  const std::int32_t negative[] = {2, 0, -1};
  const struct {
    TfRnnOpsGpu_Sequences sequences;
    const char* message;
  } cases[] = {
      {{-1, 3, 1, nullptr}, "time must be at least 0, but is -1"},
      {{2, -1, 1, nullptr}, "batch must be at least 0, but is -1"},
      {{2, 3, 1, lengths},
       "lengths[1] must be between 0 and time = 2, but is 3"},
      {{2, 3, 1, negative},
       "lengths[2] must be between 0 and time = 2, but is -1"},
      {{kMax, 3, 1, nullptr},
       "input is too large: its size in bytes must fit in 64 bits"},
      {{2, kMax / 16, 1, nullptr},
       "input is too large: its size in bytes must fit in 64 bits"},
      {{0, kMax / 16, 1, nullptr},
       "input_h is too large: its size in bytes must fit in 64 bits"},
  };
  for (const auto& [sequences, message] : cases) {
    sequences_ = sequences;
    ExpectInvalid(Forward(), message);
    ExpectInvalid(Backward(), message);
    ExpectInvalid(BackwardGrad(), message);
  }
}

TEST_F(CApiArgumentsTest, RejectsUnalignedMemory) {
  const std::string message =
      "reserve_space must be aligned to 256 bytes, but its address modulo 256 "
      "is 16";
  void* const reserve_space = forward_.reserve_space;
  forward_.reserve_space = static_cast<char*>(reserve_space) + 16;
  ExpectInvalid(Forward(), message);
  backward_.reserve_space = forward_.reserve_space;
  ExpectInvalid(Backward(), message);
  forward_.reserve_space = reserve_space;
  call_.allocate_scratch = [](void* gpu, std::size_t num_bytes) -> void* {
    return static_cast<char*>(static_cast<Gpu*>(gpu)->Allocate(num_bytes + 8)) +
           8;
  };
  EXPECT_EQ(Forward(), TF_RNN_OPS_GPU_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(TfRnnOpsGpu_LastError())
                .find("scratch memory must be aligned to 256 bytes, but its "
                      "address modulo 256 is 8: rnn_mode lstm"),
            0);
}

TEST_F(CApiArgumentsTest, OptionalArraysMayBeNull) {
  ExpectOk(Forward());
  backward_.params_backprop = nullptr;
  ExpectOk(Backward());
  forward_.reserve_space = nullptr;
  ExpectOk(Forward());
}

TEST_F(CApiArgumentsTest, ReportsOutOfMemory) {
  call_.allocate_scratch = [](void*, std::size_t) -> void* { return nullptr; };
  EXPECT_EQ(Forward(), TF_RNN_OPS_GPU_OUT_OF_MEMORY);
  const std::string message = TfRnnOpsGpu_LastError();
  EXPECT_EQ(message.find("allocate_scratch returned null for "), 0) << message;
  EXPECT_NE(message.find("num_units 5"), std::string::npos) << message;
  call_ = gpu_.Call();
  ExpectOk(Forward());
}

TEST_F(CApiArgumentsTest, EachThreadHasItsLastError) {
  forward_.input = nullptr;
  std::thread([this] { Forward(); }).join();
  forward_.output = nullptr;
  forward_.input = backward_.input;
  ExpectInvalid(Forward(), "output must have 30 elements, but is null");
  std::thread([] { EXPECT_STREQ(TfRnnOpsGpu_LastError(), ""); }).join();
  EXPECT_STREQ(TfRnnOpsGpu_LastError(),
               "output must have 30 elements, but is null");
}

TEST_F(CApiTest, DescribesTheLibraries) {
  const std::string lines = TfRnnOpsGpu_Libraries();
  for (const char* name : {"libcuda.so.1: ", "libcudnn.so.9: version ",
                           "libcublas.so.12: version "}) {
    EXPECT_NE(lines.find(name), std::string::npos) << lines;
  }
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
