#include "cc/gpu/cudnn_rnn.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/gpu/arrays.h"
#include "cc/gpu/cudnn_rnn_algorithm.h"
#include "cc/gpu/data_type.h"
#include "cc/gpu/network_status.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/random_stream.h"

namespace tf_rnn_ops::gpu {
namespace {

std::size_t OutputBytes(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                        std::size_t element_bytes) {
  return size.time * size.batch * config.num_directions * config.output_size() *
         element_bytes;
}

// width: size of a state vector.
std::size_t StateBytes(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                       std::int64_t width, std::size_t element_bytes) {
  return config.num_pseudo_layers() * size.batch * width * element_bytes;
}

// The results if there is nothing to compute: outputs are zero, and states are
// unchanged.
template <typename T>
Status ForwardWithoutSteps(const Call& call,
                           const rnn::NetworkForward<T>& pass) {
  const rnn::RnnConfig& config = pass.config;
  TF_RNN_OPS_RETURN_IF_ERROR(
      ZeroBytes(call, OutputBytes(config, pass.size, sizeof(T)), pass.output));
  TF_RNN_OPS_RETURN_IF_ERROR(CopyBytes(
      call, StateBytes(config, pass.size, config.output_size(), sizeof(T)),
      pass.input_h, pass.output_h));
  if (!config.has_cell_state()) return Status();
  return CopyBytes(call,
                   StateBytes(config, pass.size, config.num_units, sizeof(T)),
                   pass.input_c, pass.output_c);
}

template <typename T>
Status BackwardWithoutSteps(const Call& call,
                            const rnn::NetworkBackward<T>& pass) {
  const rnn::RnnConfig& config = pass.config;
  const std::size_t input_bytes =
      pass.size.time * pass.size.batch * config.input_size * sizeof(T);
  TF_RNN_OPS_RETURN_IF_ERROR(ZeroBytes(call, input_bytes, pass.input_backprop));
  if (pass.weights_backprop.params != nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        ZeroBytes(call, rnn::CudnnRnnParamsSize(config) * sizeof(T),
                  pass.weights_backprop.params));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(CopyBytes(
      call, StateBytes(config, pass.size, config.output_size(), sizeof(T)),
      pass.output_h_backprop, pass.input_h_backprop));
  if (!config.has_cell_state()) return Status();
  return CopyBytes(call,
                   StateBytes(config, pass.size, config.num_units, sizeof(T)),
                   pass.output_c_backprop, pass.input_c_backprop);
}

// The arrays of a forward pass in cuDNN's layout and type. The stacks run one
// after another and share the scratch memory.
struct ForwardArrays {
  const void *x, *hx, *params;
  const void* cx = nullptr;
  void *y, *hy;  // y: of the last stack
  void* cy = nullptr;
  void* dropped = nullptr;  // the input of a stack above the first
  void* workspace;
  void* reserve_space;  // or null
  rnn::RandomStream stream;
};

template <typename T>
Status StageForward(const rnn::NetworkForward<T>& pass, CudnnRnnPlan* plan,
                    ForwardArrays* arrays) {
  CudnnRnnStaging& staging = plan->staging();
  const StagedShape h = plan->hidden_state_shape();
  const StagedShape c = plan->cell_state_shape();
  arrays->reserve_space = pass.kept.data;
  arrays->stream = pass.stream;
  TF_RNN_OPS_RETURN_IF_ERROR(plan->ReadInput(pass.input, &arrays->x));
  TF_RNN_OPS_RETURN_IF_ERROR(
      plan->ReadParams(pass.weights.params, &arrays->params));
  TF_RNN_OPS_RETURN_IF_ERROR(staging.Read(pass.input_h, h, &arrays->hx));
  void* const kept =
      plan->KeptOutput(arrays->reserve_space, plan->stacks().size() - 1);
  TF_RNN_OPS_RETURN_IF_ERROR(plan->WriteOutput(pass.output, kept, &arrays->y));
  TF_RNN_OPS_RETURN_IF_ERROR(
      staging.Write(pass.output_h, h, pass.input_h, &arrays->hy));
  if (pass.config.has_cell_state()) {
    TF_RNN_OPS_RETURN_IF_ERROR(staging.Read(pass.input_c, c, &arrays->cx));
    TF_RNN_OPS_RETURN_IF_ERROR(
        staging.Write(pass.output_c, c, pass.input_c, &arrays->cy));
  }
  if (plan->stacks().size() > 1) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan->AllocateOutput(&arrays->dropped));
  }
  return plan->call().scratch->Allocate(plan->workspace_bytes(),
                                        &arrays->workspace);
}

