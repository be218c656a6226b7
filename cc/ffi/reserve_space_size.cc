// Sizes for programs that declare the results of a call themselves.

#include <cstdint>
#include <exception>
#include <string>

#include "cc/rnn/float16.h"
#include "cc/rnn/network_attributes.h"
#include "cc/rnn/reserve_space.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops {
namespace {

std::int64_t SizeOf(const rnn::RnnConfig& config, const rnn::RnnSize& size,
                    std::int64_t element_bytes) {
  switch (element_bytes) {
    case sizeof(double):
      return rnn::ReserveSpaceSize<double>(config, size);
    case sizeof(float):
      return rnn::ReserveSpaceSize<float>(config, size);
    case sizeof(rnn::Half):  // as rnn::BFloat16
      return rnn::ReserveSpaceSize<rnn::Half>(config, size);
    default:
      return -1;
  }
}

}  // namespace

// The number of elements of KerasRNN's result reserve_space if is_training is
// true (0 otherwise). Returns -1 if rnn_mode or element_bytes is invalid, a
// size is negative, the number overflows, or memory is short. element_bytes:
// the size of an element of the type that the op runs on.
extern "C" __attribute__((visibility("default"))) std::int64_t
TfRnnOps_KerasRNNReserveSpaceSize(const char* rnn_mode, std::int64_t batch,
                                  std::int64_t time, std::int64_t units,
                                  std::int64_t element_bytes) {
  if (rnn_mode == nullptr) return -1;
  rnn::RnnConfig config{};
  std::string error;
  try {
    config.mode = rnn::RnnModeOf(rnn_mode, /*is_of_cudnn=*/false, &error);
  } catch (const std::exception&) {  // a C program cannot catch it
    return -1;
  }
  config.num_directions = config.num_layers = 1;
  config.num_units = units;
  config.keeps_output = true;
  const bool are_sizes = batch >= 0 && time >= 0 && units >= 0;
  if (!error.empty() || !are_sizes) return -1;
  return SizeOf(config, {time, batch}, element_bytes);
}

}  // namespace tf_rnn_ops
