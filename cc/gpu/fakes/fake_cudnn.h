// A cuDNN for tests, on the fake CUDA driver. It computes, with the CPU engine,
// and is as strict as it can be: what the real library refuses, does not
// notice or crashes at, what it would be unwise to rely on, and what of cuDNN
// is not used, fails the test. Only what depends on its version, on the GPU or
// on the size of a state is refused without that, as the real library does.
//
// The arrangement of the weights is that of cuDNN 9.3 to 9.28.

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
#include "cc/gpu/fakes/fake_library.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::gpu {

// What cudnnSetRNNDescriptor_v8 was given.
struct FakeRnnDescriptor {
  rnn::RnnConfig config = {};
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
};

// A call of one of cuDNN's functions.
struct FakeCudnnCall : FakeCall {
  // Of the descriptor, as it is at the time, if there is one.
  FakeRnnDescriptor rnn;
};

// One may exist at a time, on a driver that outlives it.
class FakeCudnn : public FakeLibrary<FakeCudnnCall, cudnnStatus_t> {
 public:
  explicit FakeCudnn(FakeCudaDriver* driver);
  // Fails the test if a descriptor was not destroyed.
  ~FakeCudnn();

  const Cudnn* cudnn() const { return &functions_; }

  // What cudnnGetVersion returns, at first 90300. Networks in bfloat16 there
  // are from 91300 on.
  void set_version(std::size_t version) { version_ = version; }
  // Whether the GPU computes in bfloat16, as at first. Otherwise networks in it
  // are refused when the sizes of their memory are asked.
  void set_has_bfloat16(bool has_bfloat16) { has_bfloat16_ = has_bfloat16; }
  // Whether the GPU has persistent algorithms, as at first. Otherwise networks
  // that are to run by one are refused when the sizes of their memory are
  // asked.
  void set_has_persistent(bool has_persistent) {
    has_persistent_ = has_persistent;
  }
  // Puts so many unused elements before each matrix and bias of a weight space,
  // where the real library has none.
  void set_weight_padding(std::int64_t elements) { weight_padding_ = elements; }

  // How many exist.
  int num_handles() const;

 private:
  friend struct FakeCudnnFunctions;

  // Descriptors, of which those that were never set have no value.
  template <typename Descriptor, typename Value>
  struct Descriptors {
    const char* kind;  // as in the names of functions
    std::map<Descriptor, std::optional<Value>> alive;
  };

  struct Handle {
    CUcontext context = nullptr;
    std::optional<CUstream> stream;  // nothing: never set
    bool is_busy = false;
  };
  // What cudnnSetRNNDataDescriptor was given.
  struct Data {
    cudnnDataType_t type;
    bool time_major;
    rnn::RnnSize size;
    int width;
    std::vector<std::int32_t> lengths;  // [batch]
    bool fills_padding;                 // with zeros
  };
  // What cudnnSetTensorNdDescriptor was given, or cudnnGetRNNWeightParams has
  // set; dense.
  struct Tensor {
    cudnnDataType_t type;
    std::vector<int> dims;
  };
  FakeCudaDriver* const driver_;
  Cudnn functions_;
  std::size_t version_ = 90300;
  bool has_bfloat16_ = true;
  bool has_persistent_ = true;
  std::int64_t weight_padding_ = 0;
  std::map<cudnnHandle_t, Handle> handles_;
  Descriptors<cudnnRNNDescriptor_t, FakeRnnDescriptor> rnns_{"RNN", {}};
  Descriptors<cudnnRNNDataDescriptor_t, Data> data_{"RNNData", {}};
  Descriptors<cudnnTensorDescriptor_t, Tensor> tensors_{"Tensor", {}};
};

}  // namespace tf_rnn_ops::gpu

#endif  // TF_RNN_OPS_CC_GPU_FAKES_FAKE_CUDNN_H_
