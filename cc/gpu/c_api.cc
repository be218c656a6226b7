#include "cc/gpu/c_api.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "cc/gpu/call.h"
#include "cc/gpu/cublas.h"
#include "cc/gpu/cuda_driver.h"
#include "cc/gpu/cudnn.h"
#include "cc/gpu/cudnn_handle.h"
#include "cc/gpu/cudnn_rnn.h"
#include "cc/gpu/cudnn_rnn_algorithm.h"
#include "cc/gpu/cudnn_rnn_backward_grad.h"
#include "cc/gpu/gru_block_cell.h"
#include "cc/gpu/libraries.h"
#include "cc/gpu/status.h"
#include "cc/rnn/checked_math.h"
#include "cc/rnn/cudnn_rnn.h"
#include "cc/rnn/cudnn_rnn_params.h"
#include "cc/rnn/float16.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"

#define TF_RNN_OPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpu = tf_rnn_ops::gpu;

// A network of any type.
struct TfRnnOpsGpu_Network {
  explicit TfRnnOpsGpu_Network(const tf_rnn_ops::rnn::RnnConfig& config)
      : config(config) {}
  virtual ~TfRnnOpsGpu_Network() = default;

  virtual gpu::Status FindReserveSpaceSize(
      const TfRnnOpsGpu_Call* call, const TfRnnOpsGpu_Sequences& sequences,
      std::size_t* num_bytes, const char** algorithm) = 0;
  virtual gpu::Status Forward(const TfRnnOpsGpu_Call* call,
                              const TfRnnOpsGpu_Sequences& sequences,
                              const TfRnnOpsGpu_Forward& pass) = 0;
  virtual gpu::Status Backward(const TfRnnOpsGpu_Call* call,
                               const TfRnnOpsGpu_Sequences& sequences,
                               const TfRnnOpsGpu_Backward& pass) = 0;
  virtual gpu::Status BackwardGrad(const TfRnnOpsGpu_Call* call,
                                   const TfRnnOpsGpu_Sequences& sequences,
                                   const TfRnnOpsGpu_BackwardGrad& pass) = 0;

  const tf_rnn_ops::rnn::RnnConfig config;
};

namespace tf_rnn_ops::gpu {
namespace {

using rnn::CheckedInt;

// ---------------------------------------------------------------------------
// Errors

thread_local std::string last_error;

Status InvalidArgument(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, message);
}

int CodeOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return TF_RNN_OPS_GPU_OK;
    case StatusCode::kInvalidArgument:
      return TF_RNN_OPS_GPU_INVALID_ARGUMENT;
    case StatusCode::kOutOfMemory:
      return TF_RNN_OPS_GPU_OUT_OF_MEMORY;
    case StatusCode::kUnimplemented:
      return TF_RNN_OPS_GPU_UNIMPLEMENTED;
    case StatusCode::kUnavailable:
      return TF_RNN_OPS_GPU_UNAVAILABLE;
    case StatusCode::kInternal:
      break;
  }
  return TF_RNN_OPS_GPU_INTERNAL;
}

// Calls `function` and returns its code. Converts exceptions to codes, since C
// callers cannot catch them.
template <typename Function>
int Run(const Function& function) noexcept {
  try {
    const Status status = function();
    if (!status.ok()) last_error = status.message();
    return CodeOf(status.code());
  } catch (const std::bad_alloc&) {
    last_error = "no host memory";  // short: not allocated on the heap
    return TF_RNN_OPS_GPU_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    last_error = "unknown exception";
    return TF_RNN_OPS_GPU_INTERNAL;
  }
}

// ---------------------------------------------------------------------------
// Arguments

Status CheckNotNull(const char* name, const void* pointer) {
  if (pointer != nullptr) return Status();
  return InvalidArgument(std::string(name) + " must not be null");
}

// Checks the alignment that cuDNN requires.
Status CheckAligned(const char* name, const void* memory) {
  constexpr std::uintptr_t kAlignment = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (address % kAlignment == 0) return Status();
  return InvalidArgument(
      std::string(name) + " must be aligned to " + std::to_string(kAlignment) +
      " bytes, but its address modulo " + std::to_string(kAlignment) + " is " +
      std::to_string(address % kAlignment));
}

