// Tests with the real cuDNN that need no GPU: cuDNN reports the layout of
// params, and checks the arguments of a pass before it looks for a device.
// TF_RNN_OPS_CUDNN is the path of libcudnn.so.9.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/gpu/cudnn_rnn_test_support.h"

namespace tf_rnn_ops::gpu {
namespace {

using ::tf_rnn_ops::rnn::Case;

// A cuDNN function that tried to access a device.
struct Attempt {
  std::string name;
  cudnnStatus_t status;
  std::string reason;
};

// The library, with a dummy handle instead of handles of devices.
class Library {
 public:
  Library() {
    const char* path = std::getenv("TF_RNN_OPS_CUDNN");
    EXPECT_NE(path, nullptr);
    const Status status = Cudnn::Open(path, &real_);
    EXPECT_TRUE(status.ok()) << status.message();
    functions_ = real_;
    functions_.cudnnCreate = [](cudnnHandle_t* handle) {
      // cuDNN reads its first bytes.
      static std::vector<char> nothing(1 << 20);
      *handle = reinterpret_cast<cudnnHandle_t>(nothing.data());
      return CUDNN_STATUS_SUCCESS;
    };
    functions_.cudnnSetStream = [](cudnnHandle_t, cudaStream_t) {
      return CUDNN_STATUS_SUCCESS;
    };
    functions_.cudnnGetRNNTempSpaceSizes = [](auto... arguments) {
      return Note("cudnnGetRNNTempSpaceSizes",
                  real_.cudnnGetRNNTempSpaceSizes(arguments...));
    };
    functions_.cudnnRNNForward = [](auto... arguments) {
      return Note("cudnnRNNForward", real_.cudnnRNNForward(arguments...));
    };
    functions_.cudnnRNNBackwardData_v8 = [](auto... arguments) {
      return Note("cudnnRNNBackwardData_v8",
                  real_.cudnnRNNBackwardData_v8(arguments...));
    };
    functions_.cudnnRNNBackwardWeights_v8 = [](auto... arguments) {
      return Note("cudnnRNNBackwardWeights_v8",
                  real_.cudnnRNNBackwardWeights_v8(arguments...));
    };
    attempts_.clear();
  }

  const Cudnn& functions() const { return functions_; }
  static const std::vector<Attempt>& attempts() { return attempts_; }

 private:
  // Continues unless the status is that of an unsupported network: without a
  // device, bfloat16 is not supported.
  static cudnnStatus_t Note(const char* name, cudnnStatus_t status) {
    if (status == CUDNN_STATUS_NOT_SUPPORTED) return status;
    char reason[256] = "";
    real_.cudnnGetLastErrorString(reason, sizeof(reason));
    attempts_.push_back({name, status, reason});
    return CUDNN_STATUS_SUCCESS;
  }

  static inline Cudnn real_;
  static inline std::vector<Attempt> attempts_;
  Cudnn functions_;
};

// The cases of the CPU tests that run with cuDNN, in every type.
template <typename T>
class CudnnLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TF_RNN_OPS_CUDNN") == nullptr) {
      GTEST_SKIP() << "TF_RNN_OPS_CUDNN does not name a library";
    }
  }
};
TYPED_TEST_SUITE(CudnnLibraryTest, rnn::StorageTypes);

// In the type, or in float32 if the library does not support bfloat16.
template <typename T>
Status InitNetwork(const Cudnn& cudnn, cudnnHandle_t handle,
                   const CudnnRnnLayers& layers,
                   std::unique_ptr<CudnnRnnNetwork>* network) {
  Status status;
  for (DataType type : {DataTypeOf<T>, DataType::kFloat}) {
    *network = std::make_unique<CudnnRnnNetwork>();
    status =
        (*network)->Init(cudnn, handle, layers,
                         {type, CUDNN_RNN_ALGO_STANDARD, /*allow_tf32=*/false});
    if (DataTypeOf<T> != DataType::kBFloat16 || status.ok()) break;
  }
  return status;
}

TYPED_TEST(CudnnLibraryTest, ParamsLayoutEqualsOurs) {
  Library library;
  const Cudnn& cudnn = library.functions();
  cudnnHandle_t handle;
  cudnn.cudnnCreate(&handle);
  int num_networks = 0;
  for (const Case& k : rnn::Cases()) {
    if (k.config.num_units == 0 || k.config.has_keras_weights) continue;
    SCOPED_TRACE(rnn::Describe(k));
    const std::int64_t num_layers = k.config.num_layers;
    std::unique_ptr<CudnnRnnNetwork> network;
    Status status = InitNetwork<TypeParam>(cudnn, handle,
                                           {k.config, 0, num_layers}, &network);
    ASSERT_TRUE(status.ok()) << status.message();
    // cuDNN has at least one input.
    EXPECT_EQ(network->params().is_same(), k.config.input_size > 0);
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      status =
          InitNetwork<TypeParam>(cudnn, handle, {k.config, layer, 1}, &network);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    ++num_networks;
  }
  EXPECT_GT(num_networks, 40);
}

TYPED_TEST(CudnnLibraryTest, AcceptsTheArgumentsOfEachPass) {
  Library library;
  FakeGpu gpu;
  CudnnHandlePool handles(library.functions());
  for (Case& k : rnn::Cases()) {
    if (k.config.num_units == 0 || k.size.time > 20) continue;
    if (k.config.has_keras_weights) continue;
    // For other sequences, cuDNN first launches packing kernels, which depend
    // on the device.
    if (!k.time_major || !k.lengths.empty()) continue;
    SCOPED_TRACE(rnn::Describe(k));
    k.dropout =
        k.config.num_layers > 1 && k.config.num_directions == 2 ? 0.5f : 0;
    GpuNetwork<TypeParam> network(&gpu, library.functions(), &handles, k);
    rnn::ForwardResult forward;
    rnn::BackwardResult backward;
    for (bool is_training : {false, true}) {
      const Status status = network.Forward(is_training, &forward);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    const Status status = network.Backward(&backward);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  EXPECT_GT(library.attempts().size(), 150);
  for (const Attempt& attempt : library.attempts()) {
    // cuDNN failed at the missing device. Lower statuses are argument errors.
    EXPECT_GE(attempt.status, CUDNN_STATUS_INTERNAL_ERROR)
        << attempt.name << ": " << attempt.status << " " << attempt.reason;
  }
}

}  // namespace
}  // namespace tf_rnn_ops::gpu