// Runs a stack, and applies dropout to the input of the next one.
Status RunForwardStack(const Cudnn& cudnn, cudnnHandle_t handle,
                       const CudnnRnnPlan& plan, std::size_t index,
                       const ForwardArrays& arrays) {
  const CudnnRnnStack& stack = plan.stacks()[index];
  const std::int64_t num_units = plan.cell_state_shape().width;
  const std::int64_t output_size = plan.hidden_state_shape().width;
  const bool is_training = arrays.reserve_space != nullptr;
  void* const y = plan.is_last(index)
                      ? arrays.y
                      : plan.KeptOutput(arrays.reserve_space, index);
  const void* weights;
  TF_RNN_OPS_RETURN_IF_ERROR(plan.ReadWeights(stack, arrays.params, &weights));
  TF_RNN_OPS_RETURN_IF_ERROR(plan.ZeroIfNotWritten(plan.output_shape(), y));
  TF_RNN_OPS_RETURN_IF_ERROR(cudnn.Check(
      cudnn.cudnnRNNForward(
          handle, stack.network().descriptor(),
          is_training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
          // Not needed: the data descriptors contain the lengths.
          /*devSeqLengths=*/nullptr, stack.input(),
          index == 0 ? arrays.x : arrays.dropped, stack.output(), y,
          stack.hidden_state(), plan.StateOf(index, arrays.hx, output_size),
          plan.StateOf(index, arrays.hy, output_size), stack.cell_state(),
          plan.StateOf(index, arrays.cx, num_units),
          plan.StateOf(index, arrays.cy, num_units),
          stack.network().params().num_bytes(), weights,
          stack.workspace_bytes(), arrays.workspace,
          is_training ? stack.reserve_bytes() : 0,
          plan.CudnnPart(arrays.reserve_space, index)),
      "cudnnRNNForward"));
  if (plan.is_last(index)) return Status();
  return plan.Drop(index + 1, arrays.stream, y, arrays.dropped);
}

// The arrays of a backward pass in cuDNN's layout and type. The stacks run one
// after another and share the scratch memory.
struct BackwardArrays {
  const void *x, *hx, *params, *dhy;
  const void *cx = nullptr, *dcy = nullptr;
  const void *y, *dy;  // y: of the last stack; dy: of the next stack to run
  void *dx, *dhx;
  void *dparams = nullptr, *dcx = nullptr;
  void* dropped = nullptr;  // the input of a stack above the first
  // Gradients with respect to these inputs, alternating between two buffers.
  void* inner_gradients[2] = {nullptr, nullptr};
  void* workspace;
  void* reserve_space;  // opened; overwritten
  rnn::RandomStream stream;
};

template <typename T>
Status StageBackward(const rnn::NetworkBackward<T>& pass, CudnnRnnPlan* plan,
                     BackwardArrays* arrays) {
  CudnnRnnStaging& staging = plan->staging();
  const StagedShape y = plan->output_shape();
  const StagedShape h = plan->hidden_state_shape();
  const StagedShape c = plan->cell_state_shape();
  TF_RNN_OPS_RETURN_IF_ERROR(plan->ReadInput(pass.input, &arrays->x));
  TF_RNN_OPS_RETURN_IF_ERROR(
      plan->ReadParams(pass.weights.params, &arrays->params));
  TF_RNN_OPS_RETURN_IF_ERROR(staging.Read(pass.input_h, h, &arrays->hx));
  arrays->y =
      plan->KeptOutput(arrays->reserve_space, plan->stacks().size() - 1);
  if (arrays->y == nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(staging.Read(pass.output, y, &arrays->y));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(
      staging.Read(pass.output_backprop, y, &arrays->dy));
  TF_RNN_OPS_RETURN_IF_ERROR(
      staging.Read(pass.output_h_backprop, h, &arrays->dhy));
  TF_RNN_OPS_RETURN_IF_ERROR(
      plan->WriteInputGradient(pass.input_backprop, &arrays->dx));
  if (pass.weights_backprop.params != nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan->WriteParamsGradient(
        pass.weights_backprop.params, &arrays->dparams));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(staging.Write(
      pass.input_h_backprop, h, pass.output_h_backprop, &arrays->dhx));
  if (!pass.config.has_cell_state()) return Status();
  TF_RNN_OPS_RETURN_IF_ERROR(staging.Read(pass.input_c, c, &arrays->cx));
  TF_RNN_OPS_RETURN_IF_ERROR(
      staging.Read(pass.output_c_backprop, c, &arrays->dcy));
  return staging.Write(pass.input_c_backprop, c, pass.output_c_backprop,
                       &arrays->dcx);
}

// Opens the reserve space, which cuDNN overwrites: in a copy, unless the pass
// owns it.
template <typename T>
Status OpenReserveSpace(const rnn::NetworkBackward<T>& pass,
                        const CudnnRnnPlan& plan, bool owns_reserve_space,
                        BackwardArrays* arrays) {
  arrays->reserve_space = const_cast<T*>(pass.kept.data);
  if (!owns_reserve_space) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan.call().scratch->Allocate(
        plan.reserve_space_bytes(), &arrays->reserve_space));
    TF_RNN_OPS_RETURN_IF_ERROR(
        CopyBytes(plan.call(), plan.reserve_space_bytes(), pass.kept.data,
                  arrays->reserve_space));
  }
  return plan.Open(arrays->reserve_space);
}