Status CheckAtLeast(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return Status();
  return InvalidArgument(std::string(name) + " must be at least " +
                         std::to_string(least) + ", but is " +
                         std::to_string(value));
}

Status CheckBetween(const char* name, std::int64_t value, std::int64_t least,
                    std::int64_t most) {
  if (value >= least && value <= most) return Status();
  return InvalidArgument(
      std::string(name) + " must be between " + std::to_string(least) +
      " and " + std::to_string(most) + ", but is " + std::to_string(value));
}

Status CheckCountable(const char* name, CheckedInt size) {
  // In bytes, for the largest type.
  if ((size * sizeof(double)).valid()) return Status();
  return InvalidArgument(std::string(name) +
                         " is too large: its size in bytes must fit in 64 "
                         "bits");
}

// Passes the arrays of a call to the engine. Keeps the first error.
class ArrayArguments {
 public:
  // Any: void or const void. Array: T* or const T*.
  template <typename Any, typename Array>
  void Take(const char* name, Any* memory, CheckedInt size, Array* array) {
    *array = static_cast<Array>(memory);
    if (!status_.ok()) return;
    status_ = CheckCountable(name, size);
    if (!status_.ok() || memory != nullptr || size.value() == 0) return;
    status_ = InvalidArgument(std::string(name) + " must have " +
                              std::to_string(size.value()) +
                              " elements, but is null");
  }
  // An array that may be null.
  template <typename Any, typename Array>
  void TakeOptional(Any* memory, Array* array) {
    *array = static_cast<Array>(memory);
  }

  const Status& status() const { return status_; }

 private:
  Status status_;
};

// Calls function(T()) with the C++ type for a TfRnnOpsGpu_Type.
template <typename Function>
Status WithType(int type, const Function& function) {
  switch (type) {
    case TF_RNN_OPS_GPU_HALF:
      return function(rnn::Half());
    case TF_RNN_OPS_GPU_BFLOAT16:
      return function(rnn::BFloat16());
    case TF_RNN_OPS_GPU_FLOAT:
      return function(float());
    case TF_RNN_OPS_GPU_DOUBLE:
      return function(double());
  }
  return CheckBetween("type", type, TF_RNN_OPS_GPU_HALF, TF_RNN_OPS_GPU_DOUBLE);
}

// ---------------------------------------------------------------------------
// Calls

// The engine's Call for a TfRnnOpsGpu_Call.
class EngineCall : public ScratchAllocator {
 public:
  Status Init(const TfRnnOpsGpu_Call* argument) {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("call", argument));
    argument_ = *argument;
    if (argument_.allocate_scratch == nullptr) {
      return InvalidArgument("allocate_scratch must not be null");
    }
    call_.stream = static_cast<CUstream>(argument_.stream);
    call_.scratch = this;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CudaDriver::Get(&call_.driver));
    context_ = std::make_unique<ScopedContext>(*call_.driver);
    return context_->Enter(call_.stream);
  }

  Status Allocate(std::size_t num_bytes, void** memory) override {
    *memory = nullptr;
    if (num_bytes == 0) return Status();
    *memory = argument_.allocate_scratch(argument_.allocator, num_bytes);
    if (*memory != nullptr) return CheckAligned("scratch memory", *memory);
    return Status(StatusCode::kOutOfMemory,
                  "allocate_scratch returned null for " +
                      std::to_string(num_bytes) + " bytes");
  }

  const Call& call() const { return call_; }
  bool allow_tf32() const { return argument_.allow_tf32 != 0; }
  CudnnRnnCall network_call() const { return {call_, allow_tf32()}; }

 private:
  TfRnnOpsGpu_Call argument_{};
  Call call_{};
  std::unique_ptr<ScopedContext> context_;
};

// ---------------------------------------------------------------------------
// Networks

