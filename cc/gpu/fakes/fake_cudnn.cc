#include "cc/gpu/fakes/fake_cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include "cc/gpu/fakes/fake_cudnn_rnn.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

FakeCudnn* the_fake = nullptr;

thread_local std::string last_error;

constexpr std::size_t kBFloat16Version = 91300;
constexpr std::size_t kSpaceAlignment = 16;
constexpr unsigned char kGarbage = 0xff;
constexpr std::int64_t kMostElements = std::numeric_limits<std::int32_t>::max();
constexpr int kMaxTime = 65535;

rnn::RnnMode ModeOf(cudnnRNNMode_t mode) {
  switch (mode) {
    case CUDNN_RNN_RELU:
      return rnn::RnnMode::kRelu;
    case CUDNN_RNN_TANH:
      return rnn::RnnMode::kTanh;
    case CUDNN_LSTM:
      return rnn::RnnMode::kLstm;
    case CUDNN_GRU:
      break;
  }
  return rnn::RnnMode::kGru;
}

// The sizes of the temporary spaces depend on the sequence lengths.
std::size_t SumOf(const std::vector<std::int32_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}
std::size_t WorkspaceBytes(const FakeRnn& network, bool is_training) {
  return (is_training ? 256 : 128) + 16 * SumOf(network.lengths);
}
std::size_t ReserveSpaceBytes(const FakeRnn& network) {
  return FakeReserveBytes(network) + 16 * SumOf(network.lengths);
}

// The arguments of a pass.
struct Pass {
  FakePass kind;
  bool is_training;
  cudnnRNNDescriptor_t rnn;
  const std::int32_t* device_lengths;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t h, c;  // c: null for a pass without cell states
  std::size_t weight_bytes;
  void* workspace;
  std::size_t workspace_bytes;
  void* reserve;
  std::size_t reserve_bytes;
};

}  // namespace

// The functions in the table, by cuDNN's names.
struct FakeCudnnFunctions {
  class Call : public FakeCudnn::Call {
   public:
    explicit Call(const std::string& name, cudnnRNNDescriptor_t rnn = nullptr)
        : FakeCudnn::Call(the_fake, Describe(name, rnn)) {
      last_error = ok() ? "" : "the fake cuDNN fails";
    }
    Call(const std::string& name, cudnnHandle_t handle,
         cudnnRNNDescriptor_t rnn = nullptr)
        : FakeCudnn::Call(the_fake, Describe(name, rnn), handle) {
      last_error = ok() ? "" : "the fake cuDNN fails";
    }

    bool IsSupported(bool is_supported, const std::string& otherwise) {
      if (!is_supported && ok()) last_error = otherwise;
      return FailCallUnless(is_supported, CUDNN_STATUS_NOT_SUPPORTED);
    }

    // If the descriptor does not exist, returns null and fails the call.
    template <typename Descriptor, typename Value>
    std::optional<Value>* Find(
        FakeCudnn::Descriptors<Descriptor, Value>& descriptors,
        Descriptor descriptor) {
      auto* found = FindIn(descriptors.alive, descriptor);
      return Expect(found != nullptr,
                    std::string("the ") + descriptors.kind +
                        " descriptor was destroyed or never created")
                 ? found
                 : nullptr;
    }
    // Returns the value of a descriptor.
    template <typename Descriptor, typename Value>
    const Value* Get(FakeCudnn::Descriptors<Descriptor, Value>& descriptors,
                     Descriptor descriptor) {
      const auto* found = Find(descriptors, descriptor);
      return found != nullptr && Expect(found->has_value(),
                                        std::string("the ") + descriptors.kind +
                                            " descriptor was never set")
                 ? &**found
                 : nullptr;
    }

   private:
    static FakeCudnnCall Describe(const std::string& name,
                                  cudnnRNNDescriptor_t rnn) {
      const std::lock_guard<std::recursive_mutex> lock(the_fake->mutex_);
      FakeCudnnCall call = {{name}, {}};
      const auto* found = FindIn(the_fake->rnns_.alive, rnn);
      if (found != nullptr) call.rnn = found->value_or(FakeRnnDescriptor());
      return call;
    }
  };

