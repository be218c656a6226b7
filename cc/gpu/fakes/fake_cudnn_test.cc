#include "cc/gpu/fakes/fake_cudnn.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

using rnn::Array;

struct Settings {
  cudnnRNNMode_t mode = CUDNN_LSTM;
  int directions = 1;
  int layers = 1;
  int input_size = 3;
  int units = 4;
  int time = 3;
  std::vector<int> lengths = {3, 3};
  bool time_major = true;

  int batch() const { return static_cast<int>(lengths.size()); }
  int pseudo_layers() const { return directions * layers; }
  int width() const { return directions * units; }
  int rows() const { return time * batch(); }
  int state_size() const { return pseudo_layers() * batch() * units; }
  int Row(int t, int b) const {
    return time_major ? t * batch() + b : b * time + t;
  }
};

// Returns the first status that is not success.
cudnnStatus_t Try(const std::vector<std::function<cudnnStatus_t()>>& calls) {
  for (const auto& call : calls) {
    const cudnnStatus_t status = call();
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

// A program that uses cuDNN according to its documentation.
class User {
 public:
  User(FakeCudaDriver* driver, const Cudnn& cudnn, cudnnHandle_t handle,
       const Settings& settings)
      : cudnn(cudnn), handle(handle), s(settings), driver_(driver) {
    cudnn.cudnnCreateRNNDescriptor(&rnn);
    cudnn.cudnnCreateRNNDataDescriptor(&x_desc);
    cudnn.cudnnCreateRNNDataDescriptor(&y_desc);
    for (auto* desc : {&h_desc, &c_desc, &matrix_desc, &bias_desc}) {
      cudnn.cudnnCreateTensorDescriptor(desc);
    }
    EXPECT_EQ(Describe(), CUDNN_STATUS_SUCCESS);
    cudnn.cudnnGetRNNWeightSpaceSize(handle, rnn, &weight_bytes);
    cudnn.cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_TRAINING,
                                    x_desc, &workspace_bytes, &reserve_bytes);
    x = New(s.rows() * s.input_size);
    dx = New(s.rows() * s.input_size);
    for (float** array : {&y, &dy}) *array = New(s.rows() * s.width());
    for (float** array : {&hx, &hy, &dhy, &dhx}) *array = New(s.state_size());
    if (s.mode == CUDNN_LSTM) {
      for (float** array : {&cx, &cy, &dcy, &dcx}) *array = New(s.state_size());
    }
    weights = New(weights_size());
    dweights = New(weights_size());
    std::fill_n(dweights, weights_size(), 0.f);
    workspace = reinterpret_cast<char*>(New(workspace_bytes / 4 + 2));
    reserve = reinterpret_cast<char*>(New(reserve_bytes / 4));
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  ~User() {
    cudnn.cudnnDestroyRNNDescriptor(rnn);
    cudnn.cudnnDestroyRNNDataDescriptor(x_desc);
    cudnn.cudnnDestroyRNNDataDescriptor(y_desc);
    for (auto desc : {h_desc, c_desc, matrix_desc, bias_desc}) {
      cudnn.cudnnDestroyTensorDescriptor(desc);
    }
  }

  // Sets the descriptors.
  cudnnStatus_t Describe() {
    const auto set_data = [&](cudnnRNNDataDescriptor_t desc, int width,
                              const std::vector<int>& lengths) {
      return cudnn.cudnnSetRNNDataDescriptor(
          desc, type,
          s.time_major ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
                       : CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
          s.time, s.batch(), width, lengths.data(), padding_fill);
    };
    const auto set_state = [&](cudnnTensorDescriptor_t desc, int width) {
      const int dims[] = {s.pseudo_layers(), s.batch(), width};
      const int strides[] = {state_stride * s.batch() * width, width, 1};
      return cudnn.cudnnSetTensorNdDescriptor(desc, type, 3, dims, strides);
    };
    return Try(
        {[&] {
           return cudnn.cudnnSetRNNDescriptor_v8(
               rnn, algo, s.mode, bias_mode,
               s.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
               input_mode, type, precision, CUDNN_DEFAULT_MATH, s.input_size,
               s.units, s.units + more_projection, s.layers, dropout, flags);
         },
         [&] { return set_data(x_desc, s.input_size + more_x, s.lengths); },
         [&] { return set_data(y_desc, s.width() + more_y, y_lengths); },
         [&] { return set_state(h_desc, s.units + more_h); },
         [&] { return set_state(c_desc, s.units + more_c); }});
  }

  cudnnStatus_t Forward(cudnnForwardMode_t mode = CUDNN_FWD_MODE_TRAINING) {
    return cudnn.cudnnRNNForward(handle, rnn, mode, device_lengths, x_desc, x,
                                 y_desc, y, h_desc, hx, hy, c_desc, cx, cy,
                                 weight_bytes, weights, workspace_bytes,
                                 workspace, reserve_bytes, reserve);
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

  // The address of a matrix or bias of a pseudo-layer, by cuDNN's number.
  const float* Weight(int pseudo_layer, int id, bool is_bias) {
    void* matrix = nullptr;
    void* bias = nullptr;
    EXPECT_EQ(cudnn.cudnnGetRNNWeightParams(
                  handle, rnn, pseudo_layer, weight_bytes, weights, id,
                  matrix_desc, &matrix, bias_desc, &bias),
              CUDNN_STATUS_SUCCESS);
    return static_cast<const float*>(is_bias ? bias : matrix);
  }

  int weights_size() const { return static_cast<int>(weight_bytes / 4); }

  const Cudnn& cudnn;
  const cudnnHandle_t handle;
  Settings s;
  std::vector<int> y_lengths = s.lengths;
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
  cudnnTensorDescriptor_t h_desc, c_desc, matrix_desc, bias_desc;
  std::size_t weight_bytes, workspace_bytes, reserve_bytes;
  const std::int32_t* device_lengths = nullptr;
  // On the GPU. The workspace can be shifted by 8 bytes.
  float *x, *y, *hx, *hy, *weights, *dy, *dx, *dhy, *dhx, *dweights;
  float *cx = nullptr, *cy = nullptr, *dcy = nullptr, *dcx = nullptr;
  char *workspace, *reserve;

 private:
  float* New(std::size_t size) {
    Array values = rnn::RandomArray(size, 0.7, generator_);
    arrays_.push_back(std::make_unique<FakeDeviceArray<float>>(
        driver_, rnn::Rounded<float>(values)));
    return arrays_.back()->data();
  }

  FakeCudaDriver* const driver_;
  std::mt19937 generator_{1};
  std::vector<std::unique_ptr<FakeDeviceArray<float>>> arrays_;
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
  std::unique_ptr<User> NewUser(const Settings& settings = {}) {
    return std::make_unique<User>(&driver_, cudnn(), handle_, settings);
  }

  FakeCudaDriver driver_;
  CUcontext context_ = driver_.NewContext();
  CUstream stream_ = driver_.NewStream(context_);
  FakeCudnn fake_{&driver_};
  cudnnHandle_t handle_ = nullptr;
};

// ------------------------------------------------------------------- results
//
// The tests of the GPU engine compare all modes and types with the CPU engine.
// These tests check cuDNN's layout of arrays.

std::vector<float> ToVector(const float* begin, int size) {
  return std::vector<float>(begin, begin + size);
}

float Dot(const float* a, const float* b, int size) {
  float sum = 0;
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

struct Result {
  std::vector<float> y, hy;
};

// The plain reference for CUDNN_RNN_RELU.
Result Reference(User& user) {
  const Settings& s = user.s;
  Result result = {std::vector<float>(s.rows() * s.width()),
                   ToVector(user.hx, s.state_size())};
  for (int b = 0; b < s.batch(); ++b) {
    std::vector<std::vector<float>> inputs;  // of the layer, by step
    for (int t = 0; t < s.lengths[b]; ++t) {
      inputs.push_back(
          ToVector(user.x + s.Row(t, b) * s.input_size, s.input_size));
    }
    for (int p = 0; p < s.pseudo_layers(); ++p) {
      const int d = p % s.directions;
      float* const h = &result.hy[(p * s.batch() + b) * s.units];
      for (int step = 0; step < s.lengths[b]; ++step) {
        const int t = d == 0 ? step : s.lengths[b] - 1 - step;
        const int fan_in = static_cast<int>(inputs[t].size());
        const std::vector<float> last = ToVector(h, s.units);
        for (int u = 0; u < s.units; ++u) {
          const float sum = Dot(user.Weight(p, 0, false) + u * fan_in,
                                inputs[t].data(), fan_in) +
                            Dot(user.Weight(p, 1, false) + u * s.units,
                                last.data(), s.units) +
                            user.Weight(p, 0, true)[u] +
                            user.Weight(p, 1, true)[u];
          h[u] = std::max(sum, 0.f);
        }
        std::copy_n(h, s.units,
                    &result.y[s.Row(t, b) * s.width() + d * s.units]);
      }
      if (d + 1 < s.directions) continue;
      for (int t = 0; t < s.lengths[b]; ++t) {
        inputs[t] = ToVector(&result.y[s.Row(t, b) * s.width()], s.width());
      }
    }
  }
  return result;
}

void ExpectClose(const std::vector<float>& actual,
                 const std::vector<float>& expected, const char* what) {
  rnn::ExpectClose(Array(actual.begin(), actual.end()),
                   Array(expected.begin(), expected.end()), 1e-5, what);
}

TEST_F(FakeCudnnTest, UsesTheArrayLayoutsOfCudnn) {
  Settings s;
  s.mode = CUDNN_RNN_RELU;
  s.directions = 2;
  s.layers = 2;
  s.lengths = {1, 3, 2};
  for (bool time_major : {true, false}) {
    s.time_major = time_major;
    for (int padding : {0, 3}) {
      fake_.set_weight_padding(padding);
      const auto user = NewUser(s);
      ASSERT_EQ(user->Forward(CUDNN_FWD_MODE_INFERENCE), CUDNN_STATUS_SUCCESS);
      const Result expected = Reference(*user);
      ExpectClose(ToVector(user->y, s.rows() * s.width()), expected.y, "y");
      ExpectClose(ToVector(user->hy, s.state_size()), expected.hy, "hy");
    }
  }
}

TEST_F(FakeCudnnTest, LeavesPaddingUnchanged) {
  Settings s;
  s.lengths = {3, 1};
  const auto user = NewUser(s);
  user->padding_fill = nullptr;
  EXPECT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  std::fill_n(user->x + 3 * s.input_size, s.input_size, NAN);
  std::fill_n(user->dy + 3 * s.width(), s.width(), NAN);
  std::fill_n(user->y, s.rows() * s.width(), NAN);
  std::fill_n(user->dx, s.rows() * s.input_size, NAN);
  ASSERT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
  const auto count_nans = [](const float* begin, int size) {
    return std::count_if(begin, begin + size,
                         [](float value) { return std::isnan(value); });
  };
  EXPECT_EQ(count_nans(user->y, s.rows() * s.width()), 2 * s.width());
  EXPECT_EQ(count_nans(user->dx, s.rows() * s.input_size), 2 * s.input_size);
  EXPECT_EQ(count_nans(user->dweights, user->weights_size()), 0);
}

TEST_F(FakeCudnnTest, AccumulatesWeightGradients) {
  const auto user = NewUser();
  ASSERT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
  std::vector<float> once = ToVector(user->dweights, user->weights_size());
  ASSERT_EQ(user->BackwardWeights(), CUDNN_STATUS_SUCCESS);
  for (float& value : once) value *= 2;
  EXPECT_EQ(ToVector(user->dweights, user->weights_size()), once);
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
    {"a size that is not positive", [](User& u) { u.s.input_size = 0; }},
    {"a size that is not positive", [](User& u) { u.s.units = 0; }},
    {"a size that is not positive", [](User& u) { u.s.layers = 0; }},
    {"a size that is not positive", [](User& u) { u.more_x = -3; }},
    {"a size that is not positive", [](User& u) { u.more_h = -4; }},
    {"not between 1 and the hidden size",
     [](User& u) { u.more_projection = 1; }},
    {"a projection in a network that is not an LSTM",
     [](User& u) { u.more_projection = -2, u.s.mode = CUDNN_GRU; }},
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
       u.y_lengths = u.s.lengths = {3, 2};
     }},
    {"not support dropout",
     [](User& u) {
       u.dropout = reinterpret_cast<cudnnDropoutDescriptor_t>(&u.zero);
     }},
    {"only double biases", [](User& u) { u.bias_mode = CUDNN_RNN_NO_BIAS; }},
    {"lengths from 1 to 4", [](User& u) { u.s.lengths = {4, 1}; }},
    {"lengths from -1 to 1", [](User& u) { u.s.lengths = {-1, 1}; }},
    {"lengths from 0 to 0", [](User& u) { u.s.lengths = {0, 0}; }},
    {"too many steps", [](User& u) { u.s.time = 65536; }},
    {"only zeros as padding", [](User& u) { u.zero = 7; }},
    {"is on the GPU", [](User& u) { u.padding_fill = u.x; }},
    {"a tensor that is not dense", [](User& u) { u.state_stride = 2; }},
    // Spaces.
    {"too small a weight space", [](User& u) { --u.weight_bytes; }},
    {"too small a workspace", [](User& u) { --u.workspace_bytes; }},
    {"too small a reserve space", [](User& u) { --u.reserve_bytes; }},
    {"workSpace: ", [](User& u) { u.workspace += 16; }},
    {"reserveSpace: ", [](User& u) { u.reserve += 16; }},
    {"is not aligned to 16", [](User& u) { u.workspace += 8; }},
    {"more weights than the real library supports",
     [](User& u) { u.s.units = 100000, u.y_lengths = u.s.lengths = {1, 1}; }},
    // Arrays.
    {"x: 72 bytes", [](User& u) { ++u.x; }},
    {"y: 96 bytes", [](User& u) { u.y = nullptr; }},
    {"dhx: 32 bytes", [](User& u) { ++u.dhx; }},
    {"cy: 32 bytes", [](User& u) { u.cy = &u.zero; }},
    {"hy and hx overlap", [](User& u) { u.hy = u.hx; }},
    {"devSeqLengths", [](User& u) { u.device_lengths = u.s.lengths.data(); }},
    {"differ from the lengths of x",
     [](User& u) { u.device_lengths = reinterpret_cast<std::int32_t*>(u.x); }},
    {"a cell state in a network that is not an LSTM",
     [](User& u) { u.s.mode = CUDNN_RNN_TANH; }},
    // Mismatched arguments.
    {"x is of another size", [](User& u) { u.more_x = 1; }},
    {"y is of another size", [](User& u) { u.more_y = 1; }},
    {"a state of another type or size", [](User& u) { u.more_h = 1; }},
    {"a state of another type or size", [](User& u) { u.more_c = 1; }},
    {"x and y have different sequences", [](User& u) { u.y_lengths = {3, 2}; }},
    {"a sequence of length 0",
     [](User& u) { u.y_lengths = u.s.lengths = {3, 0}; }},
    {"gradients can only be added",
     [](User& u) { u.gradient_mode = CUDNN_WGRAD_MODE_SET; }},
};
INSTANTIATE_TEST_SUITE_P(All, FakeCudnnMisuseTest, testing::ValuesIn(kMisuses));

TEST_F(FakeCudnnTest, ReserveSpaceIsUsedOnlyOnce) {
  const auto user = NewUser();
  EXPECT_MISUSE(user->BackwardData(), "does not come from cudnnRNNForward");
  ASSERT_EQ(user->Forward(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardWeights(), "has not run on this reserve space");
  ASSERT_EQ(user->BackwardData(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardData(), "has already used this reserve space");
  user->reserve[999] ^= 1;
  EXPECT_MISUSE(user->BackwardWeights(), "was modified");
}

TEST_F(FakeCudnnTest, ReserveSpaceBelongsToOneNetwork) {
  Settings s;
  const auto user = NewUser(s);
  ASSERT_EQ(user->Forward(), CUDNN_STATUS_SUCCESS);
  s.lengths = {3, 2};
  const auto other = NewUser(s);
  std::copy_n(user->reserve, other->reserve_bytes, other->reserve);
  EXPECT_MISUSE(other->BackwardData(), "sequence_lengths");
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
    User user(&driver_, cudnn(), handle, Settings());
    EXPECT_MISUSE(user.Forward(), "the handle has no stream");
  }
  EXPECT_EQ(cudnn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(cudnn().cudnnDestroy(handle), "the handle was destroyed");
}

TEST_F(FakeCudnnTest, HandlesAreForOneThread) {
  Settings s;
  s.units = 64;
  s.time = 64;
  s.lengths = std::vector<int>(16, 64);
  const auto user = NewUser(s);
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS,
        &failures);
    std::atomic<bool> is_done{false};
    std::thread thread([&] {
      driver_.driver()->cuCtxPushCurrent_v2(context_);
      std::size_t num_bytes;
      while (!is_done &&
             cudnn().cudnnGetRNNWeightSpaceSize(
                 handle_, user->rnn, &num_bytes) == CUDNN_STATUS_SUCCESS) {
      }
      is_done = true;
      CUcontext popped;
      driver_.driver()->cuCtxPopCurrent_v2(&popped);
    });
    for (int i = 0; i < 1000 && !is_done; ++i) {
      if (user->Forward() != CUDNN_STATUS_SUCCESS) break;
    }
    is_done = true;
    thread.join();
  }
  ASSERT_GE(failures.size(), 1);
  const std::string message = failures.GetTestPartResult(0).message();
  EXPECT_NE(message.find("another thread is using the handle"),
            std::string::npos)
      << message;
}

TEST_F(FakeCudnnTest, EachThreadMayHaveItsOwnHandle) {
  std::vector<float> results[2];
  const auto work = [&](std::vector<float>* result) {
    driver_.driver()->cuCtxPushCurrent_v2(context_);
    cudnnHandle_t handle;
    EXPECT_EQ(cudnn().cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    cudnn().cudnnSetStream(handle, driver_.NewStream(context_));
    {
      User user(&driver_, cudnn(), handle, Settings());
      EXPECT_EQ(user.RunAll(), CUDNN_STATUS_SUCCESS);
      *result = ToVector(user.dweights, user.weights_size());
    }
    EXPECT_EQ(cudnn().cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    CUcontext popped;
    driver_.driver()->cuCtxPopCurrent_v2(&popped);
  };
  std::thread thread(work, &results[0]);
  work(&results[1]);
  thread.join();
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(FakeCudnnTest, PassesOfAStepUseTheSameAlgorithm) {
  Settings s;
  s.lengths = {s.time, s.time};
  const auto user = NewUser(s);
  ASSERT_EQ(user->Forward(), CUDNN_STATUS_SUCCESS);
  user->algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  ASSERT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  EXPECT_MISUSE(user->BackwardData(),
                "an algorithm other than that of the forward pass");
  EXPECT_EQ(user->RunAll(), CUDNN_STATUS_SUCCESS);
}

// -------------------------------------------------------------- unsupported

TEST_F(FakeCudnnTest, PersistentAlgorithmsDependOnTheGpu) {
  Settings s;
  s.lengths = {s.time, s.time};
  const auto user = NewUser(s);
  user->algo = CUDNN_RNN_ALGO_PERSIST_STATIC;
  ASSERT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  fake_.set_has_persistent(false);
  EXPECT_EQ(cudnn().cudnnGetRNNTempSpaceSizes(
                handle_, user->rnn, CUDNN_FWD_MODE_TRAINING, user->x_desc,
                &user->workspace_bytes, &user->reserve_bytes),
            CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(FakeCudnnTest, BFloat16DependsOnVersionAndGpu) {
  const auto user = NewUser();
  const auto ask = [&] {
    return cudnn().cudnnGetRNNTempSpaceSizes(
        handle_, user->rnn, CUDNN_FWD_MODE_TRAINING, user->x_desc,
        &user->workspace_bytes, &user->reserve_bytes);
  };
  user->type = CUDNN_DATA_BFLOAT16;
  fake_.set_version(91200);
  EXPECT_EQ(user->Describe(), CUDNN_STATUS_NOT_SUPPORTED);
  fake_.set_version(91300);
  EXPECT_EQ(cudnn().cudnnGetVersion(), 91300u);
  EXPECT_EQ(user->Describe(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(ask(), CUDNN_STATUS_SUCCESS);
  fake_.set_has_bfloat16(false);
  EXPECT_EQ(ask(), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(FakeCudnnTest, LimitsTheSizeOfStates) {
  const auto user = NewUser();
  user->s.layers = 1 << 16;
  user->more_h = 1 << 14;
  EXPECT_EQ(user->Describe(), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(FakeCudnnTest, FailsOnRequest) {
  cudnnTensorDescriptor_t desc;
  fake_.Fail("cudnnCreateTensorDescriptor",
             CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 1);
  EXPECT_EQ(cudnn().cudnnCreateTensorDescriptor(&desc), CUDNN_STATUS_SUCCESS);
  cudnnTensorDescriptor_t other = nullptr;
  EXPECT_EQ(cudnn().cudnnCreateTensorDescriptor(&other),
            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  EXPECT_EQ(other, nullptr);
  EXPECT_FALSE(fake_.ClearFailures());
  fake_.FailAny(CUDNN_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(cudnn().cudnnDestroyTensorDescriptor(desc), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnn().cudnnSetStream(handle_, stream_),
            CUDNN_STATUS_INTERNAL_ERROR);
  fake_.FailAny(CUDNN_STATUS_INTERNAL_ERROR, 5);
  EXPECT_TRUE(fake_.ClearFailures());
  EXPECT_EQ(fake_.CountCalls("cudnnCreateTensorDescriptor"), 2);
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