Status ReadOptions(const TfRnnOpsGpu_NetworkOptions& options,
                   rnn::RnnConfig* config) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckBetween(
      "mode", options.mode, TF_RNN_OPS_GPU_RNN_RELU, TF_RNN_OPS_GPU_GRU));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CheckBetween("num_directions", options.num_directions, 1, 2));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CheckBetween("num_layers", options.num_layers, 1,
                   std::numeric_limits<std::int32_t>::max()));  // type in cuDNN
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CheckAtLeast("input_size", options.input_size, 0));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CheckAtLeast("num_units", options.num_units, 0));
  rnn::NetworkAttributes attributes;
  attributes.mode = static_cast<rnn::RnnMode>(options.mode);
  attributes.input_mode = options.skip_input ? "skip_input" : "linear_input";
  attributes.num_directions = options.num_directions;
  attributes.dropout = options.dropout;
  attributes.num_proj = options.num_proj;
  for (const std::string& error :
       {attributes.Error(), attributes.NumUnitsError(options.num_units),
        attributes.InputSizeError(options.num_units, options.input_size)}) {
    if (!error.empty()) return InvalidArgument(error);
  }
  *config = attributes.Config(options.num_layers, options.num_units,
                              options.input_size);
  if (rnn::CudnnRnnParamsSize(*config) >= 0) return Status();
  return InvalidArgument(attributes.TooManyParams(
      std::to_string(options.num_layers), std::to_string(options.num_units),
      std::to_string(options.input_size)));
}
static_assert(static_cast<int>(rnn::RnnMode::kRelu) ==
                  TF_RNN_OPS_GPU_RNN_RELU &&
              static_cast<int>(rnn::RnnMode::kTanh) ==
                  TF_RNN_OPS_GPU_RNN_TANH &&
              static_cast<int>(rnn::RnnMode::kLstm) == TF_RNN_OPS_GPU_LSTM &&
              static_cast<int>(rnn::RnnMode::kGru) == TF_RNN_OPS_GPU_GRU);

Status CheckSequences(const TfRnnOpsGpu_Sequences* sequences) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("sequences", sequences));
  const auto [time, batch, time_major, lengths] = *sequences;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckAtLeast("time", time, 0));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckAtLeast("batch", batch, 0));
  if (lengths == nullptr) return Status();
  for (std::int64_t i = 0; i < batch; ++i) {
    if (lengths[i] >= 0 && lengths[i] <= time) continue;
    return InvalidArgument(
        "lengths[" + std::to_string(i) + "] must be between 0 and time = " +
        std::to_string(time) + ", but is " + std::to_string(lengths[i]));
  }
  return Status();
}

rnn::RandomStream StreamOf(const TfRnnOpsGpu_RandomStream& stream) {
  return {stream.key, stream.counter_low, stream.counter_high};
}

// The sizes of the arrays of a pass, in elements.
struct PassSizes {
  PassSizes(const rnn::RnnConfig& config,
            const TfRnnOpsGpu_Sequences& sequences)
      : input(CheckedInt(sequences.time) * sequences.batch * config.input_size),
        output(rnn::LayerOutputSize(config, {sequences.time, sequences.batch})),
        h(CheckedInt(config.num_layers) * config.num_directions *
          sequences.batch * config.output_size()),
        c(config.has_cell_state()
              ? CheckedInt(config.num_layers) * config.num_directions *
                    sequences.batch * config.num_units
              : CheckedInt(0)),
        params(rnn::CudnnRnnParamsSize(config)) {}

  Status Check() const {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCountable("input", input));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCountable("output", output));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCountable("input_h", h));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckCountable("input_c", c));
    return CheckCountable("params", params);
  }

  CheckedInt input, output, h, c, params;
};

template <typename T>
class Network : public TfRnnOpsGpu_Network {
 public:
  Network(const Cudnn& cudnn, CudnnHandlePool& handles,
          const rnn::RnnConfig& config,
          const TfRnnOpsGpu_NetworkOptions& options)
      : TfRnnOpsGpu_Network(config),
        dropout_(options.dropout),
        networks_(cudnn, handles,
                  {options.standard_algorithm_only != 0,
                   options.widen_bfloat16 != 0}) {}

