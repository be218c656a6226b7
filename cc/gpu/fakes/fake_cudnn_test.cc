#include "cc/gpu/fakes/fake_cudnn.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/gpu/fakes/expect_misuse.h"
#include "cc/rnn/test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

// Returns the first status that is not success.
cudnnStatus_t Try(const std::vector<std::function<cudnnStatus_t()>>& calls) {
  for (const auto& call : calls) {
    const cudnnStatus_t status = call();
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

// A program that uses cuDNN according to its documentation, for an LSTM or
// another network with one layer and direction.
class User {
 public:
  User(FakeCudaDriver* driver, const Cudnn& cudnn, cudnnHandle_t handle,
       const std::vector<int>& lengths)
      : cudnn(cudnn), handle(handle), lengths(lengths), driver_(driver) {
    cudnn.cudnnCreateRNNDescriptor(&rnn);
    for (auto* desc : {&x_desc, &y_desc}) {
      cudnn.cudnnCreateRNNDataDescriptor(desc);
    }
    for (auto* desc : {&h_desc, &c_desc}) {
      cudnn.cudnnCreateTensorDescriptor(desc);
    }
    EXPECT_EQ(Describe(), CUDNN_STATUS_SUCCESS);
    cudnn.cudnnGetRNNWeightSpaceSize(handle, rnn, &weight_bytes);
    EXPECT_EQ(AskForSizes(), CUDNN_STATUS_SUCCESS);
    for (float** array : {&x, &dx}) *array = New(rows() * input_size);
    for (float** array : {&y, &dy}) *array = New(rows() * units);
    for (float** array : {&hx, &hy, &dhy, &dhx, &cx, &cy, &dcy, &dcx}) {
      *array = New(batch() * units);
    }
    for (float** array : {&weights, &dweights}) *array = New(weight_bytes / 4);
    std::fill_n(dweights, weight_bytes / 4, 0.f);
    workspace = reinterpret_cast<char*>(New(workspace_bytes / 4 + 2));
    reserve = reinterpret_cast<char*>(New(reserve_bytes / 4));
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  ~User() {
    cudnn.cudnnDestroyRNNDescriptor(rnn);
    for (auto desc : {x_desc, y_desc})
      cudnn.cudnnDestroyRNNDataDescriptor(desc);
    for (auto desc : {h_desc, c_desc}) cudnn.cudnnDestroyTensorDescriptor(desc);
  }

  int batch() const { return static_cast<int>(lengths.size()); }
  int rows() const { return time * batch(); }

  // Sets the descriptors.
  cudnnStatus_t Describe() {
    const auto set_data = [&](cudnnRNNDataDescriptor_t desc, int width,
                              const std::vector<int>& lengths) {
      return cudnn.cudnnSetRNNDataDescriptor(
          desc, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, time, batch(),
          width, lengths.data(), padding_fill);
    };
    const auto set_state = [&](cudnnTensorDescriptor_t desc, int width) {
      const int dims[] = {layers, batch(), width};
      const int strides[] = {state_stride * batch() * width, width, 1};
      return cudnn.cudnnSetTensorNdDescriptor(desc, type, 3, dims, strides);
    };
    return Try({[&] {
                  return cudnn.cudnnSetRNNDescriptor_v8(
                      rnn, algo, mode, bias_mode, CUDNN_UNIDIRECTIONAL,
                      input_mode, type, precision, CUDNN_DEFAULT_MATH,
                      input_size, units, units + more_projection, layers,
                      dropout, flags);
                },
                [&] { return set_data(x_desc, input_size + more_x, lengths); },
                [&] { return set_data(y_desc, units + more_y, y_lengths); },
                [&] { return set_state(h_desc, units + more_h); },
                [&] { return set_state(c_desc, units + more_c); }});
  }

  cudnnStatus_t AskForSizes() {
    return cudnn.cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_TRAINING,
                                           x_desc, &workspace_bytes,
                                           &reserve_bytes);
  }
  cudnnStatus_t Forward() {
    return cudnn.cudnnRNNForward(
        handle, rnn, CUDNN_FWD_MODE_TRAINING, device_lengths, x_desc, x, y_desc,
        y, h_desc, hx, hy, c_desc, cx, cy, weight_bytes, weights,
        workspace_bytes, workspace, reserve_bytes, reserve);
  }
  cudnnStatus_t BackwardData() {
    return cudnn.cudnnRNNBackwardData_v8(
        handle, rnn, device_lengths, y_desc, y, dy, x_desc, dx, h_desc, hx, dhy,
        dhx, c_desc, cx, dcy, dcx, weight_bytes, weights, workspace_bytes,
        workspace, reserve_bytes, reserve);
  }
  cudnnStatus_t BackwardWeights() {
    return cudnn.cudnnRNNBackwardWeights_v8(
        handle, rnn, gradient_mode, device_lengths, x_desc, x, h_desc, hx,
        y_desc, y, weight_bytes, dweights, workspace_bytes, workspace,
        reserve_bytes, reserve);
  }
  cudnnStatus_t RunAll() {
    return Try({[&] { return Forward(); }, [&] { return BackwardData(); },
                [&] { return BackwardWeights(); }});
  }

  const Cudnn& cudnn;
  const cudnnHandle_t handle;
  cudnnRNNMode_t mode = CUDNN_LSTM;
  int layers = 1, input_size = 3, units = 4, time = 3;
  std::vector<int> lengths, y_lengths = lengths;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnRNNAlgo_t algo = CUDNN_RNN_ALGO_STANDARD;
  cudnnRNNBiasMode_t bias_mode = CUDNN_RNN_DOUBLE_BIAS;
  cudnnRNNInputMode_t input_mode = CUDNN_LINEAR_INPUT;
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  cudnnWgradMode_t gradient_mode = CUDNN_WGRAD_MODE_ADD;
  unsigned flags = CUDNN_RNN_PADDED_IO_ENABLED;
  // Added to sizes, to make them wrong.
  int more_projection = 0, more_x = 0, more_y = 0, more_h = 0, more_c = 0;
  int state_stride = 1;  // factor
  float zero = 0;
  float* padding_fill = &zero;
  cudnnRNNDescriptor_t rnn;
  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnRNNDataDescriptor_t x_desc, y_desc;
  cudnnTensorDescriptor_t h_desc, c_desc;
  std::size_t weight_bytes, workspace_bytes, reserve_bytes;
  const std::int32_t* device_lengths = nullptr;
  // On the GPU. The workspace can be shifted by 8 bytes.
  float *x, *y, *hx, *hy, *cx, *cy, *weights;
  float *dx, *dy, *dhx, *dhy, *dcx, *dcy, *dweights;
  char *workspace, *reserve;

 private:
  float* New(std::size_t size) {
    rnn::Array values = rnn::RandomArray(size, 0.7, generator_);
    arrays_.emplace_back(driver_, rnn::Rounded<float>(values));
    return arrays_.back().data();
  }

  FakeCudaDriver* const driver_;
  std::mt19937 generator_{1};
  std::deque<FakeDeviceArray<float>> arrays_;
};

class FakeCudnnTest : public testing::Test {
 protected:
  FakeCudnnTest() {
    driver_.driver()->cuCtxPushCurrent_v2(context_);
    EXPECT_EQ(cudnn().cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnn().cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  }
  ~FakeCudnnTest() override {
    EXPECT_EQ(cudnn().cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
    CUcontext popped;
    driver_.driver()->cuCtxPopCurrent_v2(&popped);
  }

  const Cudnn& cudnn() { return *fake_.cudnn(); }
  std::unique_ptr<User> NewUser(const std::vector<int>& lengths = {3, 3}) {
    return std::make_unique<User>(&driver_, cudnn(), handle_, lengths);
  }

  FakeCudaDriver driver_;
  CUcontext context_ = driver_.NewContext();
  CUstream stream_ = driver_.NewStream(context_);
  FakeCudnn fake_{&driver_};
  cudnnHandle_t handle_ = nullptr;
};

// ------------------------------------------------------------------- results
//
// The tests of the GPU engine compare them with the CPU engine.

TEST_F(FakeCudnnTest, LeavesPaddingUnchanged) {
  const auto user = NewUser({3, 1});
  std::fill_n(user->x + 3 * user->input_size, user->input_size, NAN);
  std::fill_n(user->dy + 3 * user->units, user->units, NAN);
  std::fill_n(user->dx, user->rows() * user->input_size, NAN);
  ASSERT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
  const auto count_nans = [](const float* begin, int size) {
    return std::count_if(begin, begin + size,
                         [](float value) { return std::isnan(value); });
  };
  EXPECT_EQ(count_nans(user->dx, user->rows() * user->input_size),
            2 * user->input_size);
  EXPECT_EQ(count_nans(user->dweights, user->weight_bytes / 4), 0);
}

TEST_F(FakeCudnnTest, AccumulatesWeightGradients) {
  const auto user = NewUser();
  const auto gradients = [&] {
    return std::vector<float>(user->dweights,
                              user->dweights + user->weight_bytes / 4);
  };
  ASSERT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
  std::vector<float> twice = gradients();
  ASSERT_EQ(user->BackwardWeights(), CUDNN_STATUS_SUCCESS);
  for (float& value : twice) value *= 2;
  EXPECT_EQ(gradients(), twice);
}

// -------------------------------------------------------------------- misuse

// An error in a program, and the expected message.
struct Misuse {
  const char* message;
  void (*change)(User& user);
};

class FakeCudnnMisuseTest : public FakeCudnnTest,
                            public testing::WithParamInterface<Misuse> {};

TEST_P(FakeCudnnMisuseTest, FailsTheTest) {
  const auto user = NewUser();
  GetParam().change(*user);
  const auto run = [&] {
    return Try(
        {[&] { return user->Describe(); }, [&] { return user->RunAll(); }});
  };
  EXPECT_MISUSE(run(), GetParam().message);
}

const Misuse kMisuses[] = {
    // Descriptors.
    {"a size that is not positive", [](User& u) { u.input_size = 0; }},
    {"a size that is not positive", [](User& u) { u.units = 0; }},
    {"a size that is not positive", [](User& u) { u.layers = 0; }},
    {"a size that is not positive", [](User& u) { u.more_x = -3; }},
    {"a size that is not positive", [](User& u) { u.more_h = -4; }},
    {"not between 1 and the hidden size",
     [](User& u) { u.more_projection = 1; }},
    {"a projection in a network that is not an LSTM",
     [](User& u) { u.more_projection = -2, u.mode = CUDNN_GRU; }},
    {"an input size other than the hidden size",
     [](User& u) { u.input_mode = CUDNN_SKIP_INPUT; }},
    {"wrong math precision", [](User& u) { u.precision = CUDNN_DATA_DOUBLE; }},
    {"padding requires CUDNN_RNN_PADDED_IO_ENABLED",
     [](User& u) { u.flags = 0; }},
    {"not support the dynamic algorithm",
     [](User& u) { u.algo = CUDNN_RNN_ALGO_PERSIST_DYNAMIC; }},
    {"a persistent algorithm with a projection",
     [](User& u) {
       u.algo = CUDNN_RNN_ALGO_PERSIST_STATIC, u.more_projection = -2;
     }},
    {"a persistent algorithm in float64",
     [](User& u) {
       u.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
       u.type = u.precision = CUDNN_DATA_DOUBLE;
     }},
    {"not time-major and of equal length",
     [](User& u) {
       u.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
       u.y_lengths = u.lengths = {3, 2};
     }},
    {"not support dropout",
     [](User& u) {
       u.dropout = reinterpret_cast<cudnnDropoutDescriptor_t>(&u.zero);
     }},
    {"only double biases", [](User& u) { u.bias_mode = CUDNN_RNN_NO_BIAS; }},
    {"lengths from 1 to 4", [](User& u) { u.lengths = {4, 1}; }},
    {"lengths from -1 to 1", [](User& u) { u.lengths = {-1, 1}; }},
    {"lengths from 0 to 0", [](User& u) { u.lengths = {0, 0}; }},
    {"too many steps", [](User& u) { u.time = 65536; }},
    {"only zeros as padding", [](User& u) { u.zero = 7; }},
    {"is on the GPU", [](User& u) { u.padding_fill = u.x; }},
    {"null for memory", [](User& u) { u.padding_fill = nullptr; }},
    {"a tensor that is not dense", [](User& u) { u.state_stride = 2; }},
    // Spaces.
    {"too small a weight space", [](User& u) { --u.weight_bytes; }},
    {"too small a workspace", [](User& u) { --u.workspace_bytes; }},
    {"too small a reserve space", [](User& u) { --u.reserve_bytes; }},
    {"workSpace: ", [](User& u) { u.workspace += 16; }},
    {"reserveSpace: ", [](User& u) { u.reserve += 16; }},
    {"is not aligned to 16", [](User& u) { u.workspace += 8; }},
    {"more weights than the real library supports",
     [](User& u) { u.units = 100000, u.y_lengths = u.lengths = {1, 1}; }},
    // Arrays.
    {"x: 72 bytes", [](User& u) { ++u.x; }},
    {"y: 96 bytes", [](User& u) { u.y = nullptr; }},
    {"dhx: 32 bytes", [](User& u) { ++u.dhx; }},
    {"cy: 32 bytes", [](User& u) { u.cy = &u.zero; }},
    {"hy and hx overlap", [](User& u) { u.hy = u.hx; }},
    {"devSeqLengths", [](User& u) { u.device_lengths = u.lengths.data(); }},
    {"differ from the lengths of x",
     [](User& u) { u.device_lengths = reinterpret_cast<std::int32_t*>(u.x); }},
    {"a cell state in a network that is not an LSTM",
     [](User& u) { u.mode = CUDNN_RNN_TANH; }},
    // Mismatched arguments.
    {"x is of another size", [](User& u) { u.more_x = 1; }},
    {"y is of another size", [](User& u) { u.more_y = 1; }},
    {"a state of another type or size", [](User& u) { u.more_h = 1; }},
    {"a state of another type or size", [](User& u) { u.more_c = 1; }},
    {"x and y have different sequences", [](User& u) { u.y_lengths = {3, 2}; }},
    {"a sequence of length 0",
     [](User& u) { u.y_lengths = u.lengths = {3, 0}; }},
    {"gradients can only be added",
     [](User& u) { u.gradient_mode = CUDNN_WGRAD_MODE_SET; }},
};
INSTANTIATE_TEST_SUITE_P(All, FakeCudnnMisuseTest, testing::ValuesIn(kMisuses));

TEST_F(FakeCudnnTest, ReserveSpaceIsUsedOnlyOnce) {
  const auto user = NewUser();
  EXPECT_MISUSE(user->BackwardData(), "does not come from cudnnRNNForward");
  ASSERT_EQ(user->Forward(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardWeights(),
                "does not come from cudnnRNNBackwardData_v8");
  user->algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  ASSERT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardData(), "of the same network and algorithm");
  user->algo = CUDNN_RNN_ALGO_STANDARD;
  ASSERT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  *user->y += 1;
  EXPECT_MISUSE(user->BackwardData(), "y is not that of the forward pass");
  *user->y -= 1;
  ASSERT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardData(), "does not come from cudnnRNNForward");
  user->reserve[999] ^= 1;
  EXPECT_MISUSE(user->BackwardWeights(), "was modified");
}

TEST_F(FakeCudnnTest, ReserveSpaceBelongsToOneNetwork) {
  const auto user = NewUser();
  ASSERT_EQ(user->Forward(), CUDNN_STATUS_SUCCESS);
  const auto other = NewUser({3, 2});
  std::copy_n(user->reserve, other->reserve_bytes, other->reserve);
  EXPECT_MISUSE(other->BackwardData(), "of the same network and algorithm");
}

TEST_F(FakeCudnnTest, DescriptorsMustExistAndBeSet) {
  const auto user = NewUser();
  cudnnTensorDescriptor_t desc;
  cudnn().cudnnCreateTensorDescriptor(&desc);
  std::swap(user->h_desc, desc);
  EXPECT_MISUSE(user->Forward(), "the Tensor descriptor was never set");
  std::swap(user->h_desc, desc);
  EXPECT_EQ(cudnn().cudnnDestroyTensorDescriptor(desc), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(cudnn().cudnnDestroyTensorDescriptor(desc),
                "the Tensor descriptor was destroyed");
  std::swap(user->h_desc, desc);
  EXPECT_MISUSE(user->Forward(), "the Tensor descriptor was destroyed");
  user->h_desc = reinterpret_cast<cudnnTensorDescriptor_t>(user->x_desc);
  EXPECT_MISUSE(user->Forward(), "the Tensor descriptor was destroyed");
  std::swap(user->h_desc, desc);
}

TEST(FakeCudnn, DetectsLeaks) {
  FakeCudaDriver driver;
  EXPECT_NONFATAL_FAILURE(
      {
        FakeCudnn fake(&driver);
        cudnnTensorDescriptor_t desc;
        fake.cudnn()->cudnnCreateTensorDescriptor(&desc);
      },
      "descriptors were not destroyed");
}

TEST_F(FakeCudnnTest, HandlesBelongToAContext) {
  const CUcontext other = driver_.NewContext();
  std::size_t num_bytes;
  driver_.driver()->cuCtxPushCurrent_v2(other);
  EXPECT_MISUSE(
      cudnn().cudnnGetRNNWeightSpaceSize(handle_, nullptr, &num_bytes),
      "the handle's context is not current");
  CUcontext popped;
  driver_.driver()->cuCtxPopCurrent_v2(&popped);
  EXPECT_MISUSE(cudnn().cudnnSetStream(handle_, driver_.NewStream(other)),
                "the stream's context is not current");
  EXPECT_EQ(fake_.num_handles(), 1);
  cudnnHandle_t handle;
  ASSERT_EQ(cudnn().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  {
    User user(&driver_, cudnn(), handle, {3, 3});
    EXPECT_MISUSE(user.Forward(), "the handle has no stream");
  }
  EXPECT_EQ(cudnn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(cudnn().cudnnDestroy(handle), "the handle was destroyed");
}

TEST_F(FakeCudnnTest, HandlesAreForOneThread) {
  const auto user = NewUser(std::vector<int>(256, 3));
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
        &failures);
    std::atomic<bool> is_done{false};
    const auto work = [&](const std::function<cudnnStatus_t()>& call) {
      for (int i = 0; i < 1000000; ++i) {
        if (is_done || call() != CUDNN_STATUS_SUCCESS) break;
      }
      is_done = true;
    };
    std::thread thread([&] {
      ScopedContext scope(*driver_.driver());
      ASSERT_TRUE(scope.Enter(stream_).ok());
      std::size_t workspace_bytes, reserve_bytes;
      work([&] {
        return cudnn().cudnnGetRNNTempSpaceSizes(
            user->handle, user->rnn, CUDNN_FWD_MODE_TRAINING, user->x_desc,
            &workspace_bytes, &reserve_bytes);
      });
    });
    work([&] { return user->Forward(); });
    thread.join();
  }
  ASSERT_GE(failures.size(), 1);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "another thread is using the handle",
                      failures.GetTestPartResult(0).message());
}

TEST_F(FakeCudnnTest, LimitsTheSizeOfStates) {
  const auto user = NewUser();
  user->layers = 1 << 16;
  user->more_h = 1 << 14;
  EXPECT_EQ(user->Describe(), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(FakeCudnnTest, ReturnsTheReasonOnce) {
  fake_.FailAny(CUDNN_STATUS_INTERNAL_ERROR);
  cudnn().cudnnSetStream(handle_, stream_);
  const auto check = [&] {
    return cudnn().Check(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream").message();
  };
  EXPECT_EQ(check(),
            "cudnnSetStream returned CUDNN_STATUS_2000 (the fake cuDNN fails)");
  EXPECT_EQ(check(), "cudnnSetStream returned CUDNN_STATUS_2000");
}

// As observed in cuDNN 9.3.
TEST_F(FakeCudnnTest, TruncatesMessages) {
  fake_.FailAny(CUDNN_STATUS_INTERNAL_ERROR);
  cudnn().cudnnSetStream(handle_, stream_);
  char text[] = "zzzzzzzz";
  cudnn().cudnnGetLastErrorString(text, 4);
  EXPECT_STREQ(text, "the zzzz");
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
