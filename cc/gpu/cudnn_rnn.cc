#include "cc/gpu/cudnn_rnn.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn_rnn_pass.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/network_status.h"
#include "cc/rnn/cudnn_rnn_params.h"

namespace tf_rnn_ops::gpu {
namespace {

template <typename Pass>
SequenceBatch SequencesOf(const Pass& pass) {
  return {pass.size, pass.time_major, pass.sequence_lengths};
}

std::size_t OutputBytes(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                        std::size_t element_bytes) {
  return size.time * size.batch * config.num_directions * config.output_size() *
         element_bytes;
}

// Of a state, whose vectors are of that size.
std::size_t StateBytes(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                       std::int64_t width, std::size_t element_bytes) {
  return config.num_pseudo_layers() * size.batch * width * element_bytes;
}

// The results of a network where nothing is to be computed: no output, and the
// states as they were.
template <typename T>
Status ForwardWithoutSteps(const Call& call,
                           const rnn::CudnnRnnForward<T>& pass) {
  const rnn::RnnConfig& config = pass.config;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      ZeroBytes(call, OutputBytes(config, pass.size, sizeof(T)), pass.output));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CopyBytes(
      call, StateBytes(config, pass.size, config.output_size(), sizeof(T)),
      pass.input_h, pass.output_h));
  if (!config.has_cell_state()) return Status();
  return CopyBytes(call,
                   StateBytes(config, pass.size, config.num_units, sizeof(T)),
                   pass.input_c, pass.output_c);
}

template <typename T>
Status BackwardWithoutSteps(const Call& call,
                            const rnn::CudnnRnnBackward<T>& pass) {
  const rnn::RnnConfig& config = pass.config;
  const std::size_t input_bytes =
      pass.size.time * pass.size.batch * config.input_size * sizeof(T);
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      ZeroBytes(call, input_bytes, pass.input_backprop));
  if (pass.params_backprop != nullptr) {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        ZeroBytes(call, rnn::CudnnRnnParamsSize(config) * sizeof(T),
                  pass.params_backprop));
  }
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CopyBytes(
      call, StateBytes(config, pass.size, config.output_size(), sizeof(T)),
      pass.output_h_backprop, pass.input_h_backprop));
  if (!config.has_cell_state()) return Status();
  return CopyBytes(call,
                   StateBytes(config, pass.size, config.num_units, sizeof(T)),
                   pass.output_c_backprop, pass.input_c_backprop);
}

// Whether TF32 makes a difference to tensors of a type: to bfloat16 where they
// are widened.
template <typename T>
bool MayUseTf32(const CudnnRnnCall& call) {
  return call.allow_tf32 && (DataTypeOf<T> == DataType::kFloat ||
                             DataTypeOf<T> == DataType::kBFloat16);
}

// A size rounded up to what cuDNN's memory is aligned to.
std::size_t Aligned(std::size_t num_bytes) {
  constexpr std::size_t kAlignment = 256;
  return (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where the parts of a reserve space begin, in bytes.
class ReserveSpaceLayout {
 public:
  // cudnn_pass: for training, or null if nothing is computed.
  explicit ReserveSpaceLayout(const CudnnRnnPass* cudnn_pass) {
    if (cudnn_pass == nullptr) return;
    keeps_output_ = cudnn_pass->kept_output_bytes() > 0;
    cudnn_offset_ = kOutputOffset + Aligned(cudnn_pass->kept_output_bytes());
    num_bytes_ = cudnn_offset_ + cudnn_pass->reserve_bytes();
  }

  std::size_t num_bytes() const { return num_bytes_; }

  // In a reserve space, the output, if it is kept, and cuDNN's part; null if
  // there is no reserve space.
  void* Output(void* reserve_space) const {
    return keeps_output_ ? At(reserve_space, kOutputOffset) : nullptr;
  }
  void* CudnnPart(void* reserve_space) const {
    return At(reserve_space, cudnn_offset_);
  }

 private:
  static void* At(void* reserve_space, std::size_t offset) {
    if (reserve_space == nullptr) return nullptr;
    return static_cast<char*>(reserve_space) + offset;
  }

  static constexpr std::size_t kOutputOffset = 256;
  static_assert(kOutputOffset >= rnn::kReserveSpaceHeaderBytes);
  bool keeps_output_ = false;
  std::size_t cudnn_offset_ = kOutputOffset;
  std::size_t num_bytes_ = kOutputOffset;
};

// Arrays of a pass forward in cuDNN's form.
struct ForwardArrays {
  const void *x, *hx, *weights;
  const void* cx = nullptr;
  void *y, *hy;
  void* cy = nullptr;
};

template <typename T>
Status StageForward(const rnn::CudnnRnnForward<T>& pass,
                    CudnnRnnPass* cudnn_pass, ForwardArrays* arrays) {
  CudnnRnnStaging& staging = cudnn_pass->staging();
  const StagedShape h = cudnn_pass->hidden_state_shape();
  const StagedShape c = cudnn_pass->cell_state_shape();
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass->ReadInput(pass.input, &arrays->x));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      cudnn_pass->ReadParams(pass.params, &arrays->weights));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Read(pass.input_h, h, &arrays->hx));
  void* const kept = ReserveSpaceLayout(cudnn_pass).Output(pass.reserve_space);
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      cudnn_pass->WriteOutput(pass.output, kept, &arrays->y));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      staging.Write(pass.output_h, h, pass.input_h, &arrays->hy));
  if (!pass.config.has_cell_state()) return Status();
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Read(pass.input_c, c, &arrays->cx));
  return staging.Write(pass.output_c, c, pass.input_c, &arrays->cy);
}

