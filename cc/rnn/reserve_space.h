// What the forward pass of a network leaves for its backward pass.
//
// First a header that names the configuration and the order of the samples, 128
// bytes. Then, in the type that the engine computes in, activations for each
// time and sample, in that order:
//
//   - of each pseudo-layer, what its cell needs: LSTM i, f, g, o and c,
//     5 * num_units; GRU r, u, n and R_n h_prev + bR_n, 4 * num_units; none for
//     rnn_relu and rnn_tanh, whose outputs say enough;
//   - of each layer but the last, its output, num_directions * output_size;
//   - of the last layer too, in a 16-bit type, but for LSTMs: gradients of what
//     is saturated, 1 - h^2 or h - n, are lost in an output that was rounded;
//     and of a Keras layer, whose backward pass is not given the output.
//
// Dropout masks are drawn again from the header's random stream.

#ifndef TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_
#define TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_

#include <array>
#include <cstdint>
#include <string>

#include "cc/rnn/checked_math.h"
#include "cc/rnn/random_stream.h"
#include "cc/rnn/rnn_config.h"

namespace tf_rnn_ops::rnn {

constexpr std::int64_t kReserveSpaceHeaderBytes = 128;

// A copy of the header. It decides what a pass reads and where, so a pass that
// checked it must not read it again from memory that others may write to.
using ReserveSpaceHeader = std::array<char, kReserveSpaceHeaderBytes>;

// How many layers' outputs are kept, from the first on.
template <typename T>
constexpr std::int64_t NumKeptOutputs(const RnnConfig& config) {
  const bool keeps_last =
      (sizeof(T) == 2 && !config.has_cell_state()) || config.has_keras_weights;
  return keeps_last ? config.num_layers : config.num_layers - 1;
}

// The size of a layer's output, [time, batch, num_directions * output_size].
inline CheckedInt LayerOutputSize(const RnnConfig& config,
                                  const RnnSize& size) {
  return CheckedInt(size.time) * size.batch * config.num_directions *
         config.output_size();
}

// The size of what the cells of a layer keep, for each unit, sample, time and
// direction.
inline CheckedInt LayerKeptSize(const RnnConfig& config, const RnnSize& size) {
  return CheckedInt(size.time) * size.batch * config.num_directions *
         TraitsOf(config.mode).kept * config.num_units;
}

// What computes a pass.
enum class Device : std::uint16_t { kCpu, kGpu };

// What must be the same in the forward pass and the backward pass.
struct ReserveSpaceKey {
  RnnConfig config;
  RnnSize size;
  bool time_major;
  const std::int32_t* sequence_lengths;  // [batch], or null
  float dropout;
  Device device = Device::kCpu;
  // What else tells apart what the device keeps.
  std::uint64_t variant = 0;
  StepOrder step_order = {};
};

// The number of elements of type T, or -1 if it exceeds what std::int64_t can
// count. 16-bit types take two elements for an activation.
template <typename T>
std::int64_t ReserveSpaceSize(const RnnConfig& config, const RnnSize& size);

// Fills the header.
// is_sorted: whether the samples lie as SortSamples orders them, not as they
// come.
template <typename T>
void WriteReserveSpaceHeader(const ReserveSpaceKey& key,
                             const RandomStream& stream, void* reserve_space,
                             bool is_sorted = false);

// What is wrong with a reserve_space of `num_elements` for a backward pass with
// this key, in words; empty if nothing is.
// header: its first bytes, if it has so many.
// expected_size: the number of elements that it should have.
template <typename T>
std::string ReserveSpaceMismatch(const ReserveSpaceKey& key, const void* header,
                                 std::int64_t num_elements,
                                 std::int64_t expected_size);

// The same for one of the CPU's engine that nobody else writes to: of tests.
template <typename T>
std::string ReserveSpaceMismatch(const ReserveSpaceKey& key,
                                 const T* reserve_space,
                                 std::int64_t num_elements) {
  return ReserveSpaceMismatch<T>(key, reserve_space, num_elements,
                                 ReserveSpaceSize<T>(key.config, key.size));
}

// What computed the forward pass that left a reserve_space.
struct ReserveSpaceOrigin {
  Device device;
  std::uint64_t variant;
};
// The CPU, for what is no reserve_space at all.
ReserveSpaceOrigin FindReserveSpaceOrigin(const ReserveSpaceHeader& header);

// Copies the header; zeros where there are too few bytes for one.
ReserveSpaceHeader CopyReserveSpaceHeader(const void* reserve_space,
                                          std::int64_t num_bytes);

// The stream in the header.
RandomStream ReserveSpaceStream(const ReserveSpaceHeader& header);

// Whether the header says that the samples are sorted.
bool ReserveSpaceIsSorted(const ReserveSpaceHeader& header);

// How many values of the stream's counter the mask of a layer's output takes:
// four elements each.
inline std::int64_t NumLayerDropoutSamples(const RnnConfig& config,
                                           const RnnSize& size) {
  return (LayerOutputSize(config, size).value() + 3) / 4;
}

// How many the masks of all layers but the first take.
std::int64_t NumDropoutSamples(const RnnConfig& config, const RnnSize& size,
                               float dropout);

}  // namespace tf_rnn_ops::rnn

#endif  // TF_RNN_OPS_CC_RNN_RESERVE_SPACE_H_