Status AllocateBackward(const CudnnRnnPlan& plan, BackwardArrays* arrays) {
  ScratchAllocator& scratch = *plan.call().scratch;
  const std::size_t num_inner = plan.stacks().size() - 1;
  for (std::size_t i = 0; i < std::min<std::size_t>(num_inner, 2); ++i) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        plan.AllocateOutput(&arrays->inner_gradients[i]));
  }
  if (num_inner > 0) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan.AllocateOutput(&arrays->dropped));
  }
  return scratch.Allocate(plan.workspace_bytes(), &arrays->workspace);
}

// The arrays of one stack of a backward pass.
struct BackwardStackArrays {
  const void* x;
  const void* y;
  void* dx;
  void* cudnn_part;
};

Status RunBackwardData(const Cudnn& cudnn, cudnnHandle_t handle,
                       const CudnnRnnPlan& plan, std::size_t index,
                       const BackwardArrays& all,
                       const BackwardStackArrays& arrays) {
  const CudnnRnnStack& stack = plan.stacks()[index];
  const std::int64_t num_units = plan.cell_state_shape().width;
  const std::int64_t output_size = plan.hidden_state_shape().width;
  const void* weights;
  TF_RNN_OPS_RETURN_IF_ERROR(plan.ReadWeights(stack, all.params, &weights));
  return cudnn.Check(
      cudnn.cudnnRNNBackwardData_v8(
          handle, stack.network().descriptor(), /*devSeqLengths=*/nullptr,
          stack.output(), arrays.y, all.dy, stack.input(), arrays.dx,
          stack.hidden_state(), plan.StateOf(index, all.hx, output_size),
          plan.StateOf(index, all.dhy, output_size),
          plan.StateOf(index, all.dhx, output_size), stack.cell_state(),
          plan.StateOf(index, all.cx, num_units),
          plan.StateOf(index, all.dcy, num_units),
          plan.StateOf(index, all.dcx, num_units),
          stack.network().params().num_bytes(), weights,
          stack.workspace_bytes(), all.workspace, stack.reserve_bytes(),
          arrays.cudnn_part),
      "cudnnRNNBackwardData_v8");
}

// Requires the results of RunBackwardData in cuDNN's reserve space.
Status RunBackwardWeights(const Cudnn& cudnn, cudnnHandle_t handle,
                          const CudnnRnnPlan& plan, std::size_t index,
                          const BackwardArrays& all,
                          const BackwardStackArrays& arrays) {
  const CudnnRnnStack& stack = plan.stacks()[index];
  void* dweights;
  TF_RNN_OPS_RETURN_IF_ERROR(
      plan.WriteWeightsGradient(stack, all.dparams, &dweights));
  TF_RNN_OPS_RETURN_IF_ERROR(cudnn.Check(
      cudnn.cudnnRNNBackwardWeights_v8(
          handle, stack.network().descriptor(), CUDNN_WGRAD_MODE_ADD,
          /*devSeqLengths=*/nullptr, stack.input(), arrays.x,
          stack.hidden_state(),
          plan.StateOf(index, all.hx, plan.hidden_state_shape().width),
          stack.output(), arrays.y, stack.network().params().num_bytes(),
          dweights, stack.workspace_bytes(), all.workspace,
          stack.reserve_bytes(), arrays.cudnn_part),
      "cudnnRNNBackwardWeights_v8"));
  return plan.FinishWeightsGradient(stack, dweights, all.dparams);
}

