// A fake cuDNN for tests, on the fake CUDA driver. It computes with the CPU
// engine and is strict: misuse fails the test, even if the real library would
// not detect it, and so do features that the fake does not implement. Networks
// that a version, a GPU or the size of a state does not allow return an error
// without failing the test, as in the real library.
//
// The layout of the weights is that of cuDNN 9.3 to 9.28.

#ifndef TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_H_
#define TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_H_

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cc/gpu/cudnn.h"
#include "cc/gpu/fakes/fake_cuda_driver.h"
#include "cc/gpu/fakes/fake_handles.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// The arguments of cudnnSetRNNDescriptor_v8.
struct FakeRnnDescriptor {
  rnn::RnnConfig config = {};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
};

// A call of a cuDNN function.
struct FakeCudnnCall : FakeCall {
  // The contents of the descriptor at the time of the call, if any.
  FakeRnnDescriptor rnn;
};

// At most one may exist. The driver must outlive it.
class FakeCudnn
    : public FakeHandleLibrary<FakeCudnnCall, cudnnStatus_t,
                               CUDNN_STATUS_BAD_PARAM, cudnnHandle_t> {
 public:
  explicit FakeCudnn(FakeCudaDriver* driver);
  // Fails the test if a descriptor was not destroyed.
  ~FakeCudnn();

  const Cudnn* cudnn() const { return &functions_; }

  // Sets the result of cudnnGetVersion, initially 90300. bfloat16 is supported
  // since 91300.
  void set_version(std::size_t version) { version_ = version; }
  // Whether the GPU supports bfloat16 (default: true). If not, querying the
  // memory sizes of a bfloat16 network fails.
  void set_has_bfloat16(bool has_bfloat16) { has_bfloat16_ = has_bfloat16; }
  // Whether the GPU supports persistent algorithms (default: true). If not,
  // querying the memory sizes of a network with one fails.
  void set_has_persistent(bool has_persistent) {
    has_persistent_ = has_persistent;
  }
  // Adds unused elements before each matrix and bias in the weight space. The
  // real library has none.
  void set_weight_padding(std::int64_t elements) { weight_padding_ = elements; }

 private:
  friend struct FakeCudnnFunctions;

  // Descriptors of one kind. Nullopt if never set.
  template <typename Descriptor, typename Value>
  struct Descriptors {
    const char* kind;  // as in function names
    std::map<Descriptor, std::optional<Value>> alive;
  };

  // The arguments of cudnnSetRNNDataDescriptor.
  struct Data {
    cudnnDataType_t type;
    bool time_major;
    rnn::RnnSize size;
    int width;
    std::vector<std::int32_t> lengths;  // [batch]
  };
  // The arguments of cudnnSetTensorNdDescriptor, or the result of
  // cudnnGetRNNWeightParams. Dense.
  struct Tensor {
    cudnnDataType_t type;
    std::vector<int> dims;
  };

  Cudnn functions_;
  std::size_t version_ = 90300;
  bool has_bfloat16_ = true;
  bool has_persistent_ = true;
  std::int64_t weight_padding_ = 0;
  Descriptors<cudnnRNNDescriptor_t, FakeRnnDescriptor> rnns_{"RNN", {}};
  Descriptors<cudnnRNNDataDescriptor_t, Data> data_{"RNNData", {}};
  Descriptors<cudnnTensorDescriptor_t, Tensor> tensors_{"Tensor", {}};
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_H_
