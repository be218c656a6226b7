// The CPU engine on a plain pool of threads, without TensorFlow.
// engine_library.py calls these functions.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>

#include "cc/rnn/executor.h"
#include "cc/rnn/instruction_set.h"
#include "cc/rnn/network.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"
#include "cc/rnn/threads.h"

namespace {

using tf_rnn_ops::rnn::ActiveInstructionSet;
using tf_rnn_ops::rnn::CopyReserveSpaceHeader;
using tf_rnn_ops::rnn::GetNetworkKernels;
using tf_rnn_ops::rnn::InstructionSetName;
using tf_rnn_ops::rnn::kReserveSpaceHeaderBytes;
using tf_rnn_ops::rnn::NetworkBackward;
using tf_rnn_ops::rnn::NetworkForward;
using tf_rnn_ops::rnn::NetworkKernels;
using tf_rnn_ops::rnn::PoolExecutor;
using tf_rnn_ops::rnn::PoolUsers;
using tf_rnn_ops::rnn::ReserveSpaceHeader;
using tf_rnn_ops::rnn::ReserveSpaceSize;
using tf_rnn_ops::rnn::RnnConfig;
using tf_rnn_ops::rnn::RnnMode;
using tf_rnn_ops::rnn::RnnModes;
using tf_rnn_ops::rnn::RnnSize;
using tf_rnn_ops::rnn::Threads;

// Memory that is kept between calls, as TensorFlow's allocator keeps it, with
// the alignment of its tensors.
class Memory {
 public:
  void* Resize(std::int64_t num_bytes) {
    if (num_bytes <= size_) return memory_.get();
    constexpr std::size_t kAlignment = 64;
    void* memory = nullptr;
    if (posix_memalign(&memory, kAlignment, num_bytes) != 0) {
      throw std::bad_alloc();
    }
    memory_.reset(memory);
    size_ = num_bytes;
    return memory;
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::int64_t size_ = 0;
};

// As many threads as TensorFlow's pool has, in addition to the calling one.
struct Pool {
  explicit Pool(int num_threads)
      : num_threads(num_threads), threads(num_threads) {}

  const int num_threads;
  PoolUsers users;
  Threads threads;
  Memory workspace;
  Memory reserve_space;
};

RnnMode ParseMode(std::string_view name) {
  int index = 0;
  while (RnnModes().at(index).name != name) ++index;
  return static_cast<RnnMode>(index);
}

}  // namespace

#define TF_RNN_OPS_EXPORT extern "C" __attribute__((visibility("default")))

// A network of one layer and direction, in float32, and its arrays. T = time,
// B = batch, I = input_size, U = units.
struct TfRnnOps_Network {
  const char* mode;  // the name in RnnModes()
  std::int64_t time;
  std::int64_t batch;
  std::int64_t input_size;
  std::int64_t units;
  const float* input;            // [T, B, I]
  const float* states;           // [B, U], zeros: all initial states
  const float* params;           // cuDNN's buffer
  const float* output_backprop;  // [T, B, U]
  float* output;                 // [T, B, U]
  float* input_backprop;         // [T, B, I]
  float* params_backprop;        // as params
  float* unused_h;               // [B, U], results that are not compared
  float* unused_c;               // [B, U]
};

// The pool is never deleted: a process has one.
TF_RNN_OPS_EXPORT void* TfRnnOps_NewPool(int num_threads) {
  return new Pool(num_threads);
}

TF_RNN_OPS_EXPORT const char* TfRnnOps_InstructionSet() {
  return InstructionSetName(ActiveInstructionSet());
}

// Computes output, and if is_training, the gradients, too.
TF_RNN_OPS_EXPORT void TfRnnOps_RunNetwork(void* pool_pointer,
                                           const TfRnnOps_Network* network,
                                           int is_training) {
  Pool& pool = *static_cast<Pool*>(pool_pointer);
  RnnConfig config{};
  config.mode = ParseMode(network->mode);
  config.num_directions = 1;
  config.num_layers = 1;
  config.input_size = network->input_size;
  config.num_units = network->units;
  const RnnSize size{network->time, network->batch};
  const NetworkKernels<float> kernels =
      GetNetworkKernels<float>(ActiveInstructionSet(), config);
  const auto fill = [&](auto& pass) {
    pass.config = config;
    pass.size = size;
    pass.time_major = true;
    pass.input = network->input;
    pass.input_h = pass.input_c = network->states;
    pass.params = network->params;
    pass.output = network->output;
  };
  // Each op has its own executor.
  const auto run = [&](auto pass, auto workspace_size, auto function) {
    PoolExecutor executor(pool.threads.Schedule(), pool.num_threads, {},
                          &pool.users);
    pass.workspace =
        pool.workspace.Resize(workspace_size(pass, executor.num_threads()));
    function(pass, executor);
  };

  NetworkForward<float> forward{};
  fill(forward);
  forward.is_training = is_training != 0;
  forward.output_h = network->unused_h;
  forward.output_c = network->unused_c;
  if (is_training) {
    forward.reserve_space = static_cast<float*>(pool.reserve_space.Resize(
        ReserveSpaceSize<float>(config, size) * sizeof(float)));
  }
  run(forward, kernels.forward_workspace, kernels.forward);
  if (!is_training) return;

  const ReserveSpaceHeader header =
      CopyReserveSpaceHeader(forward.reserve_space, kReserveSpaceHeaderBytes);
  NetworkBackward<float> backward{};
  fill(backward);
  backward.output_backprop = network->output_backprop;
  backward.output_h_backprop = network->states;
  backward.output_c_backprop = network->states;
  backward.reserve_space = forward.reserve_space;
  backward.reserve_space_header = &header;
  backward.input_backprop = network->input_backprop;
  backward.input_h_backprop = network->unused_h;
  backward.input_c_backprop = network->unused_c;
  backward.params_backprop = network->params_backprop;
  run(backward, kernels.backward_workspace, kernels.backward);
}