  Status FindReserveSpaceSize(const TfRnnOpsGpu_Call* call,
                              const TfRnnOpsGpu_Sequences& sequences,
                              std::size_t* num_bytes,
                              const char** algorithm) override {
    EngineCall engine_call;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(engine_call.Init(call));
    CudnnRnnPlan plan;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(networks_.Plan(engine_call.network_call(),
                                                  KeyOf(sequences),
                                                  /*is_training=*/true, &plan));
    *num_bytes = plan.reserve_space_bytes();
    *algorithm = AlgorithmName(plan.algorithm());
    return Status();
  }

  Status Forward(const TfRnnOpsGpu_Call* call,
                 const TfRnnOpsGpu_Sequences& sequences,
                 const TfRnnOpsGpu_Forward& pass) override {
    rnn::CudnnRnnForward<T> engine_pass{};
    const PassSizes sizes(config, sequences);
    ArrayArguments arrays;
    TakeInputs(sequences, pass, &arrays, &engine_pass);
    arrays.Take("output", pass.output, sizes.output, &engine_pass.output);
    arrays.Take("output_h", pass.output_h, sizes.h, &engine_pass.output_h);
    arrays.Take("output_c", pass.output_c, sizes.c, &engine_pass.output_c);
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        CheckAligned("reserve_space", pass.reserve_space));
    arrays.TakeOptional(pass.reserve_space, &engine_pass.reserve_space);
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(arrays.status());
    engine_pass.is_training = pass.reserve_space != nullptr;
    engine_pass.stream = StreamOf(pass.dropout_stream);
    EngineCall engine_call;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(engine_call.Init(call));
    CudnnRnnPlan plan;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        networks_.Plan(engine_call.network_call(), KeyOf(sequences),
                       engine_pass.is_training, &plan));
    return networks_.Forward(engine_pass, &plan);
  }

  Status Backward(const TfRnnOpsGpu_Call* call,
                  const TfRnnOpsGpu_Sequences& sequences,
                  const TfRnnOpsGpu_Backward& pass) override {
    rnn::CudnnRnnBackward<T> engine_pass{};
    const PassSizes sizes(config, sequences);
    ArrayArguments arrays;
    TakeInputs(sequences, pass, &arrays, &engine_pass);
    arrays.Take("output", pass.output, sizes.output, &engine_pass.output);
    arrays.Take("output_backprop", pass.output_backprop, sizes.output,
                &engine_pass.output_backprop);
    arrays.Take("output_h_backprop", pass.output_h_backprop, sizes.h,
                &engine_pass.output_h_backprop);
    arrays.Take("output_c_backprop", pass.output_c_backprop, sizes.c,
                &engine_pass.output_c_backprop);
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        CheckNotNull("reserve_space", pass.reserve_space));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(
        CheckAligned("reserve_space", pass.reserve_space));
    arrays.TakeOptional(pass.reserve_space, &engine_pass.reserve_space);
    arrays.Take("input_backprop", pass.input_backprop, sizes.input,
                &engine_pass.input_backprop);
    arrays.Take("input_h_backprop", pass.input_h_backprop, sizes.h,
                &engine_pass.input_h_backprop);
    arrays.Take("input_c_backprop", pass.input_c_backprop, sizes.c,
                &engine_pass.input_c_backprop);
    arrays.TakeOptional(pass.params_backprop, &engine_pass.params_backprop);
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(arrays.status());
    EngineCall engine_call;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(engine_call.Init(call));
    CudnnRnnPlan plan;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(networks_.Plan(engine_call.network_call(),
                                                  KeyOf(sequences),
                                                  /*is_training=*/true, &plan));
    ReserveSpaceHeader header;
    rnn::WriteReserveSpaceHeader<T>(plan.key(), StreamOf(pass.dropout_stream),
                                    header.data());
    engine_pass.reserve_space_header = &header;
    return networks_.Backward(engine_pass, &plan, pass.owns_reserve_space != 0);
  }

  Status BackwardGrad(const TfRnnOpsGpu_Call* call,
                      const TfRnnOpsGpu_Sequences& sequences,
                      const TfRnnOpsGpu_BackwardGrad& pass) override {
    rnn::CudnnRnnBackwardGrad<T> engine_pass{};
    const PassSizes sizes(config, sequences);
    ArrayArguments arrays;
    TakeInputs(sequences, pass, &arrays, &engine_pass);
    arrays.Take("output_backprop", pass.output_backprop, sizes.output,
                &engine_pass.output_backprop);
    arrays.Take("output_h_backprop", pass.output_h_backprop, sizes.h,
                &engine_pass.output_h_backprop);
    arrays.Take("output_c_backprop", pass.output_c_backprop, sizes.c,
                &engine_pass.output_c_backprop);
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(arrays.status());
    TakeOptional(pass, &arrays, &engine_pass);
    ReserveSpaceHeader header;
    rnn::WriteReserveSpaceHeader<T>(
        KeyOf(sequences), StreamOf(pass.dropout_stream), header.data());
    engine_pass.reserve_space_header = &header;
    EngineCall engine_call;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(engine_call.Init(call));
    Cublas* cublas;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(Cublas::Get(&cublas));
    return RunCudnnRnnBackwardGrad(engine_call.call(), *cublas,
                                   engine_call.allow_tf32(), engine_pass);
  }

 private:
  rnn::ReserveSpaceKey KeyOf(const TfRnnOpsGpu_Sequences& sequences) const {
    return {config,
            {sequences.time, sequences.batch},
            sequences.time_major != 0,
            sequences.lengths,
            dropout_};
  }

  // Inputs of all passes.
  template <typename Pass, typename EnginePass>
  void TakeInputs(const TfRnnOpsGpu_Sequences& sequences, const Pass& pass,
                  ArrayArguments* arrays, EnginePass* engine_pass) const {
    const PassSizes sizes(config, sequences);
    engine_pass->config = config;
    engine_pass->size = {sequences.time, sequences.batch};
    engine_pass->time_major = sequences.time_major != 0;
    engine_pass->sequence_lengths = sequences.lengths;
    engine_pass->dropout = dropout_;
    arrays->Take("input", pass.input, sizes.input, &engine_pass->input);
    arrays->Take("input_h", pass.input_h, sizes.h, &engine_pass->input_h);
    arrays->Take("input_c", pass.input_c, sizes.c, &engine_pass->input_c);
    arrays->Take("params", pass.params, sizes.params, &engine_pass->params);
  }

  // Optional inputs and results of the gradient of the backward pass.
  static void TakeOptional(const TfRnnOpsGpu_BackwardGrad& pass,
                           ArrayArguments* arrays,
                           rnn::CudnnRnnBackwardGrad<T>* engine_pass) {
    arrays->TakeOptional(pass.dot_input, &engine_pass->dot_input);
    arrays->TakeOptional(pass.dot_input_h, &engine_pass->dot_input_h);
    arrays->TakeOptional(pass.dot_input_c, &engine_pass->dot_input_c);
    arrays->TakeOptional(pass.dot_params, &engine_pass->dot_params);
    arrays->TakeOptional(pass.input_grad, &engine_pass->input_grad);
    arrays->TakeOptional(pass.input_h_grad, &engine_pass->input_h_grad);
    arrays->TakeOptional(pass.input_c_grad, &engine_pass->input_c_grad);
    arrays->TakeOptional(pass.params_grad, &engine_pass->params_grad);
    arrays->TakeOptional(pass.output_backprop_grad,
                         &engine_pass->output_backprop_grad);
    arrays->TakeOptional(pass.output_h_backprop_grad,
                         &engine_pass->output_h_backprop_grad);
    arrays->TakeOptional(pass.output_c_backprop_grad,
                         &engine_pass->output_c_backprop_grad);
  }

  const float dropout_;
  CudnnRnn<T> networks_;
};