// Runs a stack, and computes the gradient with respect to the output of the
// stack below.
Status RunBackwardStack(const Cudnn& cudnn, cudnnHandle_t handle,
                        const CudnnRnnPlan& plan, std::size_t index,
                        BackwardArrays* all) {
  const bool is_first = index == 0;
  const BackwardStackArrays arrays = {
      is_first ? all->x : all->dropped,
      plan.is_last(index) ? all->y : plan.KeptOutput(all->reserve_space, index),
      is_first ? all->dx : all->inner_gradients[(index - 1) % 2],
      plan.CudnnPart(all->reserve_space, index)};
  if (!is_first) {
    TF_RNN_OPS_RETURN_IF_ERROR(plan.Drop(
        index, all->stream, plan.KeptOutput(all->reserve_space, index - 1),
        all->dropped));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(plan.ZeroIfNotWritten(
      is_first ? plan.input_shape() : plan.output_shape(), arrays.dx));
  TF_RNN_OPS_RETURN_IF_ERROR(
      RunBackwardData(cudnn, handle, plan, index, *all, arrays));
  if (all->dparams != nullptr) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        RunBackwardWeights(cudnn, handle, plan, index, *all, arrays));
  }
  all->dy = arrays.dx;
  return is_first ? Status()
                  : plan.Drop(index, all->stream, arrays.dx, arrays.dx);
}

}  // namespace

template <typename T>
Status CudnnRnn<T>::Plan(const CudnnRnnCall& call,
                         const rnn::ReserveSpaceKey& key, bool is_training,
                         CudnnRnnPlan* plan) {
  Status status = plan->Init(call, DataTypeOf<T>, key, is_training);
  if (status.ok() && plan->has_steps()) status = PlanStacks(call, plan);
  return WithNetwork(status, key.config, key.size);
}

template <typename T>
Status CudnnRnn<T>::PlanStacks(const CudnnRnnCall& call, CudnnRnnPlan* plan) {
  CudnnLock lock;
  TF_RNN_OPS_RETURN_IF_ERROR(handles_.Lock(call, &lock));
  std::vector<CudnnRnnMethod> methods;
  TF_RNN_OPS_RETURN_IF_ERROR(FindMethods(call, *plan, &methods));
  Status status;
  for (const CudnnRnnMethod& method : methods) {
    status = PlanStacks(method, lock.handle(), plan);
    if (status.code() != StatusCode::kUnimplemented) break;
  }
  return status;
}

template <typename T>
Status CudnnRnn<T>::FindMethods(const CudnnRnnCall& call,
                                const CudnnRnnPlan& plan,
                                std::vector<CudnnRnnMethod>* methods) const {
  bool is_standard_only;
  TF_RNN_OPS_RETURN_IF_ERROR(ReadAlgorithmVariable(&is_standard_only));
  is_standard_only =
      is_standard_only || is_standard_only_ || !plan.has_all_steps();
  GpuTraits gpu{};
  if (!is_standard_only) {
    TF_RNN_OPS_RETURN_IF_ERROR(ReadGpuTraits(*call.driver, &gpu));
  }
  const auto add = [&](DataType type, bool allow_tf32) {
    const cudnnRNNAlgo_t algorithm =
        is_standard_only ? CUDNN_RNN_ALGO_STANDARD
                         : ChooseAlgorithm(plan.key(), plan.is_training(), type,
                                           allow_tf32, gpu);
    methods->push_back({type, algorithm, allow_tf32});
    if (algorithm != CUDNN_RNN_ALGO_STANDARD) {
      methods->push_back({type, CUDNN_RNN_ALGO_STANDARD, allow_tf32});
    }
  };
  constexpr DataType kType = DataTypeOf<T>;
  // TF32 affects float32 only.
  add(kType, call.allow_tf32 && kType == DataType::kFloat);
  // cuDNN before version 9.13 and some GPUs do not support bfloat16. TF32 is
  // allowed, because it is more precise than bfloat16.
  if (kType == DataType::kBFloat16) add(DataType::kFloat, /*allow_tf32=*/true);
  return Status();
}

template <typename T>
Status CudnnRnn<T>::PlanStacks(const CudnnRnnMethod& method,
                               cudnnHandle_t handle, CudnnRnnPlan* plan) {
  plan->BeginStacks(method);
  const rnn::RnnConfig& config = plan->key().config;
  const std::int64_t count = plan->layers_per_stack();
  for (std::int64_t first = 0; first < config.num_layers; first += count) {
    const CudnnRnnNetwork* network;
    TF_RNN_OPS_RETURN_IF_ERROR(FindNetwork(
        plan->call(), handle, {config, first, count}, method, &network));
    TF_RNN_OPS_RETURN_IF_ERROR(plan->AddStack(cudnn_, handle, *network));
  }
  // The format of the reserve space depends on these, too.
  plan->set_variant(cudnn_.cudnnGetVersion() << 8 |
                    static_cast<std::uint64_t>(method.algorithm) << 4 |
                    static_cast<std::uint64_t>(method.type) << 1 |
                    static_cast<std::uint64_t>(method.allow_tf32));
  return Status();
}