// Arrays of a pass backward in cuDNN's form.
struct BackwardArrays {
  const void *x, *hx, *weights, *y, *dy, *dhy;
  const void *cx = nullptr, *dcy = nullptr;
  void *dx, *dhx;
  void *dweights = nullptr, *dcx = nullptr;
};

template <typename T>
Status StageBackward(const rnn::CudnnRnnBackward<T>& pass,
                     CudnnRnnPass* cudnn_pass, BackwardArrays* arrays) {
  CudnnRnnStaging& staging = cudnn_pass->staging();
  const StagedShape y = cudnn_pass->output_shape();
  const StagedShape h = cudnn_pass->hidden_state_shape();
  const StagedShape c = cudnn_pass->cell_state_shape();
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass->ReadInput(pass.input, &arrays->x));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      cudnn_pass->ReadParams(pass.params, &arrays->weights));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Read(pass.input_h, h, &arrays->hx));
  arrays->y =
      ReserveSpaceLayout(cudnn_pass).Output(const_cast<T*>(pass.reserve_space));
  if (arrays->y == nullptr) {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Read(pass.output, y, &arrays->y));
  }
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      staging.Read(pass.output_backprop, y, &arrays->dy));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      staging.Read(pass.output_h_backprop, h, &arrays->dhy));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      cudnn_pass->WriteInputGradient(pass.input_backprop, &arrays->dx));
  if (pass.params_backprop != nullptr) {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass->WriteParamsGradient(
        pass.params_backprop, &arrays->dweights));
  }
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Write(
      pass.input_h_backprop, h, pass.output_h_backprop, &arrays->dhx));
  if (!pass.config.has_cell_state()) return Status();
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(staging.Read(pass.input_c, c, &arrays->cx));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      staging.Read(pass.output_c_backprop, c, &arrays->dcy));
  return staging.Write(pass.input_c_backprop, c, pass.output_c_backprop,
                       &arrays->dcx);
}

}  // namespace

template <typename T>
Status CudnnRnn<T>::DescribeReserveSpace(const CudnnRnnCall& call,
                                         Purpose purpose,
                                         rnn::ReserveSpaceKey* key,
                                         std::size_t* num_bytes) {
  key->device = rnn::Device::kGpu;
  key->variant = 0;
  *num_bytes = ReserveSpaceLayout(nullptr).num_bytes();
  if (HasNoSteps(key->config, SequencesOf(*key))) return Status();
  return Named(FindReserveSpaceSize(call, purpose, key, num_bytes), key->config,
               key->size);
}

template <typename T>
Status CudnnRnn<T>::FindReserveSpaceSize(const CudnnRnnCall& call,
                                         Purpose purpose,
                                         rnn::ReserveSpaceKey* key,
                                         std::size_t* num_bytes) {
  CudnnLock lock;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(handles_.Lock(call, &lock));
  const CudnnRnnNetwork* network;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      FindNetwork(call, lock.handle(), key->config, purpose, &network));
  CudnnRnnPass cudnn_pass(call, cudnn_, lock.handle(), key->config, *network,
                          SequencesOf(*key), DataTypeOf<T>);
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass.Init(CUDNN_FWD_MODE_TRAINING));
  *num_bytes = ReserveSpaceLayout(&cudnn_pass).num_bytes();
  // What is left depends on them too.
  key->variant = cudnn_.cudnnGetVersion() << 8 |
                 static_cast<std::uint64_t>(network->type()) << 1 |
                 static_cast<std::uint64_t>(MayUseTf32<T>(call));
  return Status();
}