Status MakeNetwork(const TfRnnOpsGpu_NetworkOptions* options,
                   TfRnnOpsGpu_Network** network) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("options", options));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("network", network));
  *network = nullptr;
  rnn::RnnConfig config;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(ReadOptions(*options, &config));
  return WithType(options->type, [&](auto zero) {
    const Cudnn* cudnn;
    CudnnHandlePool* handles;
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(CudnnHandlePool::Get(&cudnn, &handles));
    *network = new Network<decltype(zero)>(*cudnn, *handles, config, *options);
    return Status();
  });
}

// Checks the common arguments of all passes.
Status CheckPass(const TfRnnOpsGpu_Network* network,
                 const TfRnnOpsGpu_Sequences* sequences) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("network", network));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckSequences(sequences));
  return PassSizes(network->config, *sequences).Check();
}

// ---------------------------------------------------------------------------
// GRUBlockCell

// The sizes of the arrays of a step, in elements.
struct StepSizes {
  StepSizes(CheckedInt batch, CheckedInt input_size, CheckedInt cell_size)
      : x(batch * input_size),
        h(batch * cell_size),
        w_c((input_size + cell_size) * cell_size),
        w_ru(w_c * 2),
        b_c(cell_size),
        b_ru(cell_size * 2),
        bars(h * 2) {}