template <typename T>
Status CudnnRnn<T>::FindNetwork(const Call& call, cudnnHandle_t handle,
                                const CudnnRnnLayers& layers,
                                const CudnnRnnMethod& method,
                                const CudnnRnnNetwork** network) {
  CUcontext context;
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
      call.driver->cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  const rnn::RnnConfig& config = layers.network;
  const NetworkKey key = {context,           call.stream,
                          method.type,       method.algorithm,
                          method.allow_tf32, layers.first,
                          layers.count,      config.mode,
                          config.skip_input, config.num_directions,
                          config.num_layers, config.input_size,
                          config.num_units,  config.num_proj};
  const std::lock_guard<std::mutex> guard(mutex_);
  std::unique_ptr<CudnnRnnNetwork>& found = networks_[key];
  if (found == nullptr) {
    auto made = std::make_unique<CudnnRnnNetwork>();
    TF_RNN_OPS_RETURN_IF_ERROR(made->Init(cudnn_, handle, layers, method));
    found = std::move(made);
  }
  *network = found.get();
  return Status();
}

template <typename T>
Status CudnnRnn<T>::Forward(const rnn::NetworkForward<T>& pass,
                            CudnnRnnPlan* plan) {
  const Status status = plan->has_steps()
                            ? RunForward(pass, plan)
                            : ForwardWithoutSteps(plan->call(), pass);
  return WithNetwork(status, pass.config, pass.size);
}

template <typename T>
Status CudnnRnn<T>::Backward(const rnn::NetworkBackward<T>& pass,
                             CudnnRnnPlan* plan, bool owns_reserve_space) {
  const Status status = plan->has_steps()
                            ? RunBackward(pass, plan, owns_reserve_space)
                            : BackwardWithoutSteps(plan->call(), pass);
  return WithNetwork(status, pass.config, pass.size);
}

template <typename T>
Status CudnnRnn<T>::RunForward(const rnn::NetworkForward<T>& pass,
                               CudnnRnnPlan* plan) {
  CudnnLock lock;
  TF_RNN_OPS_RETURN_IF_ERROR(handles_.Lock(plan->call(), &lock));
  ForwardArrays arrays;
  TF_RNN_OPS_RETURN_IF_ERROR(StageForward(pass, plan, &arrays));
  for (std::size_t i = 0; i < plan->stacks().size(); ++i) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        RunForwardStack(cudnn_, lock.handle(), *plan, i, arrays));
  }
  TF_RNN_OPS_RETURN_IF_ERROR(plan->Finish());
  return arrays.reserve_space == nullptr ? Status()
                                         : plan->Seal(arrays.reserve_space);
}

template <typename T>
Status CudnnRnn<T>::RunBackward(const rnn::NetworkBackward<T>& pass,
                                CudnnRnnPlan* plan, bool owns_reserve_space) {
  CudnnLock lock;
  TF_RNN_OPS_RETURN_IF_ERROR(handles_.Lock(plan->call(), &lock));
  BackwardArrays arrays;
  TF_RNN_OPS_RETURN_IF_ERROR(
      OpenReserveSpace(pass, *plan, owns_reserve_space, &arrays));
  TF_RNN_OPS_RETURN_IF_ERROR(StageBackward(pass, plan, &arrays));
  TF_RNN_OPS_RETURN_IF_ERROR(AllocateBackward(*plan, &arrays));
  arrays.stream = rnn::ReserveSpaceStream(*pass.kept.header);
  for (std::size_t i = plan->stacks().size(); i-- > 0;) {
    TF_RNN_OPS_RETURN_IF_ERROR(
        RunBackwardStack(cudnn_, lock.handle(), *plan, i, &arrays));
  }
  return plan->Finish();
}

Status WriteReserveSpaceHeader(const Call& call,
                               const ReserveSpaceHeader& header,
                               void* reserve_space) {
  return WriteBytes(call, header, reserve_space);
}

Status ReadReserveSpaceHeader(const Call& call, const void* reserve_space,
                              ReserveSpaceHeader* header) {
  TF_RNN_OPS_RETURN_IF_ERROR(call.driver->Check(
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