template <typename T>
Status CudnnRnn<T>::Forward(const CudnnRnnCall& call,
                            const rnn::CudnnRnnForward<T>& pass) {
  const Status status = HasNoSteps(pass.config, SequencesOf(pass))
                            ? ForwardWithoutSteps(call, pass)
                            : RunForward(call, pass);
  return Named(status, pass.config, pass.size);
}

template <typename T>
Status CudnnRnn<T>::Backward(const CudnnRnnCall& call,
                             const rnn::CudnnRnnBackward<T>& pass) {
  const Status status = HasNoSteps(pass.config, SequencesOf(pass))
                            ? BackwardWithoutSteps(call, pass)
                            : RunBackward(call, pass);
  return Named(status, pass.config, pass.size);
}

template <typename T>
Status CudnnRnn<T>::RunForward(const CudnnRnnCall& call,
                               const rnn::CudnnRnnForward<T>& pass) {
  CudnnLock lock;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(handles_.Lock(call, &lock));
  const CudnnRnnNetwork* network;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(FindNetwork(
      call, lock.handle(), pass.config,
      pass.is_training ? Purpose::kTraining : Purpose::kInference, &network));
  CudnnRnnPass cudnn_pass(call, cudnn_, lock.handle(), pass.config, *network,
                          SequencesOf(pass), DataTypeOf<T>);
  const cudnnForwardMode_t mode =
      pass.is_training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass.Init(mode));
  ForwardArrays arrays;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(StageForward(pass, &cudnn_pass, &arrays));
  void* workspace;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      call.scratch->Allocate(cudnn_pass.workspace_bytes(), &workspace));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_.Check(
      cudnn_.cudnnRNNForward(
          lock.handle(), network->descriptor(), mode,
          // The lengths on the GPU, which the data descriptors have as well.
          /*devSeqLengths=*/nullptr, cudnn_pass.input(), arrays.x,
          cudnn_pass.output(), arrays.y, cudnn_pass.hidden_state(), arrays.hx,
          arrays.hy, cudnn_pass.cell_state(), arrays.cx, arrays.cy,
          network->params().num_bytes(), arrays.weights,
          cudnn_pass.workspace_bytes(), workspace,
          pass.is_training ? cudnn_pass.reserve_bytes() : 0,
          ReserveSpaceLayout(&cudnn_pass).CudnnPart(pass.reserve_space)),
      "cudnnRNNForward"));
  return cudnn_pass.Finish();
}

template <typename T>
Status CudnnRnn<T>::RunBackward(const CudnnRnnCall& call,
                                const rnn::CudnnRnnBackward<T>& pass) {
  CudnnLock lock;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(handles_.Lock(call, &lock));
  const CudnnRnnNetwork* network;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(FindNetwork(call, lock.handle(), pass.config,
                                             Purpose::kGradients, &network));
  CudnnRnnPass cudnn_pass(call, cudnn_, lock.handle(), pass.config, *network,
                          SequencesOf(pass), DataTypeOf<T>);
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_pass.Init(CUDNN_FWD_MODE_TRAINING));
  BackwardArrays arrays;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(StageBackward(pass, &cudnn_pass, &arrays));
  void *workspace, *reserve_space;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      call.scratch->Allocate(cudnn_pass.workspace_bytes(), &workspace));
  // cuDNN writes into it, but a second pass backward must find it as it was.
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      call.scratch->Allocate(cudnn_pass.reserve_bytes(), &reserve_space));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CopyBytes(call, cudnn_pass.reserve_bytes(),
                ReserveSpaceLayout(&cudnn_pass)
                    .CudnnPart(const_cast<T*>(pass.reserve_space)),
                reserve_space));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_.Check(
      cudnn_.cudnnRNNBackwardData_v8(
          lock.handle(), network->descriptor(), /*devSeqLengths=*/nullptr,
          cudnn_pass.output(), arrays.y, arrays.dy, cudnn_pass.input(),
          arrays.dx, cudnn_pass.hidden_state(), arrays.hx, arrays.dhy,
          arrays.dhx, cudnn_pass.cell_state(), arrays.cx, arrays.dcy,
          arrays.dcx, network->params().num_bytes(), arrays.weights,
          cudnn_pass.workspace_bytes(), workspace, cudnn_pass.reserve_bytes(),
          reserve_space),
      "cudnnRNNBackwardData_v8"));
  if (arrays.dweights == nullptr) return cudnn_pass.Finish();
  // After the other, whose results it needs in the reserve space.
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(cudnn_.Check(
      cudnn_.cudnnRNNBackwardWeights_v8(
          lock.handle(), network->descriptor(), CUDNN_WGRAD_MODE_ADD,
          /*devSeqLengths=*/nullptr, cudnn_pass.input(), arrays.x,
          cudnn_pass.hidden_state(), arrays.hx, cudnn_pass.output(), arrays.y,
          network->params().num_bytes(), arrays.dweights,
          cudnn_pass.workspace_bytes(), workspace, cudnn_pass.reserve_bytes(),
          reserve_space),
      "cudnnRNNBackwardWeights_v8"));
  return cudnn_pass.Finish();
}