  // ------------------------------------------------------------- the handle

  static cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
    return Call(__func__).CreateHandle(handle);
  }

  static cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    return Call(__func__, handle).DestroyHandle();
  }

  static cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
    return Call(__func__, handle).SetStream(stream);
  }

  static std::size_t cudnnGetVersion() { return the_fake->version_; }

  static const char* cudnnGetErrorString(cudnnStatus_t status) {
    thread_local std::string text;
    text = "CUDNN_STATUS_" + std::to_string(status);
    return text.c_str();
  }

  // As in cuDNN 9.3, a truncated message is not null-terminated, and a message
  // is returned only once.
  static void cudnnGetLastErrorString(char* message, std::size_t max_size) {
    const std::size_t size = last_error.copy(message, max_size);
    if (size < max_size) message[size] = '\0';
    last_error.clear();
  }

  // ------------------------------------------------------------ descriptors

  template <auto descriptors, typename Descriptor>
  static cudnnStatus_t Create(Descriptor* descriptor) {
    auto& all = the_fake->*descriptors;
    Call call(std::string("cudnnCreate") + all.kind + "Descriptor");
    if (call.ok()) {
      *descriptor = NewHandle<Descriptor>();
      all.alive[*descriptor];
    }
    return call.status();
  }

  template <auto descriptors, typename Descriptor>
  static cudnnStatus_t Destroy(Descriptor descriptor) {
    auto& all = the_fake->*descriptors;
    Call call(std::string("cudnnDestroy") + all.kind + "Descriptor");
    call.Find(all, descriptor);
    all.alive.erase(descriptor);  // even if it fails
    return call.status();
  }

  static constexpr auto cudnnCreateRNNDataDescriptor =
      Create<&FakeCudnn::data_, cudnnRNNDataDescriptor_t>;
  static constexpr auto cudnnDestroyRNNDataDescriptor =
      Destroy<&FakeCudnn::data_, cudnnRNNDataDescriptor_t>;
  static constexpr auto cudnnCreateRNNDescriptor =
      Create<&FakeCudnn::rnns_, cudnnRNNDescriptor_t>;
  static constexpr auto cudnnDestroyRNNDescriptor =
      Destroy<&FakeCudnn::rnns_, cudnnRNNDescriptor_t>;
  static constexpr auto cudnnCreateTensorDescriptor =
      Create<&FakeCudnn::tensors_, cudnnTensorDescriptor_t>;
  static constexpr auto cudnnDestroyTensorDescriptor =
      Destroy<&FakeCudnn::tensors_, cudnnTensorDescriptor_t>;

  static bool CheckType(Call& call, cudnnDataType_t type) {
    return call.IsSupported(
        type != CUDNN_DATA_BFLOAT16 || the_fake->version_ >= kBFloat16Version,
        "bfloat16 in this version");
  }

  // -------------------------------------------------------------- tensors

  static cudnnStatus_t cudnnSetTensorNdDescriptor(
      cudnnTensorDescriptor_t tensor_desc, cudnnDataType_t type, int num_dims,
      const int* dims, const int* strides) {
    Call call(__func__);
    auto* tensor = call.Find(the_fake->tensors_, tensor_desc);
    if (call.Expect(num_dims == 3, "a tensor of not 3 dimensions") &&
        call.CheckHost(dims, 3 * sizeof(int)) &&
        call.CheckHost(strides, 3 * sizeof(int)) &&
        call.Expect(std::min({dims[0], dims[1], dims[2]}) > 0,
                    "a size that is not positive") &&
        call.Expect(strides[2] == 1 && strides[1] == dims[2] &&
                        strides[0] == std::int64_t{dims[1]} * dims[2],
                    "a tensor that is not dense") &&
        call.IsSupported(std::int64_t{dims[0]} * strides[0] <= kMostElements,
                         "a tensor with too many elements")) {
      *tensor = {type, {dims, dims + 3}};
    }
    return call.status();
  }

  static cudnnStatus_t cudnnGetTensorNdDescriptor(
      cudnnTensorDescriptor_t tensor_desc, int num_requested,
      cudnnDataType_t* type, int* num_dims, int* dims, int* strides) {
    Call call(__func__);
    const auto* tensor = call.Get(the_fake->tensors_, tensor_desc);
    if (!call.ok()) return call.status();
    *type = tensor->type;
    *num_dims = static_cast<int>(tensor->dims.size());
    int stride = 1;
    for (int i = *num_dims; i-- > 0;) {
      if (i < num_requested) {
        dims[i] = tensor->dims[i];
        strides[i] = stride;
      }
      stride *= tensor->dims[i];
    }
    return call.status();
  }

  // ------------------------------------------------------------- sequences

  // Versions accept different lengths; this accepts those that all accept.
  static cudnnStatus_t cudnnSetRNNDataDescriptor(
      cudnnRNNDataDescriptor_t data_desc, cudnnDataType_t type,
      cudnnRNNDataLayout_t layout, int time, int batch, int width,
      const int* lengths, void* padding_fill) {
    Call call(__func__);
    auto* data = call.Find(the_fake->data_, data_desc);
    if (!call.ok() || !CheckType(call, type) ||
        !call.Expect(layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                     "the fake does not support packed layouts") ||
        !call.Expect(time > 0 && batch > 0 && width > 0,
                     "a size that is not positive") ||
        !call.Expect(time <= kMaxTime, "too many steps") ||
        !call.CheckHost(lengths, batch * sizeof(int))) {
      return call.status();
    }
    const auto [least, most] = std::minmax_element(lengths, lengths + batch);
    call.Expect(*least >= 0 && *most > 0 && *most <= time,
                "sequence lengths from " + std::to_string(*least) + " to " +
                    std::to_string(*most));
    const std::size_t num_bytes = FakeElementBytes(type);
    if (call.CheckHost(padding_fill, num_bytes)) {
      const std::string zeros(num_bytes, '\0');
      call.Expect(std::memcmp(padding_fill, zeros.data(), num_bytes) == 0,
                  "the fake supports only zeros as padding");
    }
    if (call.ok()) {
      *data = {type,
               layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
               {time, batch},
               width,
               {lengths, lengths + batch}};
    }
    return call.status();
  }

  // -------------------------------------------------------------- networks

  static cudnnStatus_t cudnnSetRNNDescriptor_v8(
      cudnnRNNDescriptor_t rnn_desc, cudnnRNNAlgo_t algo, cudnnRNNMode_t mode,
      cudnnRNNBiasMode_t bias_mode, cudnnDirectionMode_t direction,
      cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
      cudnnDataType_t math_precision, cudnnMathType_t math_type,
      std::int32_t input_size, std::int32_t hidden_size,
      std::int32_t projection_size, std::int32_t num_layers,
      cudnnDropoutDescriptor_t dropout, std::uint32_t flags) {
    Call call(__func__);
    auto* rnn = call.Find(the_fake->rnns_, rnn_desc);
    const bool has_projection = projection_size != hidden_size;
    const bool skips_input = input_mode == CUDNN_SKIP_INPUT;
    if (call.ok() && CheckType(call, type) &&
        call.Expect(algo != CUDNN_RNN_ALGO_PERSIST_DYNAMIC,
                    "the fake does not support the dynamic algorithm") &&
        call.Expect(algo == CUDNN_RNN_ALGO_STANDARD || !has_projection,
                    "a persistent algorithm with a projection") &&
        call.Expect(
            algo == CUDNN_RNN_ALGO_STANDARD || type != CUDNN_DATA_DOUBLE,
            "a persistent algorithm in float64") &&
        call.Expect(bias_mode == CUDNN_RNN_DOUBLE_BIAS,
                    "the fake supports only double biases") &&
        call.Expect(flags == CUDNN_RNN_PADDED_IO_ENABLED,
                    "padding requires CUDNN_RNN_PADDED_IO_ENABLED") &&
        call.Expect(
            math_precision == (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE
                                                         : CUDNN_DATA_FLOAT),
            "the wrong math precision for the data type") &&
        call.Expect(std::min({input_size, hidden_size, num_layers}) > 0,
                    "a size that is not positive") &&
        call.Expect(
            projection_size > 0 && projection_size <= hidden_size,
            "a projection size that is not between 1 and the hidden size") &&
        call.Expect(!has_projection || mode == CUDNN_LSTM,
                    "a projection in a network that is not an LSTM") &&
        call.Expect(
            !skips_input || input_size == hidden_size,
            "skip_input with an input size other than the hidden size") &&
        call.Expect(dropout == nullptr, "the fake does not support dropout")) {
      *rnn = {{ModeOf(mode), skips_input,
               direction == CUDNN_BIDIRECTIONAL ? 2 : 1, num_layers, input_size,
               hidden_size, has_projection ? projection_size : 0},
              type,
              math_type,
              algo};
    }
    return call.status();
  }

  static FakeWeightLayout WeightLayout(const FakeRnnDescriptor& rnn) {
    return FakeWeightLayout(rnn.config, the_fake->weight_padding_);
  }

  // The size of the weight space. With more params than this allows, the real
  // library returns wrong sizes without an error.
  static std::size_t WeightBytes(Call& call, const FakeRnnDescriptor& rnn) {
    const std::int64_t size = rnn::CudnnRnnParamsSize(rnn.config);
    return call.Expect(size >= 0 && size <= kMostElements,
                       "more weights than the real library supports")
               ? WeightLayout(rnn).size() * FakeElementBytes(rnn.type)
               : 0;
  }

  static cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle,
                                                  cudnnRNNDescriptor_t rnn_desc,
                                                  std::size_t* num_bytes) {
    Call call(__func__, handle, rnn_desc);
    const auto* rnn = call.Get(the_fake->rnns_, rnn_desc);
    if (call.ok()) *num_bytes = WeightBytes(call, *rnn);
    return call.status();
  }

  // linear_layer: the gates of the input, the gates of the hidden state, and
  // the projection.
  static cudnnStatus_t cudnnGetRNNWeightParams(
      cudnnHandle_t handle, cudnnRNNDescriptor_t rnn_desc,
      std::int32_t pseudo_layer, std::size_t weight_space_bytes,
      const void* weight_space, std::int32_t linear_layer,
      cudnnTensorDescriptor_t matrix_desc, void** matrix_address,
      cudnnTensorDescriptor_t bias_desc, void** bias_address) {
    Call call(__func__, handle, rnn_desc);
    const auto* rnn = call.Get(the_fake->rnns_, rnn_desc);
    auto* matrix = call.Find(the_fake->tensors_, matrix_desc);
    auto* bias = call.Find(the_fake->tensors_, bias_desc);
    if (!call.ok()) return call.status();
    const rnn::RnnConfig& config = rnn->config;
    const std::int64_t num_biases = 2 * config.num_gates();
    const std::int64_t num_matrices = num_biases + (config.num_proj > 0);
    if (call.Expect(pseudo_layer >= 0 &&
                        pseudo_layer < config.num_pseudo_layers() &&
                        linear_layer >= 0 && linear_layer < num_matrices,
                    "there is no such layer") &&
        call.Expect(weight_space_bytes >= WeightBytes(call, *rnn),
                    "too small a weight space")) {
      const FakeWeightLayout layout = WeightLayout(*rnn);
      SetWeight(layout.Weight(pseudo_layer * num_matrices + linear_layer),
                rnn->type, weight_space, matrix, matrix_address);
      SetWeight(linear_layer < num_biases
                    ? layout.Bias(pseudo_layer * num_biases + linear_layer)
                    : rnn::ParamsRegion{},
                rnn->type, weight_space, bias, bias_address);
    }
    return call.status();
  }

  // A weight that does not exist has a null address and a tensor of rank 0.
  static void SetWeight(const rnn::ParamsRegion& weight, cudnnDataType_t type,
                        const void* weight_space,
                        std::optional<FakeCudnn::Tensor>* tensor,
                        void** address) {
    if (weight.size() == 0) {
      *tensor = FakeCudnn::Tensor{CUDNN_DATA_FLOAT, {}};
      *address = nullptr;
      return;
    }
    *tensor = {
        type,
        {1, static_cast<int>(weight.rows), static_cast<int>(weight.cols)}};
    *address =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(weight_space) +
                                weight.offset * FakeElementBytes(type));
  }

  static cudnnStatus_t cudnnGetRNNTempSpaceSizes(
      cudnnHandle_t handle, cudnnRNNDescriptor_t rnn_desc,
      cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x_desc,
      std::size_t* workspace_bytes, std::size_t* reserve_space_bytes) {
    Call call(__func__, handle, rnn_desc);
    const std::optional<FakeRnn> network = FindNetwork(call, rnn_desc, x_desc);
    if (!network ||
        !call.IsSupported(
            network->type != CUDNN_DATA_BFLOAT16 || the_fake->has_bfloat16_,
            "bfloat16 on this GPU") ||
        !call.IsSupported(network->algorithm == CUDNN_RNN_ALGO_STANDARD ||
                              the_fake->has_persistent_,
                          "persistent algorithms on this GPU")) {
      return call.status();
    }
    const bool is_training = mode == CUDNN_FWD_MODE_TRAINING;
    *workspace_bytes = WorkspaceBytes(*network, is_training);
    *reserve_space_bytes = is_training ? ReserveSpaceBytes(*network) : 0;
    return call.status();
  }

  // If the descriptors do not match, returns nullopt and fails the call.
  static std::optional<FakeRnn> FindNetwork(Call& call,
                                            cudnnRNNDescriptor_t rnn_desc,
                                            cudnnRNNDataDescriptor_t x_desc) {
    const auto* rnn = call.Get(the_fake->rnns_, rnn_desc);
    const auto* x = call.Get(the_fake->data_, x_desc);
    if (!call.ok() ||
        !call.Expect(rnn->type == x->type,
                     "x is of another type than the network") ||
        !call.Expect(rnn->config.input_size == x->width,
                     "x is of another size than the network's input")) {
      return std::nullopt;
    }
    const bool have_one_length =
        std::all_of(x->lengths.begin(), x->lengths.end(),
                    [&](std::int32_t n) { return n == x->size.time; });
    if (!call.Expect(rnn->algorithm == CUDNN_RNN_ALGO_STANDARD ||
                         (have_one_length && x->time_major),
                     "a persistent algorithm for sequences that are not "
                     "time-major and of equal length")) {
      return std::nullopt;
    }
    return FakeRnn{rnn->config,
                   x->size,
                   x->type,
                   rnn->algorithm,
                   x->time_major,
                   x->lengths,
                   the_fake->weight_padding_};
  }

  // ---------------------------------------------------------------- passes

  static cudnnStatus_t RunPass(Call& call, const Pass& pass,
                               const std::vector<FakeArray>& arrays) {
    const std::optional<FakeRnn> network = FindNetwork(call, pass.rnn, pass.x);
    if (network && call.CheckStream() && CheckOutput(call, pass, *network) &&
        CheckStates(call, pass, *network) &&
        CheckSpaces(call, pass, *network) &&
        CheckDeviceLengths(call, pass, *network) &&
        call.CheckSpans(Spans(call, pass, arrays, *network))) {
      call.Unlocked([&] {
        std::memset(pass.workspace, kGarbage, pass.workspace_bytes);
        const std::string wrong =
            RunFake(*network, pass.kind, arrays,
                    pass.is_training ? pass.reserve : nullptr);
        call.Expect(wrong.empty(), wrong);
      });
    }
    return call.status();
  }

  // cuDNN 9 ignores them, but its documentation requires a copy of x's lengths.
  static bool CheckDeviceLengths(Call& call, const Pass& pass,
                                 const FakeRnn& network) {
    if (pass.device_lengths == nullptr) return true;
    const std::size_t num_bytes = network.lengths.size() * sizeof(std::int32_t);
    return call.Checked(the_fake->driver_->CheckDeviceMemory(
               pass.device_lengths, num_bytes,
               call.name() + ", devSeqLengths")) &&
           call.Expect(std::memcmp(pass.device_lengths, network.lengths.data(),
                                   num_bytes) == 0,
                       "devSeqLengths that differ from the lengths of x");
  }

  static bool CheckOutput(Call& call, const Pass& pass,
                          const FakeRnn& network) {
    const auto* y = call.Get(the_fake->data_, pass.y);
    // Not all passes fail in all versions, but none is known to work.
    const auto& lengths = network.lengths;
    call.Expect(std::find(lengths.begin(), lengths.end(), 0) == lengths.end(),
                "a sequence of length 0");
    return call.ok() &&
           call.Expect(
               y->type == network.type && y->time_major == network.time_major &&
                   y->size.time == network.size.time &&
                   y->size.batch == network.size.batch && y->lengths == lengths,
               "x and y have different sequences") &&
           call.Expect(y->width == network.output_width(),
                       "y is of another size than the network's output");
  }

  static bool CheckStates(Call& call, const Pass& pass,
                          const FakeRnn& network) {
    const rnn::RnnConfig& config = network.config;
    const auto check = [&](cudnnTensorDescriptor_t desc, std::int64_t width) {
      const auto* state = call.Get(the_fake->tensors_, desc);
      if (state == nullptr) return;
      const std::vector<std::int64_t> dims(state->dims.begin(),
                                           state->dims.end());
      call.Expect(
          state->type == network.type &&
              dims == std::vector<std::int64_t>{config.num_pseudo_layers(),
                                                network.size.batch, width},
          "a state of another type or size than the network's");
    };
    check(pass.h, config.output_size());
    if (config.has_cell_state() && pass.c != nullptr) {
      check(pass.c, config.num_units);
    }
    return call.ok();
  }

  static bool CheckSpaces(Call& call, const Pass& pass,
                          const FakeRnn& network) {
    const auto* rnn = call.Get(the_fake->rnns_, pass.rnn);
    return call.ok() &&
           call.Expect(pass.weight_bytes >= WeightBytes(call, *rnn),
                       "too small a weight space") &&
           call.Expect(pass.workspace_bytes >=
                           WorkspaceBytes(network, pass.is_training),
                       "too small a workspace") &&
           call.Expect(!pass.is_training ||
                           pass.reserve_bytes >= ReserveSpaceBytes(network),
                       "too small a reserve space");
  }

  static std::vector<FakeSpan> Spans(Call& call, const Pass& pass,
                                     const std::vector<FakeArray>& arrays,
                                     const FakeRnn& network) {
    const std::size_t element_bytes = FakeElementBytes(network.type);
    std::vector<FakeSpan> spans = {{"workSpace", pass.workspace,
                                    pass.workspace_bytes, kSpaceAlignment,
                                    true}};
    if (pass.is_training) {
      spans.push_back({"reserveSpace", pass.reserve, pass.reserve_bytes,
                       kSpaceAlignment, true});
    }
    for (const FakeArray& array : arrays) {
      const std::size_t num_bytes =
          array.kind == FakeArray::kWeights
              ? pass.weight_bytes
              : network.SizeOf(array.kind) * element_bytes;
      if (num_bytes > 0) {
        spans.push_back({array.name, array.memory, num_bytes, element_bytes,
                         array.is_written});
      } else {
        call.Expect(array.memory == nullptr,
                    "a cell state in a network that is not an LSTM");
      }
    }
    return spans;
  }

  static cudnnStatus_t cudnnRNNForward(
      cudnnHandle_t handle, cudnnRNNDescriptor_t rnn_desc,
      cudnnForwardMode_t mode, const std::int32_t* device_lengths,
      cudnnRNNDataDescriptor_t x_desc, const void* x,
      cudnnRNNDataDescriptor_t y_desc, void* y, cudnnTensorDescriptor_t h_desc,
      const void* hx, void* hy, cudnnTensorDescriptor_t c_desc, const void* cx,
      void* cy, std::size_t weight_bytes, const void* weights,
      std::size_t workspace_bytes, void* workspace, std::size_t reserve_bytes,
      void* reserve) {
    Call call(__func__, handle, rnn_desc);
    return RunPass(
        call,
        {FakePass::kForward, mode == CUDNN_FWD_MODE_TRAINING, rnn_desc,
         device_lengths, x_desc, y_desc, h_desc, c_desc, weight_bytes,
         workspace, workspace_bytes, reserve, reserve_bytes},
        {{"x", x, FakeArray::kInput},
         {"y", y, FakeArray::kOutput, true},
         {"hx", hx, FakeArray::kHiddenState},
         {"hy", hy, FakeArray::kHiddenState, true},
         {"cx", cx, FakeArray::kCellState},
         {"cy", cy, FakeArray::kCellState, true},
         {"weightSpace", weights, FakeArray::kWeights}});
  }

  static cudnnStatus_t cudnnRNNBackwardData_v8(
      cudnnHandle_t handle, cudnnRNNDescriptor_t rnn_desc,
      const std::int32_t* device_lengths, cudnnRNNDataDescriptor_t y_desc,
      const void* y, const void* dy, cudnnRNNDataDescriptor_t x_desc, void* dx,
      cudnnTensorDescriptor_t h_desc, const void* hx, const void* dhy,
      void* dhx, cudnnTensorDescriptor_t c_desc, const void* cx,
      const void* dcy, void* dcx, std::size_t weight_bytes, const void* weights,
      std::size_t workspace_bytes, void* workspace, std::size_t reserve_bytes,
      void* reserve) {
    Call call(__func__, handle, rnn_desc);
    return RunPass(call,
                   {FakePass::kBackwardData, true, rnn_desc, device_lengths,
                    x_desc, y_desc, h_desc, c_desc, weight_bytes, workspace,
                    workspace_bytes, reserve, reserve_bytes},
                   {{"dx", dx, FakeArray::kInput, true},
                    {"y", y, FakeArray::kOutput},
                    {"dy", dy, FakeArray::kOutput},
                    {"hx", hx, FakeArray::kHiddenState},
                    {"dhy", dhy, FakeArray::kHiddenState},
                    {"dhx", dhx, FakeArray::kHiddenState, true},
                    {"cx", cx, FakeArray::kCellState},
                    {"dcy", dcy, FakeArray::kCellState},
                    {"dcx", dcx, FakeArray::kCellState, true},
                    {"weightSpace", weights, FakeArray::kWeights}});
  }

  static cudnnStatus_t cudnnRNNBackwardWeights_v8(
      cudnnHandle_t handle, cudnnRNNDescriptor_t rnn_desc,
      cudnnWgradMode_t mode, const std::int32_t* device_lengths,
      cudnnRNNDataDescriptor_t x_desc, const void* x,
      cudnnTensorDescriptor_t h_desc, const void* hx,
      cudnnRNNDataDescriptor_t y_desc, const void* y, std::size_t weight_bytes,
      void* gradients, std::size_t workspace_bytes, void* workspace,
      std::size_t reserve_bytes, void* reserve) {
    Call call(__func__, handle, rnn_desc);
    call.Expect(mode == CUDNN_WGRAD_MODE_ADD, "gradients can only be added");
    return RunPass(call,
                   {FakePass::kBackwardWeights, true, rnn_desc, device_lengths,
                    x_desc, y_desc, h_desc, nullptr, weight_bytes, workspace,
                    workspace_bytes, reserve, reserve_bytes},
                   {{"x", x, FakeArray::kInput},
                    {"y", y, FakeArray::kOutput},
                    {"hx", hx, FakeArray::kHiddenState},
                    {"dweightSpace", gradients, FakeArray::kWeights, true}});
  }
};

FakeCudnn::FakeCudnn(FakeCudaDriver* driver) : FakeHandleLibrary(driver) {
  EXPECT_EQ(the_fake, nullptr) << "one fake cuDNN may exist at a time";
  the_fake = this;
#define TF_RNN_OPS_SET(name) functions_.name = FakeCudnnFunctions::name;
  TF_RNN_OPS_CUDNN_FUNCTIONS(TF_RNN_OPS_SET)
#undef TF_RNN_OPS_SET
}

FakeCudnn::~FakeCudnn() {
  EXPECT_TRUE(rnns_.alive.empty() && data_.alive.empty() &&
              tensors_.alive.empty())
      << "descriptors were not destroyed";
  the_fake = nullptr;
}

}  // namespace tf_rnn_ops::gpu