  CheckedInt x, h, w_c, w_ru, b_c, b_ru, bars;
};

template <typename T>
Status TakeArrays(const TfRnnOpsGpu_GruCellForward& from,
                  rnn::GruBlockCellForward<T>* step) {
  const StepSizes sizes(from.batch, from.input_size, from.cell_size);
  ArrayArguments arrays;
  arrays.Take("x", from.x, sizes.x, &step->x);
  arrays.Take("h_prev", from.h_prev, sizes.h, &step->h_prev);
  arrays.Take("w_ru", from.w_ru, sizes.w_ru, &step->w_ru);
  arrays.Take("w_c", from.w_c, sizes.w_c, &step->w_c);
  arrays.Take("b_ru", from.b_ru, sizes.b_ru, &step->b_ru);
  arrays.Take("b_c", from.b_c, sizes.b_c, &step->b_c);
  arrays.Take("r", from.r, sizes.h, &step->r);
  arrays.Take("u", from.u, sizes.h, &step->u);
  arrays.Take("c", from.c, sizes.h, &step->c);
  arrays.Take("h", from.h, sizes.h, &step->h);
  return arrays.status();
}

template <typename T>
Status TakeArrays(const TfRnnOpsGpu_GruCellBackward& from,
                  rnn::GruBlockCellBackward<T>* step) {
  const StepSizes sizes(from.batch, from.input_size, from.cell_size);
  ArrayArguments arrays;
  arrays.Take("h_prev", from.h_prev, sizes.h, &step->h_prev);
  arrays.Take("w_ru", from.w_ru, sizes.w_ru, &step->w_ru);
  arrays.Take("w_c", from.w_c, sizes.w_c, &step->w_c);
  arrays.Take("r", from.r, sizes.h, &step->r);
  arrays.Take("u", from.u, sizes.h, &step->u);
  arrays.Take("c", from.c, sizes.h, &step->c);
  arrays.TakeOptional(from.d_r, &step->d_r);
  arrays.TakeOptional(from.d_u, &step->d_u);
  arrays.TakeOptional(from.d_c, &step->d_c);
  arrays.Take("d_h", from.d_h, sizes.h, &step->d_h);
  arrays.Take("d_x", from.d_x, sizes.x, &step->d_x);
  arrays.Take("d_h_prev", from.d_h_prev, sizes.h, &step->d_h_prev);
  arrays.Take("d_c_bar", from.d_c_bar, sizes.h, &step->d_c_bar);
  arrays.Take("d_r_bar_u_bar", from.d_r_bar_u_bar, sizes.bars,
              &step->d_r_bar_u_bar);
  return arrays.status();
}