template <typename T>
Status CudnnRnn<T>::FindNetwork(const CudnnRnnCall& call, cudnnHandle_t handle,
                                const rnn::RnnConfig& config, Purpose purpose,
                                const CudnnRnnNetwork** network) {
  CUcontext context;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  const StreamKey stream = {context, call.stream};
  const NetworkKey key = {stream,
                          purpose,
                          MayUseTf32<T>(call),
                          config.mode,
                          config.skip_input,
                          config.num_directions,
                          config.num_layers,
                          config.input_size,
                          config.num_units,
                          config.num_proj};
  const std::lock_guard<std::mutex> guard(mutex_);
  std::unique_ptr<CudnnRnnNetwork>& found = networks_[key];
  if (found == nullptr) {
    cudnnDropoutDescriptor_t dropout;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        FindDropout(call, handle, stream, config, purpose, &dropout));
    auto made = std::make_unique<CudnnRnnNetwork>();
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(made->Init(
        cudnn_, handle, config, DataTypeOf<T>, dropout, call.allow_tf32));
    found = std::move(made);
  }
  *network = found.get();
  return Status();
}

template <typename T>
Status CudnnRnn<T>::FindDropout(const CudnnRnnCall& call, cudnnHandle_t handle,
                                const StreamKey& stream,
                                const rnn::RnnConfig& config, Purpose purpose,
                                cudnnDropoutDescriptor_t* dropout) {
  *dropout = nullptr;
  const bool drops =
      dropout_ > 0 && config.num_layers > 1 && purpose != Purpose::kInference;
  if (!drops) return Status();
  if (dropout_ >= 1) {
    return Status(StatusCode::kUnimplemented,
                  "dropout must be less than 1 on a GPU, where what is left is "
                  "divided by 1 - dropout");
  }
  std::unique_ptr<CudnnDropout>& found = dropouts_[{stream, purpose}];
  if (found == nullptr) {
    auto made = std::make_unique<CudnnDropout>();
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        purpose == Purpose::kTraining
            ? made->InitForward(cudnn_, handle, dropout_, seed_, call.lasting)
            : made->InitBackward(cudnn_, handle, dropout_));
    found = std::move(made);
  }
  *dropout = found->descriptor();
  return Status();
}

Status WriteReserveSpaceHeader(const Call& call,
                               const ReserveSpaceHeader& header,
                               void* reserve_space) {
  // The bytes are taken before the call returns: they are not pinned.
  return call.driver->Check(call.driver->cuMemcpyHtoDAsync_v2(
                                DevicePointer(reserve_space), header.data(),
                                header.size(), call.stream),
                            "cuMemcpyHtoDAsync");
}

Status ReadReserveSpaceHeader(const Call& call, const void* reserve_space,
                              ReserveSpaceHeader* header) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuMemcpyDtoHAsync_v2(header->data(),
                                        DevicePointer(reserve_space),
                                        header->size(), call.stream),
      "cuMemcpyDtoHAsync"));
  return call.driver->Check(call.driver->cuStreamSynchronize(call.stream),
                            "cuStreamSynchronize");
}

template class CudnnRnn<rnn::Half>;
template class CudnnRnn<rnn::BFloat16>;
template class CudnnRnn<float>;
template class CudnnRnn<double>;

}  // namespace tf_rnn_ops::gpu