// run: the engine's function for this kind of step.
template <typename EngineStep, typename Step>
Status RunGruCell(Status (*run)(const Call&, Cublas&, bool, const EngineStep&),
                  const TfRnnOpsGpu_Call* call, const Step* step) {
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckNotNull("step", step));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckAtLeast("batch", step->batch, 0));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(
      CheckAtLeast("input_size", step->input_size, 0));
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(CheckAtLeast("cell_size", step->cell_size, 0));
  EngineStep engine_step{};
  engine_step.size = {step->batch, step->input_size, step->cell_size};
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(TakeArrays(*step, &engine_step));
  EngineCall engine_call;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(engine_call.Init(call));
  Cublas* cublas;
  TF_RNN_OPS_GPU_RETURN_IF_ERROR(Cublas::Get(&cublas));
  return run(engine_call.call(), *cublas, engine_call.allow_tf32(),
             engine_step);
}

}  // namespace
}  // namespace tf_rnn_ops::gpu

// -----------------------------------------------------------------------------
// The interface

TF_RNN_OPS_EXPORT const char* TfRnnOpsGpu_LastError(void) {
  return gpu::last_error.c_str();
}

TF_RNN_OPS_EXPORT const char* TfRnnOpsGpu_Libraries(void) {
  return gpu::DescribeLibraries();
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_MakeNetwork(
    const TfRnnOpsGpu_NetworkOptions* options, TfRnnOpsGpu_Network** network) {
  return gpu::Run([&] { return gpu::MakeNetwork(options, network); });
}

TF_RNN_OPS_EXPORT void TfRnnOpsGpu_FreeNetwork(TfRnnOpsGpu_Network* network) {
  delete network;
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_ParamsSize(const TfRnnOpsGpu_Network* network,
                                             std::int64_t* size) {
  return gpu::Run([&] {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("network", network));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("size", size));
    *size = tf_rnn_ops::rnn::CudnnRnnParamsSize(network->config);
    return gpu::Status();
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_ReserveSpace(
    TfRnnOpsGpu_Network* network, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_Sequences* sequences, std::size_t* num_bytes,
    const char** algorithm) {
  return gpu::Run([&] {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckPass(network, sequences));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("num_bytes", num_bytes));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("algorithm", algorithm));
    return network->FindReserveSpaceSize(call, *sequences, num_bytes,
                                         algorithm);
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_RunForward(
    TfRnnOpsGpu_Network* network, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_Sequences* sequences, const TfRnnOpsGpu_Forward* pass) {
  return gpu::Run([&] {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckPass(network, sequences));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("pass", pass));
    return network->Forward(call, *sequences, *pass);
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_RunBackward(
    TfRnnOpsGpu_Network* network, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_Sequences* sequences, const TfRnnOpsGpu_Backward* pass) {
  return gpu::Run([&] {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckPass(network, sequences));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("pass", pass));
    return network->Backward(call, *sequences, *pass);
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_RunBackwardGrad(
    TfRnnOpsGpu_Network* network, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_Sequences* sequences,
    const TfRnnOpsGpu_BackwardGrad* pass) {
  return gpu::Run([&] {
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckPass(network, sequences));
    TF_RNN_OPS_GPU_RETURN_IF_ERROR(gpu::CheckNotNull("pass", pass));
    return network->BackwardGrad(call, *sequences, *pass);
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_RunGruCellForward(
    int type, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_GruCellForward* step) {
  return gpu::Run([&] {
    return gpu::WithType(type, [&](auto zero) {
      return gpu::RunGruCell(gpu::RunGruBlockCellForward<decltype(zero)>, call,
                             step);
    });
  });
}

TF_RNN_OPS_EXPORT int TfRnnOpsGpu_RunGruCellBackward(
    int type, const TfRnnOpsGpu_Call* call,
    const TfRnnOpsGpu_GruCellBackward* step) {
  return gpu::Run([&] {
    return gpu::WithType(type, [&](auto zero) {
      return gpu::RunGruCell(gpu::RunGruBlockCellBackward<decltype(zero)>, call,
                             step);
    });
  });
}
